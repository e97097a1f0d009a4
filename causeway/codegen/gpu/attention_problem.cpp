#include "causeway/codegen/gpu/attention_problem.h"

namespace causeway::codegen {

bool has_whole_pieces(const GpuAttentionProblem& problem) {
  return problem.head_dim * problem.element_bytes() % 16 == 0 && problem.value_dim * problem.element_bytes() % 16 == 0;
}

}  // namespace causeway::codegen
