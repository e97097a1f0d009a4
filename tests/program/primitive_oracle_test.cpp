// Every elementwise primitive, conversion, reduction and movement op, for every dtype it takes, on odd shapes, against
// the reference interpreter.
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/graph/compare.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/printer.h"
#include "tests/program/program_runner.h"

namespace causeway {
namespace {

ProgramRunner& runner() {
  static ProgramRunner shared(2);
  return shared;
}

// Values at which the op is defined and its result does not hang on rounding.
HostTensor inputs_for(Op op, size_t input, DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
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

void expect_reference(const Graph& graph, const std::vector<HostTensor>& inputs, const Tolerance& tolerance) {
  const std::vector<HostTensor> reference = interpret(graph, inputs, {}, Rounding::kRounded);
  const std::vector<HostTensor> actual = runner().run(graph, inputs);
  for (size_t i = 0; i < actual.size(); ++i) {
    const Comparison comparison = compare(actual[i], reference[i], tolerance);
    EXPECT_TRUE(comparison.equal) << comparison.text << "\n" << print_graph(graph);
  }
}

class ElementwiseOnCpu : public testing::TestWithParam<Op> {};

TEST_P(ElementwiseOnCpu, MatchesTheReference) {
  const Op op = GetParam();
  if (op == Op::kCast || op == Op::kBitcast) return;  // their own test, below
  int tried = 0;
  for (const DType dtype : kAllDTypes) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{37}, {3, 5, 17}}) {
      Graph graph;
      const Shape shape(sizes.begin(), sizes.end());
      std::vector<HostTensor> inputs;
      std::vector<Value> values;
      for (int i = 0; i < op_info(op).arity; ++i) {
        const DType input_dtype = op == Op::kSelect && i == 0 ? DType::kBool : dtype;
        values.push_back(graph.add_input("x", {input_dtype, shape}));
        inputs.push_back(inputs_for(op, static_cast<size_t>(i), input_dtype, sizes, static_cast<uint64_t>(i + 1)));
      }
      try {
        graph.outputs = {graph.add(op, values)};
      } catch (const Error&) {
        continue;  // not a dtype of this op
      }
      ++tried;
      const bool exact = !is_float(dtype) || op == Op::kSelect || op == Op::kNeg || op == Op::kAbs;
      expect_reference(graph, inputs, exact ? Tolerance{} : Tolerance{1e-7, 1e-6, 2});
    }
  }
  EXPECT_GT(tried, 0);
}

std::vector<Op> elementwise_ops() {
  std::vector<Op> ops;
  for (const OpInfo& info : all_ops())
    if (is_elementwise(info.op)) ops.push_back(info.op);
  return ops;
}

INSTANTIATE_TEST_SUITE_P(Ops, ElementwiseOnCpu, testing::ValuesIn(elementwise_ops()),
                         [](const auto& test) { return std::string(op_name(test.param)); });

TEST(ConversionsOnCpu, EveryPairOfDTypes) {
  for (const DType from : kAllDTypes) {
    Graph graph;
    const Value x = graph.add_input("x", {from, {Dim(61)}});
    for (const DType to : kAllDTypes) {
      Attributes attributes;
      attributes.dtype = to;
      graph.outputs.push_back(graph.add(Op::kCast, {x}, attributes));
    }
    const HostTensor input = from == DType::kBool ? random_host_tensor(from, {61}, 3, 0, 2)
                             : is_float(from)     ? random_host_tensor(from, {61}, 3, -300, 500)
                                              : random_host_tensor(from, {61}, 3, from == DType::kU8 ? 0 : -100, 120);
    expect_reference(graph, {input}, {});
  }
}

TEST(ConversionsOnCpu, BitsOfEqualSize) {
  for (const auto& [from, to] : {std::pair{DType::kF32, DType::kI32},
                                 {DType::kI32, DType::kF32},
                                 {DType::kBF16, DType::kF16},
                                 {DType::kF8E4M3, DType::kU8},
                                 {DType::kU8, DType::kF8E5M2}}) {
    Graph graph;
    Attributes attributes;
    attributes.dtype = to;
    graph.outputs = {graph.add(Op::kBitcast, {graph.add_input("x", {from, {Dim(40)}})}, attributes)};
    const HostTensor input =
        is_float(from) ? random_host_tensor(from, {40}, 5) : random_host_tensor(from, {40}, 5, 0, 100);
    expect_reference(graph, {input}, {});
  }
}

TEST(ReductionsOnCpu, EveryDTypeAndAxis) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (const Op op : {Op::kReduceSum, Op::kReduceMax}) {
      Graph graph;
      const Value x = graph.add_input("x", {dtype, {Dim(5), Dim(3), Dim(19)}});
      for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}}) {
        Attributes attributes;
        attributes.axes = axes;
        graph.outputs.push_back(graph.add(op, {x}, attributes));
      }
      const HostTensor input =
          is_float(dtype) ? random_host_tensor(dtype, {5, 3, 19}, 9) : random_host_tensor(dtype, {5, 3, 19}, 9, 0, 3);
      expect_reference(graph, {input},
                       is_float(dtype) && op == Op::kReduceSum ? Tolerance{2e-5, 1e-5, 2} : Tolerance{});
    }
  }
}

}  // namespace
}  // namespace causeway
