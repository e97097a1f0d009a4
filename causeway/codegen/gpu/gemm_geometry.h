// Chooses how a GPU's GEMM is cut into tiles and k into parts. Pure: the same arguments give the same choice, which
// depends on the architecture and never on how many multiprocessors a device happens to have, because the parts of k
// decide the order of sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/codegen/gpu/schedules.h"
#include "causeway/codegen/x86/gemm_geometry.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/skinny_gemm_layout.h"

namespace causeway::codegen {

struct GpuGemmChoice {
  GpuGemmTile tile;
  int splits = 1;
};

// Sizes may be kUnknownSize, which are taken to be large; a GEMM
// whose sizes are not all known is never split.
GpuGemmChoice choose_gpu_gemm(const GpuArchitecture& architecture, GemmOperand operand, int64_t batch, int64_t m,
                              int64_t n, int64_t k);

// Of a GEMM of skinny_gemm.h.
SkinnyGemmTile choose_skinny_gemm(const GpuArchitecture& architecture, int64_t batch, int64_t m, int64_t n, int64_t k);

struct HopperGemmPlan {
  HopperGemmTile tile;
  int splits = 1;
  int64_t whole_tiles = 0;  // with splits above 1: the first tiles, whose k is not split
};

// How lines of the operands lie: contiguous along k, or side by side.
struct GemmOrder {
  bool a_along_k = true, b_along_k = true;
  bool a_in_registers = false;       // floats of A that are not along k
  bool few_batch_dimensions = true;  // one at most: such lines can be copied to several blocks at once
  bool may_swap = false;             // operands and what is sent are of two bytes, and nothing is added to it
  bool one_result = true;            // and not two
};

// A plan, but for its stages, and what the model (HopperGemmTimes and others) says that it takes.
struct HopperGemmOffer {
  HopperGemmPlan plan;
  double microseconds;
};

// What choose_hopper_gemm takes the fastest of.
std::vector<HopperGemmOffer> hopper_gemm_offers(const GpuArchitecture& architecture, HopperGemmAccumulators sums,
                                                HopperGemmStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                                GemmOrder order = {},
                                                const HopperGemmFigures& figures = hopper_gemm_figures());

// The same for the GEMMs that gemm_hopper.h computes. `stores`: how results leave, not kAny.
HopperGemmPlan choose_hopper_gemm(const GpuArchitecture& architecture, HopperGemmAccumulators sums,
                                  HopperGemmStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                  GemmOrder order = {});

// "static constexpr GpuGemmTile kTile = {.m = 128, ...};".
std::string gemm_tile_text(const GpuGemmTile& tile);
std::string gemm_tile_text(const HopperGemmTile& tile);
std::string gemm_tile_text(const SkinnyGemmTile& tile);

}  // namespace causeway::codegen
