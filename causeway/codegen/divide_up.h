#pragma once

#include <cstdint>

namespace causeway::codegen {

// The integer ceil(value / divisor).
constexpr int64_t divide_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

}  // namespace causeway::codegen
