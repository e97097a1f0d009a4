#include "causeway/passes/canonicalize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/op.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/constant_folding.h"
#include "causeway/passes/eliminate_common_subexpressions.h"
#include "causeway/passes/eliminate_dead_code.h"
#include "tests/passes/same_values.h"
#include "tests/program/edge_values.h"

namespace causeway::passes {
namespace {

// The ops that compute the output of `build` after canonicalize(), inputs left out, e.g. "mul reduce_sum".
class Canonical {
 public:
  explicit Canonical(std::vector<TensorType> types) {
    for (TensorType& type : types) inputs.push_back(graph.add_input("x", std::move(type)));
  }

  std::string ops(Value output) {
    graph.outputs = {output};
    result = canonicalize(graph);
    result.verify("canonicalize");
    std::string text;
    for (const Node& node : result.nodes())
      if (node.op != Op::kInput) text += (text.empty() ? "" : " ") + std::string(op_name(node.op));
    return text;
  }
  // The output is the given input itself.
  bool is_input(Value output, size_t input) {
    ops(output);
    return result.outputs[0] == result.inputs()[input];
  }
  std::optional<double> constant(Value output) {
    ops(output);
    const Node& node = result.node(result.outputs[0]);
    return node.op == Op::kConstant ? std::optional<double>(node.attributes.value) : std::nullopt;
  }

