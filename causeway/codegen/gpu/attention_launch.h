// The launches of attention on a GPU: what the plan says, as the structures that program runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "causeway/codegen/gpu/attention_plan.h"
#include "causeway/codegen/kernel.h"

namespace causeway::codegen {

struct GpuAttentionLaunch {
  struct Kernel {
    std::string function;  // of the header, which each block calls; of the counter of tasks where blocks are persistent
    KernelPhase run;
    int blocks_per_unit = 1;
    bool begins_early = false;
  };

  std::string_view include;     // the header with the mainloop
  std::vector<Kernel> kernels;  // one after the other
  int tensor_maps = 0;
  bool takes_workspace = false;  // the Problem has a pointer to it, null where there is none
  SizeFunction workspace_bytes;  // null: none
};

GpuAttentionLaunch launch_attention(const GpuAttentionProblem& problem, const GpuAttentionPlan& plan,
                                    const GpuArchitecture& architecture);

}  // namespace causeway::codegen
