#include "causeway/graph/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "causeway/base/error.h"

namespace causeway::graph {
namespace {

// Rounds to a binary float with `mantissa_bits` and exponents from `minimum_exponent` (of the smallest normal number),
// ties to even, without limiting the magnitude.
double round_mantissa(double value, int mantissa_bits, int minimum_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int quantum = std::max(exponent - 1, minimum_exponent) - mantissa_bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

double round_bf16(double value) {
  const double rounded = round_mantissa(value, 7, -126);
  return std::abs(rounded) > 3.3895313892515355e38 ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                                   : rounded;
}

double round_f16(double value) {
  const double rounded = round_mantissa(value, 10, -14);
  return std::abs(rounded) > 65504.0 ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

double round_f8e4m3(double value) {
  const double rounded = round_mantissa(value, 3, -6);
  return std::abs(rounded) > 448.0 ? std::copysign(448.0, value) : rounded;
}

double round_f8e5m2(double value) {
  const double rounded = round_mantissa(value, 2, -14);
  return std::abs(rounded) > 57344.0 ? std::copysign(57344.0, value) : rounded;
}

// A small float with `mantissa_bits` and bias `bias`, decoded from `bits`; `has_infinity` as IEEE, else only all-ones
// is NaN (OCP e4m3).
double decode_small(unsigned bits, int exponent_bits, int mantissa_bits, int bias, bool has_infinity) {
  const unsigned sign = bits >> (exponent_bits + mantissa_bits);
  const unsigned exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
  const unsigned all_ones = (1u << exponent_bits) - 1;
  double magnitude = 0;
  if (exponent == all_ones && has_infinity) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == all_ones && mantissa == (1u << mantissa_bits) - 1) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(mantissa + (1u << mantissa_bits), static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return sign != 0 ? -magnitude : magnitude;
}

// The bits of an already rounded `value`.
unsigned encode_small(double value, int exponent_bits, int mantissa_bits, int bias, bool has_infinity) {
  const unsigned sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const unsigned all_ones = (1u << exponent_bits) - 1;
  if (std::isnan(value)) return sign | (all_ones << mantissa_bits) | ((1u << mantissa_bits) - 1);
  if (std::isinf(value)) {
    CAUSEWAY_CHECK(has_infinity);
    return sign | (all_ones << mantissa_bits);
  }
  const double magnitude = std::abs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent -= 1;
  if (exponent < 1 - bias) return sign | static_cast<unsigned>(std::ldexp(magnitude, bias - 1 + mantissa_bits));
  const double fraction = std::ldexp(magnitude, -exponent) - 1.0;
  return sign | (static_cast<unsigned>(exponent + bias) << mantissa_bits) |
         static_cast<unsigned>(std::ldexp(fraction, mantissa_bits));
}

template <class T>
T load(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* data, size_t index, T value) {
  std::memcpy(static_cast<std::byte*>(data) + index * sizeof(T), &value, sizeof(T));
}

template <class T>
T to_integer(double value) {
  if (std::isnan(value)) return 0;
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i32", "i64", "i16", "u8", "bool"};

}  // namespace

size_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kI16:
      return 2;
    default:
      return 1;
  }
}

std::string_view dtype_name(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : kAllDTypes)
    if (dtype_name(dtype) == name) return dtype;
  return std::nullopt;
}

bool is_float(DType dtype) { return dtype <= DType::kF8E5M2; }
bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::kBool; }

double read_element(DType dtype, const void* data, size_t index) {
  switch (dtype) {
    case DType::kF32:
      return load<float>(data, index);
    case DType::kBF16:
      return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(data, index)) << 16);
    case DType::kF16:
      return decode_small(load<uint16_t>(data, index), 5, 10, 15, true);
    case DType::kF8E4M3:
      return decode_small(load<uint8_t>(data, index), 4, 3, 7, false);
    case DType::kF8E5M2:
      return decode_small(load<uint8_t>(data, index), 5, 2, 15, true);
    case DType::kI32:
      return load<int32_t>(data, index);
    case DType::kI64:
      return static_cast<double>(load<int64_t>(data, index));
    case DType::kI16:
      return load<int16_t>(data, index);
    case DType::kU8:
    case DType::kBool:
      return load<uint8_t>(data, index);
  }
  return 0;
}

void write_element(DType dtype, void* data, size_t index, double value) {
  switch (dtype) {
    case DType::kF32:
      return store<float>(data, index, static_cast<float>(value));
    case DType::kBF16:
      return store<uint16_t>(
          data, index,
          static_cast<uint16_t>(std::bit_cast<uint32_t>(std::isnan(value) ? std::numeric_limits<float>::quiet_NaN()
                                                                          : static_cast<float>(round_bf16(value))) >>
                                16));
    case DType::kF16:
      return store<uint16_t>(data, index, static_cast<uint16_t>(encode_small(round_f16(value), 5, 10, 15, true)));
    case DType::kF8E4M3:
      return store<uint8_t>(data, index, static_cast<uint8_t>(encode_small(round_f8e4m3(value), 4, 3, 7, false)));
    case DType::kF8E5M2:
      return store<uint8_t>(data, index, static_cast<uint8_t>(encode_small(round_f8e5m2(value), 5, 2, 15, true)));
    case DType::kI32:
      return store<int32_t>(data, index, to_integer<int32_t>(value));
    case DType::kI64:
      return store<int64_t>(data, index, to_integer<int64_t>(value));
    case DType::kI16:
      return store<int16_t>(data, index, to_integer<int16_t>(value));
    case DType::kU8:
      return store<uint8_t>(data, index, to_integer<uint8_t>(value));
    case DType::kBool:
      return store<uint8_t>(data, index, value != 0 ? 1 : 0);
  }
}

double round_to_dtype(DType dtype, double value) {
  std::byte storage[8];
  write_element(dtype, storage, 0, value);
  return read_element(dtype, storage, 0);
}

}  // namespace causeway::graph
