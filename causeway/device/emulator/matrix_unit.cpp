#include "causeway/device/emulator/matrix_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "causeway/base/error.h"
#include "causeway/graph/dtype.h"

namespace causeway::device {

namespace {

constexpr int kWaveNvidia = 32;
constexpr int kWaveAmd = 64;
constexpr int kTile = 16;

template <class T>
T read_as(const void* array, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(array) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

std::array<float, 256> decode_bytes(DType dtype) {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) {
    const uint8_t byte = static_cast<uint8_t>(code);
    values[static_cast<size_t>(code)] = static_cast<float>(read_element(dtype, &byte, 0));
  }
  return values;
}

// The formats without infinities and -0 that CDNA 3 has: one code is not a number.
std::array<float, 256> decode_fnuz(int mantissa_bits, int bias) {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code & 0x7f) >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    const float magnitude =
        std::ldexp(static_cast<float>(significand), (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
    values[static_cast<size_t>(code)] = code == 0x80  ? std::numeric_limits<float>::quiet_NaN()
                                        : code > 0x80 ? -magnitude
                                                      : magnitude;
  }
  return values;
}

const std::array<float, 256>& values_of_bytes(MatrixElement element) {
  static const std::array<float, 256> e4m3 = decode_bytes(DType::kF8E4M3), e5m2 = decode_bytes(DType::kF8E5M2),
                                      e4m3_fnuz = decode_fnuz(3, 8), e5m2_fnuz = decode_fnuz(2, 16);
  return element == MatrixElement::kF8E4M3       ? e4m3
         : element == MatrixElement::kF8E5M2     ? e5m2
         : element == MatrixElement::kF8E4M3Fnuz ? e4m3_fnuz
                                                 : e5m2_fnuz;
}

// What a lane holds of an operand, of at most eight elements.
class LaneElements {
 public:
  LaneElements(MatrixElement element, const void* registers, int count) {
    for (int i = 0; i < count; ++i) values_[static_cast<size_t>(i)] = matrix_element(element, registers, i);
  }
  float operator[](int index) const { return values_[static_cast<size_t>(index)]; }

 private:
  std::array<float, 8> values_;
};

// c += a b, in float; Wide is a type in which products of elements are exact where they do not underflow.
template <class Wide, int kDepth>
void multiply_tile(float (&c)[kTile][kTile], const float (&a)[kTile][kDepth], const float (&b)[kDepth][kTile],
                   int depth) {
  for (int row = 0; row < kTile; ++row) {
    std::array<float, kTile> sums = std::to_array(c[row]);
    for (int k = 0; k < depth; ++k) {
      const auto factor = static_cast<Wide>(a[row][k]);
      for (size_t column = 0; column < kTile; ++column)
        sums[column] = static_cast<float>(factor * b[k][column] + sums[column]);
    }
    std::copy(sums.begin(), sums.end(), c[row]);
  }
}

}  // namespace

int matrix_element_bytes(MatrixElement element) {
  switch (element) {
    case MatrixElement::kBF16:
    case MatrixElement::kF16:
      return 2;
    case MatrixElement::kF32:
    case MatrixElement::kTF32:
      return 4;
    case MatrixElement::kF8E4M3:
    case MatrixElement::kF8E5M2:
    case MatrixElement::kF8E4M3Fnuz:
    case MatrixElement::kF8E5M2Fnuz:
      return 1;
  }
  CAUSEWAY_CHECK(false, "matrix element {}", static_cast<int>(element));
}

float matrix_element(MatrixElement element, const void* array, int64_t index) {
  switch (element) {
    case MatrixElement::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(read_as<uint16_t>(array, index)) << 16);
    case MatrixElement::kF16:
      return static_cast<float>(read_as<_Float16>(array, index));
    case MatrixElement::kF32:
      return read_as<float>(array, index);
    case MatrixElement::kTF32:  // the other bits are not looked at
      return std::bit_cast<float>(read_as<uint32_t>(array, index) & ~0x1fffu);
    case MatrixElement::kF8E4M3:
    case MatrixElement::kF8E5M2:
    case MatrixElement::kF8E4M3Fnuz:
    case MatrixElement::kF8E5M2Fnuz:
      return values_of_bytes(element)[read_as<uint8_t>(array, index)];
  }
  CAUSEWAY_CHECK(false, "matrix element {}", static_cast<int>(element));
}

