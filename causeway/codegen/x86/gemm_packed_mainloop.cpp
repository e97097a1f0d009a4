// GEMMs of packed panels by vectors of any width (kernels/x86/gemm.h): every GEMM.
#include "causeway/codegen/x86/gemm_mainloops.h"

namespace causeway::codegen {
namespace {

std::optional<GemmBlocks> choose_packed(const GemmProblem& problem, const GemmMachine& machine) {
  GemmBlocks blocks = vector_gemm_blocks(problem, machine);
  choose_panels(problem, machine, {}, blocks);
  return blocks;
}

}  // namespace

const GemmMainloop& x86_packed_gemm_mainloop() {
  static constexpr GemmMainloop kMainloop = {
      .header = "causeway/kernels/x86/gemm.h", .pack = "gemm_pack", .run = "gemm_run", .choose = choose_packed};
  return kMainloop;
}

}  // namespace causeway::codegen
