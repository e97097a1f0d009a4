// Loop kernels on GPUs: planned, then written by the writer of the plan's form.
#include "causeway/codegen/gpu/loop_plan.h"
#include "causeway/codegen/gpu/loop_writer.h"

namespace causeway::codegen {

GeneratedKernel write_gpu_loop_kernel(const KernelInputs& inputs) {
  const GpuLoopPlan plan = plan_gpu_loop(inputs);
  switch (plan.form) {
    case GpuLoopPlan::Form::kRows:
    case GpuLoopPlan::Form::kRowParts:
      return write_gpu_row_loop(inputs, plan);
    case GpuLoopPlan::Form::kRowSums:
      return write_gpu_row_sum_loop(inputs, plan);
    default:
      return write_gpu_element_loop(inputs, plan);
  }
}

std::optional<Obstacle> find_gpu_loop_obstacle(const KernelInputs& inputs) { return plan_gpu_loop(inputs).obstacle; }

}  // namespace causeway::codegen
