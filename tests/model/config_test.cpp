#include "causeway/model/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"

namespace causeway::model {
namespace {

using Json = nlohmann::json;

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

TEST(ModelConfig, FillsInWhatIsNotGiven) {
  ModelConfig config;
  config.width = 768;
  config.heads = 12;
  EXPECT_EQ(config.resolved().ffn_width, 2048);
  EXPECT_EQ(config.resolved().kv_heads, 12);
  EXPECT_EQ(config.resolved().head_dim, 64);
  EXPECT_FALSE(config.resolved().tie_embeddings);
  config.family = ModelFamily::kGpt2;
  EXPECT_EQ(config.resolved().ffn_width, 3072);
  EXPECT_TRUE(config.resolved().tie_embeddings);
  EXPECT_EQ(config.resolved(), config.resolved().resolved());
}

TEST(ModelConfig, NamesTheFieldThatCannotBe) {
  const auto expect = [](const std::function<void(ModelConfig&)>& change, const std::string& where,
                         const std::string& message, const std::string& hint = {}) {
    ModelConfig config;
    change(config);
    expect_error([&] { config.resolved(); }, ErrorKind::kInvalidArgument, where, message, hint);
  };
  expect([](ModelConfig& c) { c.heads = 7; }, "model.heads", "7 heads do not divide the width, 256",
         "4 or 8 heads would divide it.");
  expect([](ModelConfig& c) { c.kv_heads = 3; }, "model.kv_heads", "3 key heads do not divide 4 query heads");
  expect([](ModelConfig& c) { c.head_dim = 33; }, "model.head_dim", "33 is odd; rotary positions need pairs");
  expect([](ModelConfig& c) { c.sliding_window = 8; }, "model.sliding_window", "belongs to mistral");
  expect([](ModelConfig& c) { c.dropout = 1; }, "model.dropout", "must be at least 0 and below 1");
  expect(
      [](ModelConfig& c) {
        c.family = ModelFamily::kMpt;
        c.kv_heads = 2;
      },
      "model.kv_heads", "grouped queries belong to llama and mistral");
  expect_error([] { parse_model_family("lama"); }, ErrorKind::kInvalidArgument, "model.family",
               "unknown model family 'lama'", "Did you mean llama?");
}

TEST(ModelConfig, SurvivesHuggingFacesFormat) {
  ModelConfig config;
  config.vocabulary_size = 1000;
  config.layers = 3;
  config.width = 96;
  config.heads = 6;
  config.max_sequence_length = 333;
  config.norm_epsilon = 2e-5;
  config.initializer_range = 0.03;
  for (const ModelFamily family : {ModelFamily::kGpt2, ModelFamily::kLlama, ModelFamily::kMistral, ModelFamily::kMpt}) {
    ModelConfig c = config;
    c.family = family;
    if (family == ModelFamily::kGpt2) c.dropout = 0.25;
    if (family == ModelFamily::kMpt) c.alibi_bias_max = 6;
    if (family == ModelFamily::kLlama || family == ModelFamily::kMistral) {
      c.kv_heads = 2;
      c.head_dim = 32;
      c.rope_theta = 5e5;
    }
    if (family == ModelFamily::kMistral) c.sliding_window = 17;
    if (family == ModelFamily::kLlama) c.tie_embeddings = true;
    c = c.resolved();
    EXPECT_EQ(from_hugging_face(to_hugging_face(c)), c) << model_family_name(family);
  }
}

TEST(ModelConfig, RefusesWhatIsNotImplemented) {
  ModelConfig config;
  const Json llama = to_hugging_face(config.resolved());
  const auto expect = [&](const std::string& key, const Json& value, ErrorKind kind, const std::string& message,
                          const std::string& hint) {
    Json json = llama;
    json[key] = value;
    expect_error([&] { from_hugging_face(json); }, kind, "config.json", message, hint);
  };
  expect("model_type", "falcon", ErrorKind::kUnsupported, "model_type 'falcon'",
         "Implemented are gpt2, llama, mistral and mpt.");
  expect("hidden_act", "gelu", ErrorKind::kUnsupported, "hidden_act = \"gelu\"", "Only \"silu\" is implemented.");
  expect("attention_bias", true, ErrorKind::kUnsupported, "attention_bias = true", "Only false is implemented.");
  expect("hidden_size", "wide", ErrorKind::kInvalidArgument, "'hidden_size' has an unexpected kind of value", "");
  // Numbers that are none, or beyond what a conversion would keep.
  for (const Json& value : {Json(1e300), Json(32.5), Json(uint64_t{1} << 63), Json(true), Json("32"), Json::array()})
    expect("hidden_size", value, ErrorKind::kInvalidArgument, "'hidden_size' has an unexpected kind of value", "");
  Json untied = to_hugging_face([] {
    ModelConfig gpt2;
    gpt2.family = ModelFamily::kGpt2;
    return gpt2.resolved();
  }());
  untied["tie_word_embeddings"] = false;
  expect_error([&] { from_hugging_face(untied); }, ErrorKind::kUnsupported, "config.json",
               "tie_word_embeddings = false", "Only true is implemented.");
  Json missing = llama;
  missing.erase("num_hidden_layers");
  expect_error([&] { from_hugging_face(missing); }, ErrorKind::kInvalidArgument, "config.json",
               "'num_hidden_layers' is missing", "");
}

}  // namespace
}  // namespace causeway::model
