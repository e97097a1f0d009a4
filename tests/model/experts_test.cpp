// Experts in files of both layouts, in configurations, and in adapters' targets.
#include "causeway/model/experts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/model/hugging_face.h"
#include "causeway/model/language_model.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::model {
namespace {

std::filesystem::path parity_fixture(const std::string& name) {
  return std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/parity" / name;
}

struct NamedValues {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, NamedValues>;

Tensors tensors_in(const std::filesystem::path& directory) {
  const SafetensorsModel model(directory);
  Tensors tensors;
  for (const std::string& name : model.names()) {
    const std::span<const std::byte> bytes = model.data(name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    tensors[name] = {model.entry(name).shape, std::move(values)};
  }
  return tensors;
}

void write_tensors(const std::filesystem::path& directory, const Tensors& tensors) {
  std::filesystem::create_directories(directory);
  std::vector<NamedTensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, DType::kF32, tensor.shape});
  SafetensorsWriter writer(directory / "model.safetensors", specs);
  for (const auto& [name, tensor] : tensors) writer.write(name, 0, std::as_bytes(std::span(tensor.values)));
  writer.finish();
}

// As transformers 5 holds Mixtral's: all experts in one tensor, gate before up, and the block "mlp".
Tensors fused(const Tensors& tensors, int64_t layers, int64_t experts) {
  Tensors all;
  for (const auto& [name, tensor] : tensors) {
    std::string renamed = name;
    if (const size_t at = name.find("block_sparse_moe"); at != std::string::npos) renamed.replace(at, 16, "mlp");
    if (name.find(".experts.") == std::string::npos) all[renamed] = tensor;
  }
  for (int64_t layer = 0; layer < layers; ++layer)
    for (int64_t expert = 0; expert < experts; ++expert) {
      const auto part = [&](const char* end) {
        return tensors.at(fmt::format("model.layers.{}.block_sparse_moe.experts.{}.{}.weight", layer, expert, end));
      };
      const auto append = [&](const std::string& to, const NamedValues& values, int64_t rows) {
        NamedValues& whole = all[fmt::format("model.layers.{}.mlp.experts.{}", layer, to)];
        whole.shape = {experts, rows, values.shape[1]};
        whole.values.insert(whole.values.end(), values.values.begin(), values.values.end());
      };
      const NamedValues gate = part("w1"), up = part("w3"), down = part("w2");
      append("gate_up_proj", gate, 2 * gate.shape[0]);
      append("gate_up_proj", up, 2 * gate.shape[0]);
      append("down_proj", down, down.shape[0]);
    }
  return all;
}

std::string error_of(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.where() + ": " + error.message();
  }
  return "no error";
}

