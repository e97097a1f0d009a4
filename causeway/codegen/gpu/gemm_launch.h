// The launches of a GEMM on a GPU: what the plan says, as the structures that program runs.
#pragma once

#include <optional>
#include <string_view>

#include "causeway/codegen/gpu/gemm_plan.h"

namespace causeway::codegen {

// What launches a mainloop, and what its kernel is declared with.
struct GpuGemmLaunch {
  std::string_view include;  // the header with the mainloop
  KernelPhase run;
  int blocks_per_unit = 1;
  int tensor_maps = 0;
  bool begins_early = false;
  // Where k is split: the launch that adds up the parts, its function in kernel text, and bytes of the parts' sums.
  std::optional<KernelPhase> combine;
  std::string_view combine_function;
  SizeFunction workspace_bytes;
};

GpuGemmLaunch launch_gemm(const GpuGemmProblem& problem, const GpuGemmPlan& plan, const GpuArchitecture& architecture);

}  // namespace causeway::codegen
