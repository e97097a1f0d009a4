#include "causeway/model/hugging_face.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway::model {
namespace {

ModelConfig small_model_of_file_config(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.vocabulary_size = 61;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.max_sequence_length = 16;
  return config.resolved();
}

void expect_error(const std::function<void()>& function, ErrorKind kind, const std::string& where,
                  const std::string& message, const std::string& hint) {
  try {
    function();
    ADD_FAILURE() << "no error; expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.where(), where);
    EXPECT_EQ(error.message(), message);
    EXPECT_EQ(error.hint(), hint);
  }
}

void expect_same_weights(const LanguageModel& a, const LanguageModel& b) {
  ASSERT_EQ(a.parameters().size(), b.parameters().size());
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_EQ(a.parameters()[i].name, b.parameters()[i].name);
    EXPECT_EQ(a.parameters()[i].tensor.values(), b.parameters()[i].tensor.values()) << a.parameters()[i].name;
  }
}

struct Stored {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> values;
};

std::vector<Stored> stored(const LanguageModel& model) {
  std::vector<Stored> tensors;
  for (const Parameter& parameter : model.parameters())
    tensors.push_back({parameter.name, DType::kF32, evaluate(parameter.tensor.shape(), {}), parameter.tensor.values()});
  return tensors;
}

