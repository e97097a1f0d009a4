// Chooses how a GPU matmul is cut into tiles and k into parts. Pure: the same arguments give the same choice, which
// depends on the architecture and never on how many multiprocessors a device happens to have, because the parts of k
// decide the order of sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/codegen/gpu/schedules.h"
#include "causeway/codegen/x86/matmul_geometry.h"
#include "causeway/kernels/gpu/thin_matmul_layout.h"

namespace causeway::codegen {

struct GpuMatmulPlan {
  GpuMatmulTile tile;
  int splits = 1;
};

// Sizes may be kUnknownSize, which are taken to be large; a product
// whose sizes are not all known is never split.
GpuMatmulPlan choose_gpu_matmul(const GpuArchitecture& architecture, MatmulOperand operand, int64_t batch, int64_t m,
                                int64_t n, int64_t k);

// Of a product of thin_matmul.h.
ThinMatmulTile choose_thin_matmul(const GpuArchitecture& architecture, int64_t batch, int64_t m, int64_t n, int64_t k);

struct HopperMatmulPlan {
  HopperMatmulTile tile;
  int splits = 1;
  int64_t whole_tiles = 0;  // with splits above 1: the first tiles, whose k is not split
};

// How lines of the operands lie: contiguous along k, or side by side.
struct MatmulOrder {
  bool a_along_k = true, b_along_k = true;
  bool a_in_registers = false;       // floats of A that are not along k
  bool few_batch_dimensions = true;  // one at most: such lines can be copied to several blocks at once
  bool may_transpose = false;        // operands and what is sent are of two bytes, and nothing is added to it
  bool one_result = true;            // and not two
};

// A plan, but for its stages, and what the model (HopperMatmulTimes and others) says that it takes.
struct HopperMatmulOffer {
  HopperMatmulPlan plan;
  double microseconds;
};

// What choose_hopper_matmul takes the fastest of.
std::vector<HopperMatmulOffer> hopper_matmul_offers(const GpuArchitecture& architecture, HopperMatmulSums sums,
                                                    HopperMatmulStores stores, int64_t batch, int64_t m, int64_t n,
                                                    int64_t k, MatmulOrder order = {});

// The same for the products that matmul_hopper.h computes. `stores`: how results leave, not kAny.
HopperMatmulPlan choose_hopper_matmul(const GpuArchitecture& architecture, HopperMatmulSums sums,
                                      HopperMatmulStores stores, int64_t batch, int64_t m, int64_t n, int64_t k,
                                      MatmulOrder order = {});

// "static constexpr GpuMatmulTile kTile = {...};".
std::string matmul_tile_text(const GpuMatmulTile& tile);
std::string matmul_tile_text(const HopperMatmulTile& tile);

}  // namespace causeway::codegen
