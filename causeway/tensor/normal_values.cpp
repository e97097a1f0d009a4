#include "causeway/tensor/normal_values.h"

#include <array>
#include <bit>
#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/normal_values_kernel.h"
#include "causeway/kernels/normal_values_layout.h"
#include "causeway/program/context.h"
#include "causeway/program/kernel_library.h"
#include "causeway/tensor/trace.h"

namespace causeway::tensor {
namespace {

// A part of a tensor as launches make it: runs of neighbours at even distances.
std::vector<NormalValuesTask> tasks_of_part(const std::vector<int64_t>& shape, const std::vector<int64_t>& start,
                                            const std::vector<int64_t>& sizes) {
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1);
  for (size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  NormalValuesTask task{};
  task.runs = task.length = 1;
  for (size_t d = 0; d < rank; ++d) task.first += start[d] * strides[d];
  // The last dimensions that it has whole and one more are a run, and the one before says how many of them follow.
  size_t outer = rank;
  while (outer > 0) {
    --outer;
    task.length *= sizes[outer];
    if (sizes[outer] != shape[outer]) break;
  }
  if (outer > 0) {
    --outer;
    task.runs = sizes[outer];
    task.stride = task.runs > 1 ? strides[outer] : 0;
  }
  std::vector<NormalValuesTask> tasks = {task};
  for (size_t d = outer; d-- > 0;) {
    std::vector<NormalValuesTask> all;
    for (int64_t i = 0; i < sizes[d]; ++i)
      for (NormalValuesTask one : tasks) {
        one.first += i * strides[d];
        all.push_back(one);
      }
    tasks = std::move(all);
  }
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i].place = static_cast<int64_t>(i) * task.runs * task.length;
  return tasks;
}

}  // namespace

void fill_normal(Tensor& tensor, const NormalValues& values) {
  CAUSEWAY_CHECK(tensor.dtype() == DType::kF32, "normal values of {}", dtype_name(tensor.dtype()));
  // What was recorded with the old values is computed from them.
  const std::shared_ptr<Context>& context = tensor.context();
  if (Trace& trace = Trace::of(context); trace.is_eager() && trace.has_captured(tensor.state().get())) trace.flush();
  void* const buffers[] = {tensor.buffer().data()};
  if (buffers[0] == nullptr) return;
  Device& device = context->device();
  const auto module = context->library().load({codegen::normal_values_source(device.target())}).front();
  const DeviceKernel kernel = module->kernel(codegen::kNormalValuesFunction);
  for (NormalValuesTask& task :
       tasks_of_part(evaluate(tensor.shape(), {}), tensor.local_start(), tensor.local_shape())) {
    task.seed = static_cast<int64_t>(values.seed);
    task.stream = static_cast<int64_t>(values.stream);
    task.deviation_bits = std::bit_cast<int64_t>(values.standard_deviation);
    if (tensor.lies_in_halves()) task.halves = tensor.local_bytes() / static_cast<int64_t>(sizeof(float));
    const auto sizes = std::bit_cast<std::array<int64_t, kNormalSizes>>(task);
    device.launch({.kernel = kernel,
                   .buffers = buffers,
                   .sizes = sizes,
                   .task_count = codegen::normal_values_tasks(task, device.target()),
                   .threads = kNormalThreads});
  }
}

}  // namespace causeway::tensor