SafetensorsModel write(const std::filesystem::path& path, const std::vector<Stored>& tensors) {
  std::vector<NamedTensorSpec> specs;
  for (const Stored& tensor : tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(path, specs);
  for (const Stored& tensor : tensors) {
    std::vector<std::byte> bytes(tensor.values.size() * size_bytes(tensor.dtype));
    for (size_t i = 0; i < tensor.values.size(); ++i) write_element(tensor.dtype, bytes.data(), i, tensor.values[i]);
    writer.write(tensor.name, 0, bytes);
  }
  writer.finish();
  return SafetensorsModel(path);
}

TEST(HuggingFace, AModelSurvivesSavingAndLoading) {
  for (const char* family : {"gemma2", "gpt2", "llama", "mistral", "mixtral", "mpt", "olmo2", "olmoe", "qwen2",
                             "qwen2_moe", "qwen3", "qwen3_moe"}) {
    const TemporaryDirectory directory;
    const auto model = LanguageModel::create(small_model_of_file_config(family), 3);
    // Small files: the weights go to several, with an index.
    save_hugging_face_model(*model, directory / "model", 20'000);
    EXPECT_TRUE(std::filesystem::exists(directory / "model" / "model.safetensors.index.json"));
    const auto loaded = load_hugging_face_model(directory / "model");
    EXPECT_EQ(loaded->config(), model->config());
    expect_same_weights(*loaded, *model);
  }
}

TEST(HuggingFace, ReadsNarrowFloatsOldNamesAndTiedCopies) {
  const TemporaryDirectory directory;
  const auto model = LanguageModel::create(small_model_of_file_config("gpt2"), 3);
  std::vector<Stored> tensors = stored(*model);
  for (Stored& tensor : tensors) {
    tensor.name = tensor.name.substr(std::string("transformer.").size());
    tensor.dtype = tensor.name.ends_with("bias") ? DType::kF16 : DType::kBF16;
  }
  tensors.push_back(tensors.front());
  tensors.back().name = "lm_head.weight";
  tensors.push_back({"h.0.attn.bias", DType::kBool, {2, 2}, {1, 0, 1, 1}});
  const auto loaded = LanguageModel::create(small_model_of_file_config("gpt2"), std::nullopt);
  load_weights(*loaded, write(directory / "model.safetensors", tensors));
  for (size_t i = 0; i < model->parameters().size(); ++i) {
    std::vector<double> rounded = model->parameters()[i].tensor.values();
    for (double& value : rounded) value = round_to_dtype(tensors[i].dtype, value);
    EXPECT_EQ(loaded->parameters()[i].tensor.values(), rounded) << tensors[i].name;
  }
}

// The name without the beginning that a base model's lacks.
std::string base_name(const std::string& name) {
  for (const std::string prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

TEST(HuggingFace, ReadsBaseModelsAndTiedEmbeddingsUnderTheOtherName) {
  for (const char* family : {"gemma2", "gpt2", "llama", "mistral", "mpt", "olmo2", "qwen2", "qwen3"}) {
    SCOPED_TRACE(family);
    ModelConfig config = small_model_of_file_config(family);
    config.tie_embeddings = true;
    const TemporaryDirectory directory;
    const auto model = LanguageModel::create(config, 3);
    const auto loaded = LanguageModel::create(config, std::nullopt);
    std::vector<Stored> tensors = stored(*model);
    for (Stored& tensor : tensors) tensor.name = base_name(tensor.name);
    load_weights(*loaded, write(directory / "base.safetensors", tensors));
    expect_same_weights(*loaded, *model);
    tensors = stored(*model);
    tensors.front().name = "lm_head.weight";
    const auto again = LanguageModel::create(config, std::nullopt);
    load_weights(*again, write(directory / "tied.safetensors", tensors));
    expect_same_weights(*again, *model);
    // An index that names both, and a file that holds one.
    nlohmann::json map;
    for (const Stored& tensor : tensors) map[tensor.name] = "tied.safetensors";
    map[model->parameters().front().name] = "tied.safetensors";
    write_file_atomically(directory / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    load_weights(*again, SafetensorsModel(directory.path()));
    map["some.weight"] = "tied.safetensors";
    write_file_atomically(directory / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    expect_error([&] { load_weights(*again, SafetensorsModel(directory.path())); }, ErrorKind::kCorrupt,
                 (directory / "model.safetensors.index.json").string(),
                 "the index places tensor 'some.weight' in tied.safetensors, which does not hold it",
                 "Fetch or write the index again.");
  }
}

TEST(HuggingFace, ABaseModelHasNoOutputLayerOfItsOwn) {
  const TemporaryDirectory directory;
  const auto model = LanguageModel::create(small_model_of_file_config("llama"), 3);
  std::vector<Stored> tensors = stored(*model);
  for (Stored& tensor : tensors) tensor.name = base_name(tensor.name);
  tensors.pop_back();
  const SafetensorsModel weights = write(directory / "model.safetensors", tensors);
  expect_error([&] { load_weights(*model, weights); }, ErrorKind::kInvalidArgument, "lm_head.weight",
               "is missing from the weights",
               "A base model saved by itself has none: save the whole model, or set tie_word_embeddings to true if its "
               "output layer is the embedding.");
}

TEST(HuggingFace, RoundsF64ToNearestEven) {
  const TemporaryDirectory directory;
  const auto model = LanguageModel::create(small_model_of_file_config("mpt"), 3),
             loaded = LanguageModel::create(small_model_of_file_config("mpt"), std::nullopt);
  // By hand: the writer has none of this type.
  nlohmann::json header;
  std::string data;
  std::vector<std::vector<double>> expected;
  for (const Stored& tensor : stored(*model)) {
    const size_t begin = data.size();
    std::vector<double>& rounded = expected.emplace_back();
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      const double value = tensor.values[i] * (1 + std::ldexp(static_cast<double>(i % 7) - 3, -26));
      rounded.push_back(static_cast<float>(value));
      data.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    header[tensor.name] = {{"dtype", "F64"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  const std::string file = std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
  write_file_atomically(directory / "model.safetensors", std::string_view(file));
  const SafetensorsModel weights(directory.path());
  load_weights(*loaded, weights);
  const std::vector<StoredWeight> found = find_weights(*model, weights);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(loaded->parameters()[i].tensor.values(), expected[i]) << loaded->parameters()[i].name;
    EXPECT_EQ(found[i].stored_type, "f64");
    EXPECT_EQ(found[i].dtype, DType::kF32);
    std::vector<float> piece(3);
    read_weight(weights, found[i], 2, piece);
    EXPECT_EQ(std::vector<double>(piece.begin(), piece.end()),
              std::vector<double>(expected[i].begin() + 2, expected[i].begin() + 5));
  }
}

TEST(HuggingFace, NamesTheTensorThatDoesNotFit) {
  const TemporaryDirectory directory;
  const auto model = LanguageModel::create(small_model_of_file_config("mpt"), 3);
  const std::vector<Stored> tensors = stored(*model);
  int files = 0;
  const auto expect = [&](const std::function<void(std::vector<Stored>&)>& change, const std::string& where,
                          const std::string& message, const std::string& hint,
                          ErrorKind kind = ErrorKind::kInvalidArgument) {
    std::vector<Stored> changed = tensors;
    change(changed);
    const SafetensorsModel weights = write(directory / (std::to_string(files++) + ".safetensors"), changed);
    expect_error([&] { load_weights(*model, weights); }, kind, where, message, hint);
  };
  const std::string together = "Check that config.json and the weights belong together.";
  expect([](auto& all) { all[1].name = "transformer.blocks.0.norm1.weight"; }, "transformer.blocks.0.norm_1.weight",
         "is missing from the weights", "There is a tensor transformer.blocks.0.norm1.weight.");
  expect([](auto& all) { all[0].shape = {32, 61}; }, "transformer.wte.weight",
         "has shape [32, 61], but the model's is [61, 32]", together);
  expect(
      [](auto& all) {
        all.push_back(all[1]);
        all.back().name = "transformer.blocks.0.norm_1.bias";
      },
      "transformer.blocks.0.norm_1.bias", "the mpt model of config.json has no such tensor", together);
  expect(
      [](auto& all) {
        all.push_back(all[0]);
        all.back().name = "lm_head.weight";
        all.back().values[5] += 1;
      },
      "lm_head.weight", "differs from transformer.wte.weight, but config.json says that they are one",
      "Set tie_word_embeddings to false where the family allows it.");
  expect([](auto& all) { all[0].dtype = DType::kI32; }, "transformer.wte.weight", "weights of type i32",
         "Weights are read from f64, f32, bf16 and f16.", ErrorKind::kUnsupported);
}

TEST(HuggingFace, NamesAConfigurationThatCannotBeRead) {
  const TemporaryDirectory directory;
  const std::string path = (directory / "config.json").string();
  write_file_atomically(path, std::string_view("{"));
  expect_error([&] { read_hugging_face_config(directory.path()); }, ErrorKind::kInvalidArgument, path,
               "the configuration is not valid JSON: syntax error while parsing object key - unexpected end of input; "
               "expected string literal, at line 1, column 2",
               "Fetch config.json again.");
  write_file_atomically(path, std::string_view(R"({"model_type": "gpt_neox", "vocab_size": 5})"));
  expect_error([&] { read_hugging_face_config(directory.path()); }, ErrorKind::kUnsupported, path,
               "model_type 'gpt_neox'",
               "Implemented are gemma2, gpt2, llama, mistral, mixtral, mpt, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and "
               "qwen3_moe.");
}

}  // namespace
}  // namespace causeway::model
