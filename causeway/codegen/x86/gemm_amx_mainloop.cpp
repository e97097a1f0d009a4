// GEMMs of bf16 by AMX's matrix registers (kernels/x86/gemm_amx.h).
#include "causeway/codegen/x86/gemm_mainloops.h"

namespace causeway::codegen {
namespace {

std::optional<GemmBlocks> choose_amx(const GemmProblem& problem, const GemmMachine& machine) {
  GemmBlocks blocks = vector_gemm_blocks(problem, machine);
  if (!blocks.pairs || machine.level != X86Level::kAmxBf16) return std::nullopt;
  blocks.matrix_tiles = true;
  blocks.tile_rows = blocks.tile_columns = 32;
  // Packing a larger B once was measured up to 1.7 times as fast as packing it again for each block of m.
  choose_panels(problem, machine, {.packs_b_once = true, .most_rows = 256}, blocks);
  return blocks;
}

GemmMainloop::Prefetches amx_prefetches(const GemmBlocks&) { return {.a = true, .b = true, .epilogue = true}; }

}  // namespace

const GemmMainloop& x86_amx_gemm_mainloop() {
  static constexpr GemmMainloop kMainloop = {.header = "causeway/kernels/x86/gemm_amx.h",
                                             .pack = "gemm_pack",
                                             .run = "gemm_run",
                                             .choose = choose_amx,
                                             .prefetches = amx_prefetches};
  return kMainloop;
}

}  // namespace causeway::codegen
