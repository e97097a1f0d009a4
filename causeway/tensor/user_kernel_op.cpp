#include "causeway/tensor/user_kernel_op.h"

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/user_kernel.h"
#include "causeway/tensor/trace.h"

namespace causeway::tensor {

std::vector<Tensor> user_kernel(const UserKernel& kernel, std::span<const Tensor> inputs) {
  auto spec = std::make_shared<UserKernelSpec>();
  spec->name = kernel.name;
  spec->source = kernel.source;
  spec->outputs = kernel.outputs;
  spec->sizes = kernel.sizes;
  spec->tasks = kernel.tasks;
  spec->threads = kernel.threads;
  spec->shared_bytes = kernel.shared_bytes;
  if (kernel.gradient) {
    spec->gradient = [gradient = kernel.gradient](Graph& graph, const Node& node, const std::vector<Value>& outputs,
                                                  const std::vector<Value>& output_gradients) {
      Trace& trace = Trace::current();
      CAUSEWAY_CHECK(&graph == &trace.graph, "gradients of a user kernel are made in its own trace");
      const auto tensors = [&](const std::vector<Value>& values) {
        std::vector<Tensor> result;
        for (const Value value : values) result.push_back(value.valid() ? Tensor(trace, value) : Tensor());
        return result;
      };
      std::vector<Value> results;
      for (const Tensor& tensor : gradient(tensors(node.inputs), tensors(outputs), tensors(output_gradients)))
        results.push_back(tensor.defined() ? trace.use(tensor) : Value{});
      return results;
    };
  }
  Attributes attributes;
  attributes.user_kernel = std::move(spec);
  return apply_all(Op::kUserKernel, inputs, std::move(attributes));
}

}  // namespace causeway::tensor
