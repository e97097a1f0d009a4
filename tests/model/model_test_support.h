// Running a model's forward and backward pass two ways: as a program on the CPU, and on the reference interpreter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "causeway/graph/interpreter.h"
#include "causeway/model/language_model.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"
#include "causeway/tensor/trace.h"
#include "tests/comparison/bounds.h"

namespace causeway::model {

using ModelFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

inline Tensor integers(const std::vector<int32_t>& values, const std::vector<int64_t>& shape) {
  return Tensor::from_bytes(std::as_bytes(std::span(values)), shape, DType::kI32);
}

inline HostTensor to_host(const Tensor& tensor) {
  return {tensor.dtype(), evaluate(tensor.shape(), {}), tensor.values()};
}

inline Graph trace_graph(const ModelFunction& function, const std::vector<Tensor>& arguments,
                         std::vector<Tensor>* captured = nullptr) {
  Trace trace;
  {
    const TraceScope scope(trace);
    std::vector<Tensor> stand_ins;
    for (const Tensor& argument : arguments) stand_ins.push_back(trace.add_argument("argument", argument.type()));
    for (const Tensor& result : function(stand_ins)) trace.graph.outputs.push_back(trace.use(result));
  }
  if (captured != nullptr)
    for (const Trace::Captured& each : trace.captured()) captured->push_back(each.tensor);
  return std::move(trace.graph);
}

// In double precision, without passes, kernels or programs.
inline std::vector<HostTensor> run_on_interpreter(const ModelFunction& function, const std::vector<Tensor>& arguments) {
  std::vector<Tensor> captured;
  const Graph graph = trace_graph(function, arguments, &captured);
  std::vector<HostTensor> inputs;
  for (const Tensor& argument : arguments) inputs.push_back(to_host(argument));
  for (const Tensor& tensor : captured) inputs.push_back(to_host(tensor));
  return interpret(graph, inputs);
}

inline std::vector<HostTensor> run_on_cpu(const ModelFunction& function, const std::vector<Tensor>& arguments) {
  Step step(function);
  std::vector<HostTensor> results;
  for (const Tensor& result : step(arguments)) results.push_back(to_host(result));
  return results;
}

}  // namespace causeway::model
