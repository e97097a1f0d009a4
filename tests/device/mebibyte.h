#pragma once

#include <cstddef>

namespace causeway::device {

constexpr size_t kMiB = size_t{1} << 20;

}  // namespace causeway::device
