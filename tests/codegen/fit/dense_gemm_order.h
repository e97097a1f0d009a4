// How the lines of a measured GEMM lie: the measurements in tests/kernels/hopper_gemms_*_h200.txt say its order and
// sizes.
#pragma once

#include <cstdint>
#include <string_view>

#include "causeway/codegen/gpu/gemm_hopper_model.h"

namespace causeway::codegen {

// Of matrices of two bytes an element without gaps between lines; `order` as BLAS names it: "nt".
inline GemmOrder dense_gemm_order(std::string_view order, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kOfSector = kSectorBytes / 2;  // elements
  const bool a_along_k = order[0] == 'n', b_along_k = order[1] == 't';
  return {.a_along_k = a_along_k,
          .b_along_k = b_along_k,
          .a_splits_sectors = (a_along_k ? k : m) % kOfSector != 0,
          .b_splits_sectors = (b_along_k ? k : n) % kOfSector != 0,
          .results_split_sectors = n % kOfSector != 0};
}

}  // namespace causeway::codegen