  Graph graph, result;
  std::vector<Value> inputs;
  Builder build{graph};
};

TensorType floats(Shape shape) { return {DType::kF32, std::move(shape)}; }
TensorType integers(Shape shape) { return {DType::kI32, std::move(shape)}; }

// Rows are looked up in the table as it lies, and not in a wide copy of it.
TEST(Canonicalize, GathersFromCasts) {
  Canonical c({{DType::kBF16, {8, 3}}, floats({8, 3}), integers({2}), integers({8, 3})});
  const Builder& b = c.build;
  EXPECT_EQ(c.ops(b.gather(b.cast(c.inputs[0], DType::kF32), c.inputs[2], 0)), "gather cast");
  EXPECT_EQ(c.result.type(c.result.outputs[0]).text(), "f32[2, 3]");
  // What rounds, and what is no float, stays where it is.
  EXPECT_EQ(c.ops(b.gather(b.cast(c.inputs[1], DType::kBF16), c.inputs[2], 0)), "cast gather");
  EXPECT_EQ(c.ops(b.gather(b.cast(c.inputs[3], DType::kF32), c.inputs[2], 0)), "cast gather");
}

TEST(Canonicalize, Arithmetic) {
  Canonical c({floats({3}), integers({3}), floats({3})});
  const Value x = c.inputs[0], n = c.inputs[1], y = c.inputs[2];
  const Builder& b = c.build;
  const auto like = [&](Value v, double k) { return b.constant_like(v, k); };
  EXPECT_TRUE(c.is_input(b.add(like(x, 0), x), 0));
  EXPECT_TRUE(c.is_input(b.mul(like(x, 1), x), 0));
  EXPECT_TRUE(c.is_input(b.sub(x, like(x, 0)), 0));
  EXPECT_TRUE(c.is_input(b.div(x, like(x, 1)), 0));
  EXPECT_TRUE(c.is_input(b.neg(b.neg(x)), 0));
  EXPECT_EQ(c.ops(b.mul(x, like(x, 0))), "constant mul");  // x may be NaN
  EXPECT_EQ(c.constant(b.mul(n, like(n, 0))), 0);
  EXPECT_EQ(c.ops(b.sub(x, x)), "sub");
  EXPECT_EQ(c.constant(b.sub(n, n)), 0);
  EXPECT_EQ(c.ops(b.add(x, b.neg(y))), "sub");
  EXPECT_EQ(c.ops(b.sub(x, b.neg(y))), "add");
  EXPECT_EQ(c.ops(b.mul(x, like(x, -1))), "neg");
  EXPECT_EQ(c.ops(b.sub(like(x, 0), x)), "neg");
  EXPECT_EQ(c.ops(b.recip(c.graph.add(Op::kSqrt, {x}))), "rsqrt");
  EXPECT_EQ(c.ops(b.div(like(x, 1), c.graph.add(Op::kSqrt, {x}))), "rsqrt");
  EXPECT_EQ(c.ops(b.div(x, like(x, 8))), "constant mul");
  EXPECT_EQ(c.ops(b.div(x, like(x, 3))), "constant div");
  EXPECT_EQ(c.ops(c.graph.add(Op::kPow, {x, like(x, 2)})), "mul");
  EXPECT_EQ(c.ops(c.graph.add(Op::kPow, {x, like(x, -1)})), "recip");
  EXPECT_EQ(c.ops(c.graph.add(Op::kFma, {x, like(x, 1), y})), "add");
  EXPECT_EQ(c.ops(c.graph.add(Op::kFma, {x, y, like(x, 0)})), "mul");
  EXPECT_EQ(c.constant(b.less_equal(n, n)), 1);
  EXPECT_EQ(c.ops(b.less_equal(x, x)), "le");  // false for NaN
}

TEST(Canonicalize, FoldsConstants) {
  Canonical c({floats({3})});
  const Builder& b = c.build;
  const Value k = b.constant(DType::kF32, {2, 3}, 3);
  EXPECT_EQ(c.constant(b.exp2(b.add(k, k))), 64);
  EXPECT_EQ(c.constant(b.reduce_sum(k, {0, 1})), 18);
  EXPECT_EQ(c.constant(b.reduce_max(k, {0})), 3);
  EXPECT_EQ(c.constant(b.permute(b.broadcast(b.reshape(k, {6}), {4, 6}, {1}), {1, 0})), 3);
  EXPECT_EQ(c.constant(b.pad(k, {1, 0}, {0, 0}, 3)), 3);
  EXPECT_EQ(c.constant(b.pad(k, {1, 0}, {0, 0}, 0)), std::nullopt);
  EXPECT_EQ(c.constant(b.concat({k, b.constant(DType::kF32, {1, 3}, 3)}, 0)), 3);
  EXPECT_EQ(c.constant(b.cast(b.constant(DType::kF32, {}, 1.001), DType::kBF16)), 1);
  EXPECT_EQ(c.constant(b.iota(DType::kI32, {5, 1}, 1)), 0);
  const Value x = c.inputs[0];
  EXPECT_TRUE(c.is_input(b.select(b.less(b.constant_like(x, 1), b.constant_like(x, 2)), x, b.neg(x)), 0));
  EXPECT_TRUE(c.is_input(b.mul(x, b.broadcast(b.constant(DType::kF32, {}, 1), {3}, {})), 0));
}

TEST(Canonicalize, FoldingRefusesWhatIsNotDefined) {
  EXPECT_EQ(fold_elementwise(Op::kDiv, {1, 0}, DType::kI32, DType::kI32), 0);
  EXPECT_EQ(fold_elementwise(Op::kRem, {1, 0}, DType::kI64, DType::kI64), 0);
  EXPECT_EQ(fold_elementwise(Op::kRem, {-0x1p63, -1}, DType::kI64, DType::kI64), std::nullopt);
  EXPECT_EQ(fold_elementwise(Op::kAnd, {0x1p63, 5}, DType::kI64, DType::kI64), std::nullopt);
  EXPECT_EQ(fold_elementwise(Op::kAdd, {0x1p53 - 1, 1}, DType::kI64, DType::kI64), std::nullopt);
  EXPECT_EQ(fold_elementwise(Op::kShr, {-256, 33}, DType::kI32, DType::kI32), -128);
  EXPECT_EQ(fold_elementwise(Op::kShl, {3, -31}, DType::kI32, DType::kI32), 6);
  // Constants are rounded before they are used.
  EXPECT_EQ(fold_elementwise(Op::kEq, {0.1, 0.10000000001}, DType::kF32, DType::kBool), 1);
  EXPECT_EQ(fold_elementwise(Op::kFloor, {0.9999999999}, DType::kF32, DType::kF32), 1);
  EXPECT_EQ(fold_elementwise(Op::kMul, {65536, 65536}, DType::kI32, DType::kI32), std::nullopt);
  EXPECT_EQ(fold_elementwise(Op::kSub, {1, 2}, DType::kU8, DType::kU8), std::nullopt);
  EXPECT_EQ(fold_elementwise(Op::kCast, {1e30}, DType::kF32, DType::kI32), std::nullopt);
  EXPECT_EQ(fold_elementwise(Op::kDiv, {-7, 2}, DType::kI32, DType::kI32), -3);
  EXPECT_EQ(fold_elementwise(Op::kCast, {-2.7}, DType::kF32, DType::kI32), -2);
  EXPECT_EQ(fold_elementwise(Op::kShr, {-8, 1}, DType::kI32, DType::kI32), -4);
  EXPECT_TRUE(std::isnan(*fold_elementwise(Op::kMax, {NAN, 1}, DType::kF32, DType::kF32)));
}

// What is folded is what the op gives at run time, at the edges of every dtype too.
TEST(Canonicalize, FoldsEdgesAsTheReferenceComputesThem) {
  size_t folded = 0;
  for (const OpInfo& info : all_ops()) {
    if (!is_elementwise(info.op) || info.arity > 2 || info.op == Op::kBitcast) continue;
    for (const DType dtype : kAllDTypes) {
      const std::vector<HostTensor> inputs = program::combinations(dtype, program::edge_values(dtype), info.arity);
      for (const DType to : kAllDTypes) {
        if (info.op != Op::kCast && to != dtype) continue;
        Graph graph;
        std::vector<Value> operands;
        for (const HostTensor& input : inputs) operands.push_back(graph.add_input("x", {dtype, {Dim(input.shape[0])}}));
        Attributes attributes;
        attributes.dtype = to;
        try {
          graph.outputs = {graph.add(info.op, operands, attributes)};
        } catch (const Error&) {
          continue;  // not a dtype of this op
        }
        const HostTensor reference = interpret(graph, inputs, {}, Rounding::kRounded)[0];
        for (size_t i = 0; i < reference.values.size(); ++i) {
          ElementwiseInputs values{};
          for (size_t k = 0; k < inputs.size(); ++k) values[k] = inputs[k].values[i];
          const double expected = reference.values[i];
          const auto expect = [&](double value, const char* done) {
            EXPECT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected)))
                << info.name << " of " << dtype_name(dtype) << " " << fmt::format("{:a}", fmt::join(values, ", "))
                << ": " << done << " to " << value << ", the reference is " << expected;
          };
          if (const auto value = fold_elementwise(info.op, values, dtype, reference.dtype)) {
            ++folded;
            expect(*value, "folded");
          }
          const auto value = evaluate_elementwise(info.op, values, dtype, reference.dtype);
          if (value) expect(*value, "evaluated");
          // Integers that wrap are no obstacle.
          EXPECT_TRUE(value || !(dtype == DType::kI32 || dtype == DType::kU8)) << info.name;
        }
      }
    }
  }
  EXPECT_GT(folded, 10000u);
}

