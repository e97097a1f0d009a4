// Checks a function of tensors three ways: its traced graph in the double-precision interpreter against expected
// values, the same values through the kernels of the CPU, and its gradients against central differences.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/gradient.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"
#include "causeway/tensor/trace.h"
#include "tests/comparison/bounds.h"

namespace causeway::tensor {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using OpFunction = std::function<Tensor(const std::vector<Tensor>&)>;

inline HostTensor host(std::vector<int64_t> shape, std::vector<double> values, DType dtype = DType::kF32) {
  return round_host_tensor(make_host_tensor(dtype, std::move(shape), std::move(values)));
}
inline HostTensor random_host(std::vector<int64_t> shape, uint64_t seed, double low = -2, double high = 2) {
  return random_host_tensor(DType::kF32, std::move(shape), seed, low, high);
}
inline Tensor to_tensor(const HostTensor& tensor) {
  return Tensor::from_values(tensor.values, tensor.shape, tensor.dtype);
}
inline Tensor vector_of(std::vector<double> values, DType dtype = DType::kF32) {
  return Tensor::from_values(values, {static_cast<int64_t>(values.size())}, dtype);
}
inline std::vector<int64_t> sizes_of(const Tensor& tensor) { return evaluate(tensor.shape(), {}); }

// `rms`: as Bound's. Zeros alone are expected exactly.
inline void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, double rms,
                         const std::string& what) {
  const bool zeros = std::all_of(expected.begin(), expected.end(), [](double value) { return value == 0; });
  const auto tensor = [](const std::vector<double>& values) {
    return make_host_tensor(DType::kF32, {static_cast<int64_t>(values.size())}, values);
  };
  const Comparison comparison =
      compare(tensor(actual), tensor(expected), zeros || rms == 0 ? bounds::kExact : bounds::of_rms(rms, 0));
  EXPECT_TRUE(comparison.equal) << what << ": " << comparison.text;
}

// The values of a tensor that is computed on the CPU now.
inline void expect_tensor(const Tensor& tensor, const std::vector<int64_t>& shape, const std::vector<double>& values,
                          double tolerance = 1e-6) {
  EXPECT_EQ(sizes_of(tensor), shape);
  expect_close(tensor.values(), values, tolerance, "on the CPU");
}

struct TracedOp {
  Trace trace;
  std::vector<Value> arguments;
  std::vector<HostTensor> values;  // of all inputs: arguments, then captured tensors
};

inline void trace_op(TracedOp& traced, const OpFunction& function, const std::vector<HostTensor>& inputs) {
  const TraceScope scope(traced.trace);
  std::vector<Tensor> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape shape(inputs[i].shape.begin(), inputs[i].shape.end());
    arguments.push_back(traced.trace.add_argument("x" + std::to_string(i), {inputs[i].dtype, shape}));
    traced.arguments.push_back(arguments.back().state()->value);
  }
  traced.trace.graph.outputs = {traced.trace.use(function(arguments))};
  traced.values = inputs;
  for (const Trace::Captured& captured : traced.trace.captured()) {
    HostTensor value;
    value.dtype = captured.tensor.dtype();
    value.shape = sizes_of(captured.tensor);
    value.values = captured.tensor.values();
    traced.values.push_back(std::move(value));
  }
}

inline HostTensor interpret_op(const OpFunction& function, const std::vector<HostTensor>& inputs) {
  TracedOp traced;
  trace_op(traced, function, inputs);
  return interpret(traced.trace.graph, traced.values)[0];
}

// d <out, w> / d x for every float argument, w fixed pseudo-random weights, against central differences.
inline void expect_op_gradients(const OpFunction& function, const std::vector<HostTensor>& inputs,
                                double tolerance = 1e-6) {
  TracedOp traced;
  trace_op(traced, function, inputs);
  Graph& graph = traced.trace.graph;
  const Graph forward = graph;
  const Value out = graph.outputs[0];
  ASSERT_TRUE(is_float(graph.dtype(out)));
  const HostTensor weights = random_host_tensor(graph.dtype(out), evaluate(graph.shape(out), {}), 977, 0.5, 1.5);
  const Value weight = graph.add_input("w", graph.type(out));
  std::vector<Value> wrt;
  std::vector<size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_float(inputs[i].dtype)) continue;
    wrt.push_back(traced.arguments[i]);
    positions.push_back(i);
  }
  graph.outputs = add_gradients(graph, std::span(&out, 1), std::span(&weight, 1), wrt, traced.trace.stopped());
  graph.verify("gradients");
  std::vector<HostTensor> values = traced.values;
  values.push_back(weights);
  const std::vector<HostTensor> gradients = interpret(graph, values);
  const auto objective = [&] {
    const HostTensor result = interpret(forward, {values.begin(), values.end() - 1})[0];
    double sum = 0;
    for (size_t e = 0; e < result.values.size(); ++e) sum += result.values[e] * weights.values[e];
    return sum;
  };
  for (size_t k = 0; k < positions.size(); ++k) {
    std::vector<double>& element = values[positions[k]].values;
    std::vector<double> differences;
    for (size_t e = 0; e < element.size(); ++e) {
      const double center = element[e], step = 1e-5;
      element[e] = center + step;
      const double above = objective();
      element[e] = center - step;
      const double below = objective();
      element[e] = center;
      differences.push_back((above - below) / (2 * step));
    }
    const HostTensor expected = make_host_tensor(gradients[k].dtype, gradients[k].shape, std::move(differences));
    const Comparison comparison = compare(gradients[k], expected, bounds::of_differences(gradients[k], tolerance));
    EXPECT_TRUE(comparison.equal) << "gradient of argument " << positions[k] << ": " << comparison.text;
  }
}

struct CheckOptions {
  double exact_tolerance = 1e-10;  // of the interpreter
  double tolerance = 2e-6;         // of the CPU
  bool gradients = true;
};

inline void expect_op(const OpFunction& function, const std::vector<HostTensor>& inputs,
                      const std::vector<int64_t>& shape, const std::vector<double>& expected,
                      const CheckOptions& options = {}) {
  const HostTensor interpreted = interpret_op(function, inputs);
  EXPECT_EQ(interpreted.shape, shape);
  expect_close(interpreted.values, expected, options.exact_tolerance, "interpreted");
  std::vector<Tensor> tensors;
  for (const HostTensor& input : inputs) tensors.push_back(to_tensor(input));
  expect_tensor(function(tensors), shape, expected, options.tolerance);
  if (options.gradients) expect_op_gradients(function, inputs);
}

template <class Action>
std::string error_text(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace causeway::tensor
