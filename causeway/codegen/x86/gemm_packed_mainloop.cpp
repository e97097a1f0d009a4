// GEMMs of packed panels by vectors of any width (kernels/x86/gemm.h): every GEMM.
#include "causeway/codegen/x86/gemm_mainloops.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kAvx2TileColumns = 24;

std::optional<GemmBlocks> choose_packed(const GemmProblem& problem, const GemmMachine& machine) {
  GemmBlocks blocks = vector_gemm_blocks(problem, machine);
  choose_panels(problem, machine, {}, blocks);
  return blocks;
}

// With AVX2, where a tile of sums is small and its rows many, waiting for what is read where they are stored, in rows
// that lie pages apart, was up to a tenth of a GEMM.
GemmMainloop::Prefetches packed_prefetches(const GemmBlocks& blocks) {
  const bool avx2 = blocks.tile_columns == kAvx2TileColumns;
  return {.a = avx2, .b = avx2, .epilogue = avx2};
}

}  // namespace

const GemmMainloop& x86_packed_gemm_mainloop() {
  static constexpr GemmMainloop kMainloop = {.header = "causeway/kernels/x86/gemm.h",
                                             .pack = "gemm_pack",
                                             .run = "gemm_run",
                                             .choose = choose_packed,
                                             .prefetches = packed_prefetches};
  return kMainloop;
}

}  // namespace causeway::codegen
