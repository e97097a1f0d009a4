// Sizes of GEMMs that blocks and tiles are chosen by.
#pragma once

#include <cstdint>

#include "causeway/graph/dim.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

// One that is not known when the kernel is compiled.
constexpr int64_t kUnknownSize = -1;
inline int64_t known_size(const Dim& size) { return size.is_constant() ? size.constant() : kUnknownSize; }

}  // namespace causeway::codegen