TEST(Canonicalize, Casts) {
  Canonical c({floats({3}), {DType::kBF16, {3}}, {DType::kU8, {3}}});
  const Builder& b = c.build;
  // bf16 -> f32 -> bf16 loses nothing, f32 -> bf16 -> f32 does.
  EXPECT_TRUE(c.is_input(b.cast(b.cast(c.inputs[1], DType::kF32), DType::kBF16), 1));
  EXPECT_EQ(c.ops(b.cast(b.cast(c.inputs[0], DType::kBF16), DType::kF32)), "cast cast");
  EXPECT_EQ(c.ops(b.cast(b.cast(c.inputs[1], DType::kF32), DType::kF16)), "cast");
  EXPECT_EQ(c.ops(b.cast(b.cast(c.inputs[1], DType::kF16), DType::kF32)), "cast cast");
  EXPECT_EQ(c.ops(b.cast(b.cast(c.inputs[2], DType::kI32), DType::kF32)), "cast");
}

TEST(Canonicalize, Movement) {
  const Dim batch = Dim::symbol("B");
  Canonical c({floats({2, 3, 4}), floats({batch, 1, 4})});
  const Builder& b = c.build;
  const Value x = c.inputs[0], s = c.inputs[1];
  EXPECT_TRUE(c.is_input(b.reshape(b.reshape(x, {24}), {2, 3, 4}), 0));
  EXPECT_EQ(c.ops(b.reshape(b.reshape(x, {24}), {6, 4})), "reshape");
  EXPECT_TRUE(c.is_input(b.permute(b.permute(x, {2, 0, 1}), {1, 2, 0}), 0));
  EXPECT_EQ(c.ops(b.permute(b.permute(x, {2, 0, 1}), {2, 0, 1})), "permute");
  EXPECT_EQ(c.ops(b.permute(s, {1, 0, 2})), "reshape");
  EXPECT_EQ(c.ops(b.broadcast(b.broadcast(s, {batch, 3, 4}, {0, 1, 2}), {5, batch, 3, 4}, {1, 2, 3})), "broadcast");
  EXPECT_EQ(c.ops(b.broadcast(x, {2, 1, 3, 4}, {0, 2, 3})), "reshape");
  EXPECT_EQ(c.ops(b.broadcast(b.reshape(x, {2, 3, 4, 1}), {2, 3, 4, 7}, {0, 1, 2, 3})), "broadcast");
  EXPECT_EQ(c.ops(b.slice(b.slice(x, {0, 1, 0}, {2, 3, 4}), {1, 1, 0}, {2, 2, 4})), "slice");
  EXPECT_EQ(c.result.node(c.result.outputs[0]).attributes.start, (Shape{1, 2, 0}));
  EXPECT_EQ(c.result.node(c.result.outputs[0]).attributes.limit, (Shape{2, 3, 4}));
  EXPECT_TRUE(c.is_input(b.slice(b.pad(x, {1, 0, 2}, {0, 1, 0}, 9), {1, 0, 2}, {3, 3, 6}), 0));
  EXPECT_TRUE(c.is_input(b.slice_axis(b.concat({b.neg(x), x}, 1), 1, 3, 6), 0));
  EXPECT_EQ(c.ops(b.reduce_sum(b.reduce_sum(x, {1}), {0})), "reduce_sum");
  EXPECT_EQ(c.result.node(c.result.outputs[0]).attributes.axes, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(c.ops(b.reduce_max(s, {1})), "reshape");
}

TEST(Canonicalize, Dot) {
  Canonical c({floats({1, 4, 3}), floats({1, 4, 5}), floats({3, 4}), floats({5, 4})});
  const Builder& b = c.build;
  EXPECT_EQ(c.ops(b.dot(b.permute(c.inputs[2], {1, 0}), b.permute(c.inputs[3], {1, 0}), true, false, DType::kF32)),
            "dot");
  EXPECT_FALSE(c.result.node(c.result.outputs[0]).attributes.transpose_a);
  EXPECT_TRUE(c.result.node(c.result.outputs[0]).attributes.transpose_b);
  EXPECT_EQ(c.ops(b.dot(b.permute(c.inputs[0], {0, 2, 1}), c.inputs[1], false, false, DType::kF32)),
            "reshape reshape dot reshape");
}

TEST(Canonicalize, KeepsValuesOfRandomGraphs) {
  for (const bool keeps_sums : {false, true})
    expect_same_values_on_random_graphs([&](const Graph& graph) { return canonicalize(graph, keeps_sums); }, 150);
}

TEST(Canonicalize, SumsBecomeOneUnlessTheyAreKept) {
  Graph graph;
  const Builder build(graph);
  const Value x = graph.add_input("x", floats({2, 3, 4})), base = graph.add_input("base", floats({5, 4}));
  const Value indices = graph.add_input("indices", integers({2})), updates = graph.add_input("updates", floats({2, 4}));
  const Value zeros = build.constant(DType::kF32, {Dim(5), Dim(4)}, 0);
  graph.outputs = {build.reduce_sum(build.reduce_sum(x, {1}), {0}),
                   build.add(base, build.scatter_add(zeros, indices, updates, 0))};
  const auto count = [&](bool keeps_sums) {
    const Graph result = canonicalize(graph, keeps_sums);
    return std::count_if(result.nodes().begin(), result.nodes().end(),
                         [](const Node& node) { return node.op == Op::kReduceSum || node.op == Op::kAdd; });
  };
  EXPECT_EQ(count(false), 1);
  EXPECT_EQ(count(true), 3);
}

// Rows of zeros that are replaced are rows that are added to; rows of anything else are not.
TEST(Canonicalize, ASumWithReplacedZerosReplacesNothing) {
  Graph graph;
  const Builder build(graph);
  const Value base = graph.add_input("base", floats({5, 4})), updates = graph.add_input("updates", floats({2, 4}));
  const Value indices = graph.add_input("indices", integers({2}));
  const Value zeros = build.constant(DType::kF32, {Dim(5), Dim(4)}, 0);
  graph.outputs = {build.add(base, build.scatter_add(zeros, indices, updates, 0, true)),
                   build.scatter_add(base, indices, updates, 0, true)};
  const Graph result = canonicalize(graph, false);
  EXPECT_FALSE(result.node(result.outputs[0]).attributes.replaces);
  EXPECT_EQ(result.node(result.outputs[0]).op, Op::kScatterAdd);
  EXPECT_TRUE(result.node(result.outputs[1]).attributes.replaces);
}

TEST(EliminateCommonSubexpressions, MergesEqualNodesOnly) {
  Graph graph;
  const Value seed = graph.add_input("seed", {DType::kI64, {2}});
  const auto bits = [&](int64_t stream) {
    Attributes attributes;
    attributes.shape = {4};
    attributes.stream = stream;
    return graph.add(Op::kRandomBits, {seed}, attributes);
  };
  graph.outputs = {bits(1), bits(2), bits(1)};
  const Builder b(graph);
  graph.outputs.push_back(b.recip(b.constant(DType::kF32, {}, 0.0)));
  graph.outputs.push_back(b.recip(b.constant(DType::kF32, {}, -0.0)));
  const Graph result = eliminate_common_subexpressions(graph);
  result.verify("cse");
  EXPECT_EQ(result.outputs[0], result.outputs[2]);
  EXPECT_NE(result.outputs[0], result.outputs[1]);
  EXPECT_NE(result.outputs[3], result.outputs[4]);
}

TEST(EliminateCommonSubexpressions, KeepsValuesOfRandomGraphs) {
  expect_same_values_on_random_graphs(eliminate_common_subexpressions);
}

TEST(EliminateDeadCode, KeepsInputsAndValues) {
  Graph graph;
  const Value x = graph.add_input("x", floats({2}));
  graph.add_input("unused", floats({3}));
  graph.add(Op::kExp2, {x});
  graph.outputs = {graph.add(Op::kNeg, {x})};
  const Graph result = eliminate_dead_code(graph);
  EXPECT_EQ(result.nodes().size(), 3u);
  EXPECT_EQ(result.inputs().size(), 2u);
  expect_same_values_on_random_graphs(eliminate_dead_code, 30);
}

}  // namespace
}  // namespace causeway::passes
