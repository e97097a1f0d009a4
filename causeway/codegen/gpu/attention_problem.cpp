#include "causeway/codegen/gpu/attention_problem.h"

namespace causeway::codegen {

bool GpuAttentionRows::fits_tma() const {
  constexpr std::array<size_t, 3> kAxes = {0, 2, 1};  // of `shape`, in the order of `strides`
  for (size_t i = 0; i < kAxes.size(); ++i)
    if (strides[i].is_constant(0) && !shape[kAxes[i]].is_constant(1)) return false;
  return true;
}

bool has_whole_pieces(const GpuAttentionProblem& problem) {
  return problem.head_dim * problem.element_bytes() % 16 == 0;
}

}  // namespace causeway::codegen
