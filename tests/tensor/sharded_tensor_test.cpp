// Tensors that are cut over a mesh, and the graphs that steps make of them.
#include <algorithm>
#include <numeric>

#include "causeway/graph/printer.h"
#include "causeway/program/context.h"
#include "tests/fixtures/op_literal.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

const Mesh kMesh = {{{"tp", 2, 1, false}, {"fsdp", 2, 2}}};

Sharding lying(const std::string& text) { return Sharding::parse(text); }

class RankOfFour : public testing::Test {
 protected:
  void SetUp() override { scope_.emplace(Context::open("cpu", {.mesh = kMesh, .rank = 3})); }
  std::optional<ContextScope> scope_;
};

using ShardedTensor = RankOfFour;

TEST_F(ShardedTensor, HoldsTheRanksPart) {
  Tensor x = Tensor::zeroed({4, 6}, DType::kF32, lying("fsdp,tp"));
  EXPECT_EQ(x.type().text(), "f32[4, 6]");
  EXPECT_TRUE(x.is_cut());
  EXPECT_EQ(x.local_shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(x.local_start(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(x.local_bytes(), 24);
  std::vector<float> part(6), read(6, -1);
  x.read_bytes(std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, part);
  std::iota(part.begin(), part.end(), 1.0f);
  x.write_bytes(std::as_bytes(std::span(part)));
  x.read_bytes(std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read, part);
  EXPECT_EQ(error_text([&] { x.write_bytes({}); }),
            "0 bytes for the rank's part, [2, 3], of a tensor of type f32[4, 6]");
}

TEST_F(ShardedTensor, ShardingsThatDoNotFitAreRefused) {
  EXPECT_EQ(error_text([] { Tensor::zeroed({3, 6}, DType::kF32, lying("fsdp,-")); }),
            "a tensor of [3, 6] cannot lie over the mesh as 'fsdp,-': dimension 0 of 3 is not divisible by 2 ranks");
  EXPECT_EQ(error_text([] { Tensor::zeroed({4}, DType::kF32, lying("|tp")); }),
            "a tensor in memory cannot hold terms of a sum ('|tp')");
}

TEST_F(ShardedTensor, EagerOperationsAndAllValuesAreRefused) {
  const Tensor x = Tensor::zeroed({4}, DType::kF32, lying("fsdp"));
  Tensor y = x;
  EXPECT_EQ(error_text([&] { x + 1; }),
            "an eager operation on a tensor of type f32[4] that is cut over the mesh as 'fsdp'");
  EXPECT_EQ(error_text([&] { y.assign(zeros({4})); }),
            "an eager operation on a tensor of type f32[4] that is cut over the mesh as 'fsdp'");
  EXPECT_EQ(error_text([&] { x.values(); }),
            "all values of a tensor of type f32[4] that is cut over the mesh as 'fsdp'");
}

TEST_F(ShardedTensor, EagerOperationsOnWholeTensorsGoOn) {
  Tensor x = vector_of({1, 2, 3});
  expect_tensor(x * 2 + 1, {3}, {3, 5, 7});
  x.assign(x + 1);
  expect_tensor(x, {3}, {2, 3, 4});
}

TEST_F(ShardedTensor, InputsOfTracesSayHowTheyLie) {
  const Tensor weight = Tensor::zeroed({4, 6}, DType::kF32, lying("tp,fsdp"));
  Trace trace;
  {
    const TraceScope scope(trace);
    const Tensor x = trace.add_argument("x", {DType::kF32, {8, 6}}, lying("fsdp,-"));
    const Tensor y = constrain_sharding(matmul(x, transpose(weight)), lying("fsdp,tp"));
    trace.graph.outputs = {trace.use(sum(y))};
  }
  const Graph& graph = trace.graph;
  ASSERT_EQ(graph.inputs().size(), 3u);
  const auto attributes = [&](size_t input) { return graph.node(graph.inputs()[input]).attributes; };
  EXPECT_EQ(attributes(0).name, kMeshCoordinates);
  EXPECT_EQ(graph.type(graph.inputs()[0]).text(), "i32[2]");
  EXPECT_EQ(attributes(1).sharding.text(), "fsdp,-");
  EXPECT_EQ(attributes(2).sharding.text(), "tp,fsdp");
  const auto constrained = std::find_if(graph.nodes().begin(), graph.nodes().end(),
                                        [](const Node& node) { return node.op == "constrain_sharding"_op; });
  ASSERT_NE(constrained, graph.nodes().end());
  EXPECT_EQ(constrained->attributes.sharding.text(), "fsdp,tp");
}

TEST_F(ShardedTensor, ConstraintsThatDoNotFitAreRefused) {
  EXPECT_EQ(
      error_text([] { constrain_sharding(zeros({3}), lying("tp")); }),
      "constrain_sharding: a tensor of [3] cannot lie over the mesh as 'tp': dimension 0 of 3 is not divisible by "
      "2 ranks");
  EXPECT_EQ(error_text([] { constrain_sharding(zeros({4}), lying("pp")); }), "the mesh has no axis 'pp'");
}

TEST(ConstrainSharding, IsNothingWithoutAMesh) {
  const Tensor x = vector_of({1, 2});
  EXPECT_EQ(constrain_sharding(x, lying("fsdp")).state(), x.state());
}

// Of every rank, on the reference interpreter: the whole of what its constraint passes through.
TEST_F(ShardedTensor, ConstraintsPassGradientsThrough) {
  Trace trace;
  {
    const TraceScope scope(trace);
    const Tensor x = trace.add_argument("x", {DType::kF32, {4}});
    const Tensor loss = sum(constrain_sharding(x * x, lying("fsdp")));
    trace.graph.outputs = {trace.use(gradients(loss, std::array{x})[0])};
  }
  const std::vector<HostTensor> results = interpret(
      trace.graph, {make_host_tensor(DType::kI32, {2}, {1, 1}), make_host_tensor(DType::kF32, {4}, {1, 2, 3, 4})});
  EXPECT_EQ(results[0].values, (std::vector<double>{2, 4, 6, 8}));
}

}  // namespace
}  // namespace causeway::tensor
