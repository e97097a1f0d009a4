// Element types of tensors and their conversions to and from double on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::graph {

enum class DType : uint8_t { kF32, kBF16, kF16, kF8E4M3, kF8E5M2, kI32, kI64, kI16, kU8, kBool };

inline constexpr DType kAllDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2,
                                       DType::kI32, DType::kI64,  DType::kI16, DType::kU8,     DType::kBool};

// Bytes one element takes in memory (a bool takes one).
size_t size_bytes(DType dtype);
// "f32", "bf16", "f16", "f8e4m3", "f8e5m2", "i32", "i64", "i16", "u8", "bool".
std::string_view dtype_name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

bool is_float(DType dtype);
bool is_integer(DType dtype);  // i32, i64, i16, u8; not bool

// The element at `index` of a packed array, as a double (i64 beyond 2^53 loses low bits).
double read_element(DType dtype, const void* data, size_t index);
// Stores `value` rounded as a cast does: to nearest even for floats (the 8-bit ones saturate at +-448 and +-57344, NaN
// kept), truncation toward zero for integers, non-zero for bool.
void write_element(DType dtype, void* data, size_t index, double value);
// `value` after a round trip through `dtype`.
double round_to_dtype(DType dtype, double value);

}  // namespace causeway::graph
