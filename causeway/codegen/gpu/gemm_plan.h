// How a GPU computes a GEMM: which mainloop, how its tiles are scheduled, how results are stored. The only place that
// knows what each of them serves: fusion asks it, and the writer (dot_kernel.cpp) prints what it says. Pure: the same
// arguments give the same plan.
#pragma once

#include <optional>
#include <variant>

#include "causeway/codegen/gpu/gemm_geometry.h"
#include "causeway/codegen/gpu/gemm_problem.h"

namespace causeway::codegen {

// Which block computes which tile, or part of one.
struct GpuGemmTileScheduler {
  // Whether blocks compute tiles until none is left. Otherwise each computes one.
  bool persistent = false;
  int cluster = 1;  // blocks of a cluster
  // Split-K: parts of a tile's k that blocks of their own sum, and that a second launch adds up in order.
  int splits = 1;
  // Of persistent ones with splits above 1: how many of the first clusters of tiles are not split, and how many are.
  int64_t whole_tiles = 0;
  int64_t split_tiles = 0;
};

// What is multiplied, and in which tiles: GpuGemmTile of gemm.h and gemm_cdna.h, SkinnyGemmTile of skinny_gemm.h,
// HopperGemmTile of gemm_hopper.h.
struct GpuGemmMainloop {
  GpuGemmType type = GpuGemmType::kBF16;
  // As the mainloop has them: in pairs where those are multiplied; those of the transposes, C^T = B^T A^T, where A and
  // B are swapped. Lines of A are the rows of that GEMM, lines of B its columns.
  GpuGemmOperand a, b;
  Dim k;
  std::variant<GpuGemmTile, SkinnyGemmTile, HopperGemmTile> tile;

  const HopperGemmTile* hopper() const { return std::get_if<HopperGemmTile>(&tile); }
  const SkinnyGemmTile* skinny() const { return std::get_if<SkinnyGemmTile>(&tile); }
  const GpuGemmTile* portable() const { return std::get_if<GpuGemmTile>(&tile); }
  bool swaps_operands() const { return hopper() != nullptr && hopper()->swapped; }
};

struct GpuGemmEpiloguePlan {
  // Whether TMA stores the results, and loads what is read at their place.
  bool stores_by_tma = false;
  int store_lanes = 1;  // neighbours of a row that are stored together otherwise
};

struct GpuGemmPlan {
  GpuGemmTileScheduler scheduler;
  GpuGemmMainloop mainloop;
  GpuGemmEpiloguePlan epilogue;
};

// Which of the portable mainloop's schedules (schedules.h) are for it.
GemmOperand portable_operand(GpuGemmType type);

// Nothing where no mainloop serves: of scaled_dot, on most architectures.
std::optional<GpuGemmPlan> plan_gemm(const GpuGemmProblem& problem, const GpuArchitecture& architecture);

// Whether the skinny GEMM (skinny_gemm.h) takes the operands as they lie.
bool serves_skinny_gemm(const GpuGemmProblem& problem, const GpuArchitecture& architecture);

// Whether what the epilogue computes costs no time of its own: TMA stores its results while the tensor cores multiply
// the next tile. Asked before there is a kernel: of the problem, a's dtype, n, epilogue and fixed_order count.
bool hides_epilogue(const GpuGemmProblem& problem, const GpuArchitecture& architecture);

}  // namespace causeway::codegen
