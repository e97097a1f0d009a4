// Checks the gradients of a piece of graph against central differences, both in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/gradient.h"
#include "tests/comparison/bounds.h"

namespace causeway::passes {

// Appends nodes to the graph of `build`, whose inputs are given, and returns float outputs.
using GraphFunction = std::function<std::vector<Value>(const Builder& build, const std::vector<Value>& inputs)>;

struct CheckedInput {
  TensorType type;  // sizes may be symbols
  HostTensor value;
};

inline CheckedInput checked(DType dtype, std::vector<int64_t> shape, uint64_t seed, double low = -1, double high = 1) {
  return {{dtype, Shape(shape.begin(), shape.end())}, random_host_tensor(dtype, shape, seed, low, high)};
}

// f = sum over outputs of <output, random weights>; d f / d x for every element of every float input.
inline void expect_gradients(const GraphFunction& function, const std::vector<CheckedInput>& inputs,
                             const SymbolBindings& bindings = {}, double tolerance = 2e-7) {
  Graph graph;
  std::vector<Value> arguments;
  for (size_t i = 0; i < inputs.size(); ++i)
    arguments.push_back(graph.add_input(fmt::format("x{}", i), inputs[i].type));
  const Builder build(graph);
  const std::vector<Value> outputs = function(build, arguments);
  std::vector<Value> weights;
  std::vector<HostTensor> values;
  for (const CheckedInput& input : inputs) values.push_back(input.value);
  for (size_t i = 0; i < outputs.size(); ++i) {
    weights.push_back(graph.add_input(fmt::format("w{}", i), graph.type(outputs[i])));
    values.push_back(random_host_tensor(graph.dtype(outputs[i]), evaluate(graph.shape(outputs[i]), bindings), 977 + i));
  }
  std::vector<Value> wrt;
  std::vector<size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_float(inputs[i].type.dtype)) continue;
    wrt.push_back(arguments[i]);
    positions.push_back(i);
  }
  Graph forward = graph;
  forward.outputs = outputs;
  const auto objective = [&](const std::vector<HostTensor>& at) {
    const std::vector<HostTensor> result = interpret(forward, at, bindings);
    double sum = 0;
    for (size_t o = 0; o < outputs.size(); ++o)
      for (size_t e = 0; e < result[o].values.size(); ++e)
        sum += result[o].values[e] * values[inputs.size() + o].values[e];
    return sum;
  };

  graph.outputs = add_gradients(graph, outputs, weights, wrt);
  graph.verify("gradients");
  const std::vector<HostTensor> gradients = interpret(graph, values, bindings);
  for (size_t k = 0; k < wrt.size(); ++k) {
    ASSERT_EQ(graph.type(graph.outputs[k]), inputs[positions[k]].type);
    std::vector<double>& element = values[positions[k]].values;
    std::vector<double> differences;
    for (size_t e = 0; e < element.size(); ++e) {
      const double center = element[e], step = 1e-5;
      element[e] = center + step;
      const double above = objective(values);
      element[e] = center - step;
      const double below = objective(values);
      element[e] = center;
      differences.push_back((above - below) / (2 * step));
    }
    const HostTensor expected = make_host_tensor(gradients[k].dtype, gradients[k].shape, std::move(differences));
    const Comparison comparison = compare(gradients[k], expected, bounds::of_differences(gradients[k], tolerance));
    EXPECT_TRUE(comparison.equal) << "input " << positions[k] << ": " << comparison.text;
  }
}

}  // namespace causeway::passes
