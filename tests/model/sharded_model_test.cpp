// Models over a mesh: how their parameters lie, and that loss and gradients are those of one device. Graphs of the
// ranks run on the reference interpreter.
#include <gtest/gtest.h>

#include <map>

#include "causeway/base/error.h"
#include "causeway/formats/box.h"
#include "causeway/model/family.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/passes/pipeline.h"
#include "causeway/program/context.h"
#include "tests/model/model_test_support.h"

namespace causeway::model {
namespace {

Mesh mesh_of(int64_t dp, int64_t fsdp, int64_t cp, int64_t tp) {
  Mesh mesh;
  for (const MeshAxis& axis : {MeshAxis{"cp", cp, tp}, MeshAxis{"tp", tp, 1, false}, MeshAxis{"fsdp", fsdp, tp * cp},
                               MeshAxis{"dp", dp, tp * cp * fsdp, true, false, true}})
    if (axis.size > 1) mesh.axes.push_back(axis);
  return mesh;
}

ModelConfig small_sharded_model_config(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = 24;
  config.layers = 2;
  config.width = 16;
  config.heads = 4;
  if (model_family(family).grouped_queries) config.kv_heads = 2;
  config.ffn_width = 32;
  config.max_sequence_length = 8;
  config.initializer_range = 0.2;
  return config.resolved();
}

std::string sharding_of(std::vector<ParameterDim> dims, const Mesh& mesh) { return weight_sharding(dims, mesh).text(); }

TEST(ParameterSharding, CutsWhatTheDimensionsCount) {
  const ParameterDim vocabulary{50257, LogicalDim::kVocabulary}, width{768, LogicalDim::kWidth},
      heads{768, LogicalDim::kHeads}, ffn{3072, LogicalDim::kFfn}, three{2304, LogicalDim::kHeadsOfThree};
  const Mesh tp = mesh_of(1, 1, 1, 4), all = mesh_of(2, 4, 2, 2);
  EXPECT_EQ(sharding_of({ffn, width}, tp), "tp,-");
  EXPECT_EQ(sharding_of({width, heads}, tp), "-,tp");
  EXPECT_EQ(sharding_of({vocabulary, width}, tp), "");
  EXPECT_EQ(sharding_of({three, width}, tp), "");
  EXPECT_EQ(sharding_of({width}, tp), "");
  EXPECT_EQ(sharding_of({ffn, width}, all), "cp+tp+fsdp+dp,-");
  EXPECT_EQ(sharding_of({width, heads}, all), "cp+fsdp+dp,tp");
  EXPECT_EQ(sharding_of({vocabulary, width}, all), "-,cp+fsdp+dp");
  // Vectors are whole but along what they count.
  EXPECT_EQ(sharding_of({width}, all), "");
  EXPECT_EQ(sharding_of({ffn}, all), "tp");
  // What one of them does not divide, the other one may.
  EXPECT_EQ(sharding_of({{6, LogicalDim::kWidth}, {7, LogicalDim::kWidth}}, all), "cp,-");
  EXPECT_EQ(sharding_of({{4, LogicalDim::kWidth}, width}, all), "fsdp,cp+dp");
  EXPECT_EQ(sharding_of({{7, LogicalDim::kWidth}, {9, LogicalDim::kWidth}}, all), "");
  EXPECT_EQ(sharding_of({ffn, width}, {}), "");
}

TEST(ParameterSharding, CutsWeightsOverDpAlone) {
  const ParameterDim vocabulary{50257, LogicalDim::kVocabulary}, lookup{50256, LogicalDim::kLookup},
      width{768, LogicalDim::kWidth}, ffn{3072, LogicalDim::kFfn};
  const Mesh mesh = mesh_of(4, 1, 1, 2);
  EXPECT_EQ(sharding_of({ffn, width}, mesh), "tp+dp,-");
  EXPECT_EQ(sharding_of({width, ffn}, mesh), "dp,tp");
  EXPECT_EQ(sharding_of({vocabulary, width}, mesh), "-,dp");
  EXPECT_EQ(sharding_of({lookup, width}, mesh), "tp,dp");
  EXPECT_EQ(sharding_of({vocabulary, {3, LogicalDim::kWidth}}, mesh), "");
}

// Every axis counts that cuts weights, cp as the others; stages do not.
TEST(ParameterSharding, TheHeldShareIsThatOfAWeightThatDivides) {
  EXPECT_EQ(held_share({}), 1);
  EXPECT_EQ(held_share(mesh_of(2, 1, 1, 1)), 1.0 / 2);
  EXPECT_EQ(held_share(mesh_of(1, 2, 1, 1)), 1.0 / 2);
  EXPECT_EQ(held_share(mesh_of(1, 1, 4, 1)), 1.0 / 4);
  EXPECT_EQ(held_share(mesh_of(1, 1, 1, 8)), 1.0 / 8);
  EXPECT_EQ(held_share(mesh_of(1, 3, 2, 1)), 1.0 / 6);
  EXPECT_EQ(held_share(mesh_of(2, 4, 2, 2)), 1.0 / 32);
  Mesh stages = mesh_of(1, 1, 2, 1);
  stages.axes.push_back({.name = "pp", .size = 3, .stride = 2, .stages = true});
  EXPECT_EQ(held_share(stages), 1.0 / 2);
}

TEST(ParameterSharding, CutsBatchesAndTheResidualStream) {
  const Mesh all = mesh_of(2, 4, 2, 2);
  EXPECT_EQ(batch_sharding(all).text(), "fsdp+dp,cp");
  EXPECT_EQ(batch_sharding(mesh_of(1, 1, 1, 2)).text(), "");
  EXPECT_EQ(stream_sharding({8, 64, 16}, all).text(), "fsdp+dp,cp+tp,-");
  EXPECT_EQ(stream_sharding({2, 6, 16}, all).text(), "dp,cp,-");
  EXPECT_EQ(stream_sharding({Dim(1), Dim::symbol("T", 64), Dim(16)}, all).text(), "");
}

struct OnMesh {
  std::string family;
  Mesh mesh;
};

class EveryFamilyOnMeshes : public testing::TestWithParam<OnMesh> {
 protected:
  std::unique_ptr<LanguageModel> of_rank(int64_t rank) const {
    const ContextScope scope(Context::open("cpu", {.mesh = GetParam().mesh, .rank = static_cast<int>(rank)}));
    return LanguageModel::create(small_sharded_model_config(GetParam().family), 5);
  }
};

TEST_P(EveryFamilyOnMeshes, RanksMakeTheirPartsOfTheSameValues) {
  const Mesh& mesh = GetParam().mesh;
  const auto whole = LanguageModel::create(small_sharded_model_config(GetParam().family), 5);
  int64_t bytes = 0, bytes_of_rank = 0;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const auto model = of_rank(rank);
    ASSERT_EQ(model->parameters().size(), whole->parameters().size());
    for (size_t i = 0; i < whole->parameters().size(); ++i) {
      const Tensor &part = model->parameters()[i].tensor, &reference = whole->parameters()[i].tensor;
      std::vector<float> values(static_cast<size_t>(part.local_bytes()) / sizeof(float));
      part.read_bytes(std::as_writable_bytes(std::span(values)));
      const HostTensor expected = shard_of(to_host(reference), part.sharding(), mesh, rank);
      EXPECT_EQ(std::vector<double>(values.begin(), values.end()), expected.values)
          << whole->parameters()[i].name << " of rank " << rank;
      if (rank > 0) continue;
      bytes += reference.local_bytes();
      bytes_of_rank += part.local_bytes();
    }
  }
  for (const MeshAxis& axis : mesh.axes)
    if (axis.name != "cp") EXPECT_LT(bytes_of_rank, bytes * 3 / 4);
}

constexpr int64_t kRows = 4, kLength = 8;

// Loss, and the gradient of every parameter; arguments are tokens, targets and token weights.
ModelFunction loss_and_gradients(const LanguageModel& model) {
  return [&model](const std::vector<Tensor>& arguments) {
    std::vector<Tensor> weights;
    for (const Parameter& parameter : model.parameters()) weights.push_back(parameter.tensor);
    std::vector<Tensor> results = {model.loss({arguments[0], {}, {}}, arguments[1], arguments[2])};
    for (Tensor& gradient : gradients(results[0], weights)) results.push_back(std::move(gradient));
    return results;
  };
}

std::vector<HostTensor> batch() {
  std::vector<double> tokens, targets, weights;
  for (int64_t i = 0; i < kRows * kLength; ++i) {
    tokens.push_back(static_cast<double>((i * 17 + i * i * 5) % 24));
    targets.push_back(i % 7 == 3 ? -1 : static_cast<double>((i * 11 + 3) % 24));
    weights.push_back(targets.back() < 0 ? 0 : 1.0 / 32);
  }
  return {make_host_tensor(DType::kI32, {kRows, kLength}, tokens),
          make_host_tensor(DType::kI32, {kRows, kLength}, targets),
          make_host_tensor(DType::kF32, {kRows, kLength}, weights)};
}

TEST_P(EveryFamilyOnMeshes, LossAndGradientsAreThoseOfOneDevice) {
  const Mesh& mesh = GetParam().mesh;
  const std::vector<HostTensor> arguments = batch();
  const auto whole = LanguageModel::create(small_sharded_model_config(GetParam().family), 5);
  std::vector<Tensor> on_device;
  for (const HostTensor& argument : arguments)
    on_device.push_back(Tensor::from_values(argument.values, argument.shape, argument.dtype));
  const std::vector<HostTensor> expected = run_on_interpreter(loss_and_gradients(*whole), on_device);

  // The same graph serves every rank: what differs is what it is given.
  const auto model = of_rank(0);
  const ContextScope scope(model->parameters()[0].tensor.context());
  const Sharding rows = batch_sharding(mesh);
  Trace trace;
  {
    const TraceScope tracing(trace);
    std::vector<Tensor> stand_ins;
    for (const HostTensor& argument : arguments)
      stand_ins.push_back(trace.add_argument("argument", {argument.dtype, {Dim(kRows), Dim(kLength)}}, rows));
    for (const Tensor& result : loss_and_gradients (*model)(stand_ins))
      trace.graph.outputs.push_back(trace.use(result));
  }
  const Graph local = Context::current()->run_passes(trace.graph, {});
  // What the model captured: parameters by their identity, other tensors (tables) as they are.
  std::map<const void*, HostTensor> parameters;
  for (size_t i = 0; i < model->parameters().size(); ++i)
    parameters[model->parameters()[i].tensor.state().get()] = to_host(whole->parameters()[i].tensor);
  std::vector<std::vector<HostTensor>> inputs;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<double> coordinates;
    for (size_t axis = 0; axis < mesh.axes.size(); ++axis)
      coordinates.push_back(static_cast<double>(mesh.coordinate(rank, axis)));
    inputs.push_back({make_host_tensor(DType::kI32, {static_cast<int64_t>(coordinates.size())}, coordinates)});
    for (const HostTensor& argument : arguments) inputs.back().push_back(shard_of(argument, rows, mesh, rank));
    for (const Trace::Captured& captured : trace.captured()) {
      const auto found = parameters.find(captured.tensor.state().get());
      const HostTensor value = found != parameters.end() ? found->second : to_host(captured.tensor);
      inputs.back().push_back(shard_of(value, captured.tensor.sharding(), mesh, rank));
    }
  }
  const auto results = interpret_ranks(local, mesh, inputs);
  for (size_t rank = 0; rank < results.size(); ++rank)
    for (size_t i = 0; i < expected.size(); ++i) {
      // In f64, but for sums that are f32 on their way.
      const Comparison comparison = compare(results[rank][i], expected[i], {.rms = 1e-9, .row = 1e-8});
      EXPECT_TRUE(comparison.equal) << (i == 0 ? "loss" : model->parameters()[i - 1].name) << " on rank " << rank
                                    << ": " << comparison.text;
    }
}

std::vector<OnMesh> cases() {
  std::vector<OnMesh> all;
  for (const char* family :
       {"gemma2", "gpt2", "llama", "mixtral", "mpt", "olmo2", "olmoe", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"})
    for (const Mesh& mesh : {mesh_of(2, 1, 1, 1), mesh_of(1, 2, 1, 1), mesh_of(2, 2, 1, 1), mesh_of(1, 1, 1, 2),
                             mesh_of(1, 2, 1, 2), mesh_of(1, 1, 2, 1), mesh_of(2, 1, 2, 2)})
      all.push_back({family, mesh});
  return all;
}

INSTANTIATE_TEST_SUITE_P(, EveryFamilyOnMeshes, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.family;
  for (const MeshAxis& axis : info.param.mesh.axes) name += fmt::format("_{}{}", axis.name, axis.size);
  return name;
});

}  // namespace
}  // namespace causeway::model
