// How a GPU computes a GEMM: which mainloop, how its tiles are scheduled, how results are stored. Fusion asks it, and
// the writer (dot_kernel.cpp) prints what it says. What each mainloop serves is in the mainloop's own file
// (gemm_mainloops.h). Pure: the same arguments give the same plan.
#pragma once

#include <any>
#include <optional>

#include "causeway/codegen/gpu/gemm_problem.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::codegen {

struct GpuGemmMainloop;

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

// What is multiplied, by which mainloop, and in which tiles.
struct GpuGemmMainloopPlan {
  const GpuGemmMainloop* kind = nullptr;
  GpuGemmType type = GpuGemmType::kBF16;
  // As the mainloop has them: in pairs where those are multiplied; those of the transposes, C^T = B^T A^T, where A and
  // B are swapped. Lines of A are the rows of that GEMM, lines of B its columns.
  GpuGemmOperand a, b;
  Dim k;
  // Of the type that the mainloop's kernel text has for it, and its file knows.
  std::any tile;

  // Nothing where it is a tile of another type.
  template <class Tile>
  const Tile* tile_of() const {
    return std::any_cast<Tile>(&tile);
  }
};

struct GpuGemmEpiloguePlan {
  // Whether TMA stores the results, and loads what is read at their place.
  bool stores_by_tma = false;
  int store_lanes = 1;  // neighbours of a row that are stored together otherwise
};

struct GpuGemmPlan {
  GpuGemmTileScheduler scheduler;
  GpuGemmMainloopPlan mainloop;
  GpuGemmEpiloguePlan epilogue;
};

// By the first mainloop that serves it. Nothing where none does: of scaled_dot, on most architectures.
std::optional<GpuGemmPlan> plan_gemm(const GpuGemmProblem& problem, const GpuArchitecture& architecture);

// How blocks compute a few rows of A themselves, sooner than a launch of their own does.
struct GpuGemmOwnRows {
  int shared_offset = 0;  // where the rows go in shared memory; the bytes before it serve sums over the block
  int most_threads = 0;   // of a block
};
// Nothing where the problem's mainloop cannot.
std::optional<GpuGemmOwnRows> plan_own_rows(const GpuGemmProblem& problem, const GpuArchitecture& architecture);

// Whether what the epilogue computes costs no time of its own: TMA stores its results while the tensor cores multiply
// the next tile. Asked before there is a kernel: of the problem, a's dtype, n, epilogue and fixed_order count.
bool hides_epilogue(const GpuGemmProblem& problem, const GpuArchitecture& architecture);

// Whether a view is worth a copy that is contiguous in k: no mainloop takes it as it lies, or one that is much faster
// does not. `operand`: of the problem.
bool gains_from_copy(const GpuGemmProblem& problem, const GpuGemmOperand& operand, const GpuArchitecture& architecture);

}  // namespace causeway::codegen
