// Graphs of single primitives with inputs for them, for comparing a device with the reference interpreter.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/op.h"
#include "causeway/graph/printer.h"
#include "tests/comparison/bounds.h"
#include "tests/program/program_runner.h"

namespace causeway::program {

struct PrimitiveCase {
  Graph graph;
  std::vector<HostTensor> inputs;
  Bound bound;
};

inline void expect_reference(ProgramRunner& runner, const PrimitiveCase& primitive) {
  const std::vector<HostTensor> reference = interpret(primitive.graph, primitive.inputs, {}, Rounding::kRounded);
  const std::vector<HostTensor> actual = runner.run(primitive.graph, primitive.inputs);
  ASSERT_EQ(actual.size(), reference.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const Comparison comparison = compare(actual[i], reference[i], primitive.bound);
    EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text << "\n" << print_graph(primitive.graph);
  }
}

// Values at which the op is defined and its result does not hang on rounding.
inline HostTensor inputs_for(Op op, size_t input, DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  if (dtype == DType::kBool) return random_host_tensor(dtype, shape, seed, 0, 2);
  if (!is_float(dtype)) {
    const bool positive =
        dtype == DType::kU8 || op == Op::kShl || op == Op::kShr || ((op == Op::kDiv || op == Op::kRem) && input == 1);
    return random_host_tensor(dtype, shape, seed, positive ? 1 : -9, 7);
  }
  const bool positive = op == Op::kLog2 || op == Op::kSqrt || op == Op::kRsqrt || op == Op::kRecip || op == Op::kDiv ||
                        op == Op::kRem || op == Op::kPow;
  return random_host_tensor(dtype, shape, seed, positive ? 0.25 : -3, 3);
}

// The op for every dtype that it takes; none for casts, which have cases of their own.
inline std::vector<PrimitiveCase> elementwise_cases(Op op) {
  std::vector<PrimitiveCase> cases;
  if (op == Op::kCast || op == Op::kBitcast) return cases;
  for (const DType dtype : kAllDTypes) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{37}, {3, 5, 17}}) {
      PrimitiveCase primitive;
      const Shape shape(sizes.begin(), sizes.end());
      std::vector<Value> values;
      for (int i = 0; i < op_info(op).arity; ++i) {
        const DType input_dtype = op == Op::kSelect && i == 0 ? DType::kBool : dtype;
        values.push_back(primitive.graph.add_input("x", {input_dtype, shape}));
        primitive.inputs.push_back(
            inputs_for(op, static_cast<size_t>(i), input_dtype, sizes, static_cast<uint64_t>(i + 1)));
      }
      try {
        primitive.graph.outputs = {primitive.graph.add(op, values)};
      } catch (const Error&) {
        continue;  // not a dtype of this op
      }
      const bool exact = !is_float(dtype) || op == Op::kSelect || op == Op::kNeg || op == Op::kAbs;
      primitive.bound = exact ? bounds::kExact : bounds::elementwise(dtype);
      cases.push_back(std::move(primitive));
    }
  }
  return cases;
}

inline std::vector<Op> elementwise_ops() {
  std::vector<Op> ops;
  for (const OpInfo& info : all_ops())
    if (is_elementwise(info.op)) ops.push_back(info.op);
  return ops;
}

// From one dtype to all others, and between dtypes of equal size.
inline std::vector<PrimitiveCase> conversion_cases() {
  std::vector<PrimitiveCase> cases;
  for (const DType from : kAllDTypes) {
    PrimitiveCase primitive;
    const Value x = primitive.graph.add_input("x", {from, {Dim(61)}});
    for (const DType to : kAllDTypes) {
      Attributes attributes;
      attributes.dtype = to;
      primitive.graph.outputs.push_back(primitive.graph.add(Op::kCast, {x}, attributes));
    }
    primitive.inputs = {from == DType::kBool ? random_host_tensor(from, {61}, 3, 0, 2)
                        : is_float(from)     ? random_host_tensor(from, {61}, 3, -300, 500)
                                             : random_host_tensor(from, {61}, 3, from == DType::kU8 ? 0 : -100, 120)};
    cases.push_back(std::move(primitive));
  }
  for (const auto& [from, to] : {std::pair{DType::kF32, DType::kI32},
                                 {DType::kI32, DType::kF32},
                                 {DType::kBF16, DType::kF16},
                                 {DType::kF8E4M3, DType::kU8},
                                 {DType::kU8, DType::kF8E5M2}}) {
    PrimitiveCase primitive;
    Attributes attributes;
    attributes.dtype = to;
    primitive.graph.outputs = {
        primitive.graph.add(Op::kBitcast, {primitive.graph.add_input("x", {from, {Dim(40)}})}, attributes)};
    primitive.inputs = {is_float(from) ? random_host_tensor(from, {40}, 5) : random_host_tensor(from, {40}, 5, 0, 100)};
    cases.push_back(std::move(primitive));
  }
  return cases;
}

// Sums and maxima over every set of axes.
inline std::vector<PrimitiveCase> reduction_cases(const std::vector<int64_t>& sizes = {5, 3, 19}) {
  std::vector<PrimitiveCase> cases;
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (const Op op : {Op::kReduceSum, Op::kReduceMax}) {
      PrimitiveCase primitive;
      const Value x = primitive.graph.add_input("x", {dtype, Shape(sizes.begin(), sizes.end())});
      for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}}) {
        Attributes attributes;
        attributes.axes = axes;
        primitive.graph.outputs.push_back(primitive.graph.add(op, {x}, attributes));
      }
      primitive.inputs = {is_float(dtype) ? random_host_tensor(dtype, sizes, 9)
                                          : random_host_tensor(dtype, sizes, 9, 0, 3)};
      if (is_float(dtype) && op == Op::kReduceSum) primitive.bound = bounds::sum(element_count(sizes));
      cases.push_back(std::move(primitive));
    }
  }
  return cases;
}

}  // namespace causeway::program