void load_matrices(void* const* lanes, bool transposed) {
  uint16_t elements[4][8][8];
  for (int lane = 0; lane < kWaveNvidia; ++lane) {
    std::memcpy(elements[lane / 8][lane % 8], static_cast<const LaneMatrixLoad*>(lanes[lane])->row, 16);
  }
  for (int lane = 0; lane < kWaveNvidia; ++lane) {
    uint32_t* registers = static_cast<const LaneMatrixLoad*>(lanes[lane])->registers;
    const int line = lane / 4, pair = lane % 4 * 2;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const uint32_t low = transposed ? elements[matrix][pair][line] : elements[matrix][line][pair];
      const uint32_t high = transposed ? elements[matrix][pair + 1][line] : elements[matrix][line][pair + 1];
      registers[matrix] = low | high << 16;
    }
  }
}

void multiply_matrices_nvidia(void* const* lanes, MatrixElement element) {
  CAUSEWAY_CHECK(matrix_element_bytes(element) == 2 || element == MatrixElement::kTF32);
  float a[kTile][kTile], b[kTile][kTile], c[kTile][kTile];
  for (int lane = 0; lane < kWaveNvidia; ++lane) {
    const auto& operands = *static_cast<const LaneMatrixMultiply*>(lanes[lane]);
    const int group = lane / 4, pair = lane % 4 * 2;
    const LaneElements of_a(element, operands.a, 8), of_b(element, operands.b, 8);
    for (int word = 0; word < (element == MatrixElement::kTF32 ? 8 : 4); ++word) {
      if (element == MatrixElement::kTF32) {
        // A's registers: the lower eight rows, then the upper, of each four k. B's: each four k of the first eight
        // columns, then of the others.
        a[group + word % 2 * 8][lane % 4 + word / 2 * 4] = of_a[word];
        b[lane % 4 + word % 4 * 4][group + word / 4 * 8] = of_b[word];
        continue;
      }
      for (int half = 0; half < 2; ++half) {
        // A's registers: the lower eight rows, then the upper, of the first eight k, then of the others. B's: the first
        // eight k, then the others, of the first eight columns, then of the others.
        a[group + word % 2 * 8][pair + half + word / 2 * 8] = of_a[2 * word + half];
        b[pair + half + word % 2 * 8][group + word / 2 * 8] = of_b[2 * word + half];
      }
    }
    for (int i = 0; i < 8; ++i) c[group + (i & 2) * 4][pair + (i & 1) + (i & 4) * 2] = operands.c[i];
  }
  multiply_tile<float>(c, a, b, kTile);
  for (int lane = 0; lane < kWaveNvidia; ++lane) {
    const auto& operands = *static_cast<const LaneMatrixMultiply*>(lanes[lane]);
    for (int i = 0; i < 8; ++i) operands.c[i] = c[lane / 4 + (i & 2) * 4][lane % 4 * 2 + (i & 1) + (i & 4) * 2];
  }
}