TEST(ExpertFiles, AreReadInBothLayoutsAndWrittenOneByOne) {
  const TemporaryDirectory directory;
  const std::filesystem::path source = parity_fixture("mixtral");
  const auto model = load_hugging_face_model(source);
  save_hugging_face_model(*model, directory / "saved");
  const Tensors given = tensors_in(source), saved = tensors_in(directory / "saved");
  ASSERT_EQ(saved.size(), given.size());
  for (const auto& [name, tensor] : given) {
    ASSERT_TRUE(saved.contains(name)) << name;
    EXPECT_EQ(saved.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(saved.at(name).values, tensor.values) << name;
  }
  write_tensors(directory / "fused", fused(given, 2, 4));
  const auto again = LanguageModel::create(model->config(), std::nullopt);
  load_weights(*again, SafetensorsModel(directory / "fused"));
  for (size_t i = 0; i < model->parameters().size(); ++i)
    EXPECT_EQ(again->parameters()[i].tensor.values(), model->parameters()[i].tensor.values())
        << model->parameters()[i].name;
}

TEST(ExpertFiles, ThatLackAnExpertOrMixLayoutsAreRefused) {
  const TemporaryDirectory directory;
  const Tensors given = tensors_in(parity_fixture("mixtral"));
  const ModelConfig config = read_hugging_face_config(parity_fixture("mixtral"));
  const auto error = [&](const char* name, const Tensors& tensors) {
    write_tensors(directory / name, tensors);
    const auto model = LanguageModel::create(config, std::nullopt);
    return error_of([&] { load_weights(*model, SafetensorsModel(directory / name)); });
  };
  const std::string expert = "model.layers.1.block_sparse_moe.experts.2.w3.weight";
  Tensors missing = given;
  missing.erase(expert);
  EXPECT_EQ(error("missing", missing), expert + ": is missing from the weights");
  Tensors more = given;
  more["model.layers.1.block_sparse_moe.experts.4.w3.weight"] = given.at(expert);
  EXPECT_EQ(error("more", more),
            "model.layers.1.block_sparse_moe.experts.4.w3.weight: the mixtral model of config.json has no such tensor");
  Tensors mixed = fused(given, 2, 4);
  for (const auto& [name, tensor] : given)
    if (name.find("layers.0.block_sparse_moe.experts") != std::string::npos && name.find(".w2.") != std::string::npos)
      mixed[name] = tensor;
  EXPECT_EQ(error("mixed", mixed),
            "model.layers.0.block_sparse_moe.experts.0.w2.weight: is there beside "
            "model.layers.0.mlp.experts.gate_up_proj: the experts of a layer lie in two layouts");
  Tensors narrow = fused(given, 2, 4);
  narrow.at("model.layers.0.mlp.experts.down_proj").shape = {4, 24, 32};
  EXPECT_EQ(error("narrow", narrow),
            "model.layers.0.mlp.experts.down_proj: has shape [4, 24, 32], but the model's is [4, 32, 24]");
}

TEST(ExpertConfiguration, WhatCannotBeIsRefusedByName) {
  const auto error = [](const std::string& family, const std::string& key, int64_t value) {
    ModelConfig config;
    config.family = family;
    config.own[key] = value;
    return error_of([&] { config.resolved(); });
  };
  EXPECT_EQ(error("olmoe", "experts_per_token", 9),
            "model.experts_per_token: 9 experts of each token are more than there are, 8");
  EXPECT_EQ(error("olmoe", "experts", 0), "model.experts: must be at least 1");
  EXPECT_EQ(error("qwen3_moe", "first_dense_layers", 4),
            "model.first_dense_layers: 4 dense layers leave none of 4 with experts");
  EXPECT_EQ(error("qwen3_moe", "sparse_step", 5), "model.sparse_step: no layer of 4 has experts where every 5th would");
  EXPECT_EQ(error("llama", "experts", 4),
            "model.experts: has no effect on llama: it belongs to mixtral, olmoe, qwen2_moe and qwen3_moe");
  ModelConfig config;
  config.family = "qwen2_moe";
  nlohmann::json json = to_hugging_face(config.resolved());
  json["mlp_only_layers"] = {0, 1};
  EXPECT_EQ(from_hugging_face(json).own_integer("first_dense_layers"), 2);
  json["mlp_only_layers"] = {1};
  EXPECT_EQ(error_of([&] { from_hugging_face(json); }), "config.json: mlp_only_layers = [1]");
}

// The layers that have experts, by the names of their parameters.
TEST(ExpertConfiguration, SaysWhichLayersAreDense) {
  ModelConfig config;
  config.family = "qwen2_moe";
  config.layers = 6;
  config.width = 16;
  config.ffn_width = 24;
  config.own = {{"sparse_step", int64_t{2}}, {"first_dense_layers", int64_t{2}}};
  config = config.resolved();
  const auto model = LanguageModel::create(config, 1);
  std::string layers;
  int64_t elements = 0;
  for (const Parameter& parameter : model->parameters()) {
    if (parameter.name.ends_with("mlp.gate.weight")) layers += parameter.name.substr(13, 1);
    elements += element_count(parameter.tensor.shape()).constant();
  }
  EXPECT_EQ(layers, "35");
  EXPECT_EQ(parameter_count(config), elements);
  // Of two sparse layers six experts of eight each.
  EXPECT_EQ(active_parameter_count(config), elements - 2 * 6 * 3 * 16 * 24);
}

TEST(ExpertAdapters, AreRefusedByName) {
  ModelConfig config;
  config.family = "qwen2_moe";
  config.layers = 1;
  config.width = 16;
  config = config.resolved();
  const auto error = [&](const std::string& targets) {
    const AdapterConfig adapter{.rank = 2, .targets = targets};
    const auto model = LanguageModel::create(config, ModelPart(1), NewWeights{.adapter = adapter});
    return error_of([&] { require_targets(*model); });
  };
  EXPECT_EQ(error("q_proj,experts.up_proj"),
            "lora.targets: 'experts.up_proj' names model.layers.0.mlp.experts.up_proj, and weights of experts have no "
            "adapters yet");
  EXPECT_EQ(error("up_proj").find("lora.targets: 'up_proj' names"), 0u);
  EXPECT_EQ(error("shared_expert.up_proj,q_proj"), "no error");
  EXPECT_EQ(error("all-linear"), "no error");
  EXPECT_EQ(error_of([&] {
              const AdapterConfig adapter{.rank = 2, .base = BaseWeights::kF8};
              LanguageModel::create(config, ModelPart(1), NewWeights{.adapter = adapter});
            }),
            "lora.base: the weights of experts are not yet quantized");
}

}  // namespace
}  // namespace causeway::model
