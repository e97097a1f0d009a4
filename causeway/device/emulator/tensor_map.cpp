#include "causeway/device/emulator/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "causeway/base/error.h"
#include "causeway/device/emulator/matrix_unit.h"

namespace causeway::device {

namespace {

constexpr uint64_t kTensorMapMark = 0x70616d726f736e74;
constexpr int kPieceBytes = 16;

void require(bool condition, std::string what) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, std::move(what), "tensor map");
}

// Calls visit(offset of the 16-byte piece in shared memory, device address of its first byte, first and last byte that
// lie inside the tensor) for every piece of the box; the byte range is empty for a piece that lies outside.
template <class Visit>
void for_each_piece(const EmulatedTensorMap& map, const BoxCoordinates& first, int offset, const Visit& visit) {
  std::array<int, TensorMap::kMaxRank> at{};
  for (int row = 0; row < map.box_rows(); ++row) {
    int rest = row;
    bool inside = true;
    int64_t address = 0;
    for (int d = 1; d < map.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      at[i] = rest % map.box[i];
      rest /= map.box[i];
      const int64_t coordinate = int64_t{first[i]} + at[i];
      inside = inside && coordinate >= 0 && coordinate < map.sizes[i];
      address += coordinate * map.stride_bytes[i];
    }
    for (int byte = 0; byte < map.row_bytes(); byte += kPieceBytes) {
      const int64_t begin = int64_t{first[0]} * map.element_bytes + byte;
      const int64_t limit = int64_t{map.sizes[0]} * map.element_bytes;
      const auto low = static_cast<int>(std::clamp<int64_t>(-begin, 0, kPieceBytes));
      const auto high = static_cast<int>(std::clamp<int64_t>(limit - begin, 0, kPieceBytes));
      visit(swizzle_offset(offset + row * map.shared_row_bytes() + byte, map.swizzle_bytes), address + begin, low,
            inside ? std::max(low, high) : low);
    }
  }
}

// Of an f32, as an H100 rounds them.
uint32_t round_to_tf32(uint32_t bits) {
  constexpr uint32_t kDropped = 0x1fff;
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fffffff & ~kDropped;
  return (bits + kDropped / 2 + (bits >> 13 & 1)) & ~kDropped;
}

}  // namespace

bool EmulatedTensorMap::is_valid() const { return mark == kTensorMapMark; }

int EmulatedTensorMap::box_rows() const {
  int rows = 1;
  for (size_t d = 1; d < rank; ++d) rows *= box[d];
  return rows;
}

EmulatedTensorMap encode_tensor_map(const TensorMap& map, void* buffer) {
  require(map.rank >= 1 && map.rank <= TensorMap::kMaxRank, fmt::format("rank {} is not in 1..5", map.rank));
  require(map.element_bytes == 1 || map.element_bytes == 2 || map.element_bytes == 4,
          fmt::format("elements of {} bytes are not supported", map.element_bytes));
  require(map.element_bytes == 4 || !map.rounds_to_tf32, "elements that are rounded to tf32 have 4 bytes");
  EmulatedTensorMap encoded;
  encoded.mark = kTensorMapMark;
  encoded.base = static_cast<std::byte*>(buffer) + map.offset;
  encoded.rank = static_cast<uint8_t>(map.rank);
  encoded.element_bytes = static_cast<uint8_t>(map.element_bytes);
  require(reinterpret_cast<uintptr_t>(encoded.base) % kPieceBytes == 0, "the first element is not 16-byte aligned");
  for (int d = 0; d < map.rank; ++d) {
    const auto i = static_cast<size_t>(d);
    require(map.sizes[i] >= 1 && map.sizes[i] <= int64_t{1} << 32,
            fmt::format("size {} of dimension {} is not in 1..2^32", map.sizes[i], d));
    require(map.box[i] >= 1 && map.box[i] <= 256,
            fmt::format("box {} of dimension {} is not in 1..256", map.box[i], d));
    require(d == 0 ? map.stride_bytes[i] == map.element_bytes
                   : map.stride_bytes[i] % kPieceBytes == 0 && map.stride_bytes[i] > 0 &&
                         map.stride_bytes[i] < int64_t{1} << 40,
            fmt::format("stride {} of dimension {} is not {}", map.stride_bytes[i], d,
                        d == 0 ? "the size of an element" : "a positive multiple of 16 below 2^40"));
    encoded.sizes[i] = static_cast<uint32_t>(std::min<int64_t>(map.sizes[i], 0xffffffff));
    encoded.stride_bytes[i] = map.stride_bytes[i];
    encoded.box[i] = static_cast<uint16_t>(map.box[i]);
  }
  require(encoded.row_bytes() % kPieceBytes == 0,
          fmt::format("a row of the box has {} bytes, not a multiple of 16", encoded.row_bytes()));
  require(map.swizzle_bytes == 0 || map.swizzle_bytes == 32 || map.swizzle_bytes == 64 || map.swizzle_bytes == 128,
          fmt::format("swizzle of {} bytes is not 0, 32, 64 or 128", map.swizzle_bytes));
  require(map.swizzle_bytes == 0 || encoded.row_bytes() <= map.swizzle_bytes,
          fmt::format("a row of the box has {} bytes, its swizzle {}", encoded.row_bytes(), map.swizzle_bytes));
  encoded.swizzle_bytes = static_cast<uint8_t>(map.swizzle_bytes);
  encoded.rounds_to_tf32 = map.rounds_to_tf32;
  return encoded;
}

void load_box(const EmulatedTensorMap& map, const BoxCoordinates& first, std::byte* shared, int offset) {
  for_each_piece(map, first, offset, [&](int to, int64_t from, int low, int high) {
    std::memset(shared + to, 0, kPieceBytes);
    if (high > low) std::memcpy(shared + to + low, map.base + from + low, static_cast<size_t>(high - low));
    if (!map.rounds_to_tf32) return;
    std::array<uint32_t, kPieceBytes / 4> elements{};
    std::memcpy(elements.data(), shared + to, kPieceBytes);
    std::ranges::transform(elements, elements.begin(), round_to_tf32);
    std::memcpy(shared + to, elements.data(), kPieceBytes);
  });
}

void store_box(const EmulatedTensorMap& map, const BoxCoordinates& first, const std::byte* box, int offset) {
  for_each_piece(map, first, offset, [&](int from, int64_t to, int low, int high) {
    if (high > low) std::memcpy(map.base + to + low, box + (from - offset) + low, static_cast<size_t>(high - low));
  });
}

}  // namespace causeway::device
