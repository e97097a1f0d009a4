// What describes a mainloop of GEMMs on GPUs. Its kernel text is in kernels/gpu/; one file of this folder says all
// else: what it serves, in which tiles, what its kernel text asks of the Problem, and how it is launched.
// gemm_mainloops.h lists them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/codegen/gpu/gemm_plan.h"

namespace causeway::codegen {

// What launches a mainloop, and what its kernel is declared with.
struct GpuGemmLaunch {
  KernelPhase run;
  int blocks_per_unit = 1;
  int tensor_maps = 0;
  bool begins_early = false;
  // Where k is split: the launch that adds up the parts, and bytes of the parts' sums.
  std::optional<KernelPhase> combine;
  SizeFunction workspace_bytes;
};

struct GpuGemmMainloop {
  std::string_view header;  // with its kernel text
  // Functions there. A block runs
  //   run(problem [, maps] , task or counter [, rows])
  // with `maps` where TMA loads operands, the counter that blocks take tasks from where the scheduler is persistent,
  // and a function that computes rows of A where blocks may. The second launch of a GEMM whose k is split:
  //   combine(problem, task)
  std::string_view run, combine;
  // Whether it serves problems with groups of rows; otherwise those without.
  bool grouped = false;
  // Nothing where it does not serve the problem. plan_gemm() adds `kind` and `store_lanes`.
  std::optional<GpuGemmPlan> (*plan)(const GpuGemmProblem& problem, const GpuArchitecture& architecture) = nullptr;
  // Members of the Problem: kTile, and what else it is to know of the plan, a line each.
  std::string (*members)(const GpuGemmPlan& plan) = nullptr;
  GpuGemmLaunch (*launch)(const GpuGemmProblem& problem, const GpuGemmPlan& plan,
                          const GpuArchitecture& architecture) = nullptr;

  // Null where threads load operands. Otherwise maps of A, of B and, where TMA stores the results, of `at_result`: what
  // is stored, then what is read at its place. They are positions among the kernel's arguments, as `a` and `b` are.
  TensorMapFunction (*tensor_maps)(const GpuGemmProblem& problem, const GpuGemmPlan& plan, int a, int b,
                                   const std::vector<int>& at_result) = nullptr;
  // As the functions of gemm_plan.h. Null where it never does.
  std::optional<GpuGemmOwnRows> (*own_rows)(const GpuGemmProblem& problem,
                                            const GpuArchitecture& architecture) = nullptr;
  bool (*hides_epilogue)(const GpuGemmProblem& problem, const GpuArchitecture& architecture) = nullptr;
  bool (*gains_from_copy)(const GpuGemmProblem& problem, const GpuGemmOperand& operand,
                          const GpuArchitecture& architecture) = nullptr;
};

// For a mainloop's plan: what it multiplies where operands stay as they lie, or are taken in pairs.
GpuGemmMainloopPlan multiplied_as(GpuGemmType type, const GpuGemmProblem& problem);

// Names of a kernel's launches.
constexpr char kGpuGemmRun[] = "kernel_run", kGpuGemmCombine[] = "kernel_combine";

}  // namespace causeway::codegen