void multiply_matrices_amd(void* const* lanes, MatrixElement a_element, MatrixElement b_element) {
  // Lane l holds line l % 16 and four elements of depth, eight of 8 bits. For float these are operands of four
  // instructions of depth 4, in each of which the lane's k is l / 16; the order of k in the sum follows from that.
  const int of_lane = matrix_element_bytes(a_element) == 1 ? 8 : 4, depth = 4 * of_lane;
  const bool floats = a_element == MatrixElement::kF32;
  float a[kTile][2 * kTile], b[2 * kTile][kTile], c[kTile][kTile];
  for (int lane = 0; lane < kWaveAmd; ++lane) {
    const auto& operands = *static_cast<const LaneMatrixMultiply*>(lanes[lane]);
    const LaneElements of_a(a_element, operands.a, of_lane), of_b(b_element, operands.b, of_lane);
    for (int i = 0; i < of_lane; ++i) {
      const int k = floats ? 4 * i + lane / 16 : lane / 16 * of_lane + i;
      a[lane % 16][k] = of_a[i];
      b[k][lane % 16] = of_b[i];
    }
    for (int i = 0; i < 4; ++i) c[lane / 16 * 4 + i][lane % 16] = operands.c[i];
  }
  if (floats) {
    multiply_tile<double>(c, a, b, depth);
  } else {
    multiply_tile<float>(c, a, b, depth);
  }
  for (int lane = 0; lane < kWaveAmd; ++lane) {
    const auto& operands = *static_cast<const LaneMatrixMultiply*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) operands.c[i] = c[lane / 16 * 4 + i][lane % 16];
  }
}

int swizzle_offset(int offset, int swizzle_bytes) {
  if (swizzle_bytes == 0) return offset;
  const int pieces = swizzle_bytes / 16;
  return offset ^ ((offset >> 7 & (pieces - 1)) << 4);
}

std::string SharedOperand::decode(uint64_t descriptor) {
  constexpr uint64_t kField = 0x3fff;
  start = static_cast<int>((descriptor & kField) << 4);
  leading_bytes = static_cast<int>((descriptor >> 16 & kField) << 4);
  stride_bytes = static_cast<int>((descriptor >> 32 & kField) << 4);
  swizzle_bytes = std::array<int, 4>{0, 128, 64, 32}[descriptor >> 62];
  if ((descriptor >> 49 & 7) != 0) return "has a base offset, which is not supported";
  const int pattern = swizzle_bytes * 8;
  if (swizzle_bytes > 0 && start % pattern >= swizzle_bytes) {
    return fmt::format("starts at {:#x}, inside the pattern of {} bytes of its {}-byte swizzle", start, pattern,
                       swizzle_bytes);
  }
  return {};
}

int SharedOperand::offset(int line, int k, int element_bytes, bool transposed) const {
  const int per_piece = 16 / element_bytes;
  if (swizzle_bytes == 0) {
    const int within =
        transposed ? line % per_piece * element_bytes + k % 8 * 16 : line % 8 * 16 + k % per_piece * element_bytes;
    const int line_group = transposed ? line / per_piece : line / 8;
    const int k_group = transposed ? k / 8 : k / per_piece;
    return start + within + line_group * stride_bytes + k_group * leading_bytes;
  }
  if (!transposed) {
    return swizzle_offset(start + line / 8 * stride_bytes + line % 8 * swizzle_bytes + k * element_bytes,
                          swizzle_bytes);
  }
  const int width = swizzle_bytes / element_bytes;
  return swizzle_offset(start + line / width * leading_bytes + line % width * element_bytes + k / 8 * stride_bytes +
                            k % 8 * swizzle_bytes,
                        swizzle_bytes);
}

int warpgroup_accumulator_row(int thread, int index) {
  return thread % 128 / 32 * 16 + thread % 32 / 4 + (index & 2) * 4;
}
int warpgroup_accumulator_column(int thread, int index) { return index / 4 * 8 + thread % 4 * 2 + (index & 1); }

void multiply_dense(float* c, const float* a, const float* b, int columns, int depth) {
  for (int row = 0; row < 64; ++row) {
    for (int k = 0; k < depth; ++k) {
      const float factor = a[row * depth + k];
      const float* from = b + static_cast<ptrdiff_t>(k) * columns;
      float* to = c + static_cast<ptrdiff_t>(row) * columns;
      for (int column = 0; column < columns; ++column) to[column] += factor * from[column];
    }
  }
}

}  // namespace causeway::device
