#include "causeway/model/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/model/family.h"

namespace causeway::model {
namespace {

using Json = nlohmann::json;

void expect_error_of_config(const std::function<void()>& function, ErrorKind kind, const std::string& where,
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

// Each family says what else it is called; a word has one answer, there or among the words of the field.
TEST(ModelFamily, OtherNamesLeadToIt) {
  const auto hint = [](const std::string& name) {
    try {
      model_family(name);
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string("no error");
  };
  for (const ModelFamily* family : model_families()) {
    for (const std::string& name : family->other_names) {
      EXPECT_EQ(
          hint(name).find("Here that is " + (name == "qwen" ? "qwen2 or qwen3" : family->name) + ". Families are"), 0u)
          << name << ": " << hint(name);
      for (const FieldWord& entry : field_words())
        EXPECT_FALSE(entry.what == NameOf::kModelFamily &&
                     (" " + std::string(entry.words) + " ").find(" " + name + " ") != std::string::npos)
            << name;
    }
  }
  EXPECT_EQ(hint("Llama-3").find("Here that is llama."), 0u);
  EXPECT_EQ(hint("deepseek_v3").find("It is not here: of those whose layers have experts there are mixtral"), 0u);
}

TEST(ModelConfig, FillsInWhatIsNotGiven) {
  ModelConfig config;
  config.width = 768;
  config.heads = 12;
  EXPECT_EQ(config.resolved().ffn_width, 2048);
  EXPECT_EQ(config.resolved().kv_heads, 12);
  EXPECT_EQ(config.resolved().head_dim, 64);
  EXPECT_FALSE(config.resolved().tie_embeddings);
  config.family = "gpt2";
  EXPECT_EQ(config.resolved().ffn_width, 3072);
  EXPECT_TRUE(config.resolved().tie_embeddings);
  EXPECT_EQ(config.resolved(), config.resolved().resolved());
}

TEST(ModelConfig, NamesTheFieldThatCannotBe) {
  const auto expect = [](const std::function<void(ModelConfig&)>& change, const std::string& where,
                         const std::string& message, const std::string& hint = {}) {
    ModelConfig config;
    change(config);
    expect_error_of_config([&] { config.resolved(); }, ErrorKind::kInvalidArgument, where, message, hint);
  };
  expect([](ModelConfig& c) { c.heads = 7; }, "model.heads", "7 heads do not divide the width, 256",
         "4 or 8 heads would divide it.");
  expect([](ModelConfig& c) { c.kv_heads = 3; }, "model.kv_heads", "3 key heads do not divide 4 query heads");
  expect([](ModelConfig& c) { c.head_dim = 33; }, "model.head_dim", "33 is odd; rotary positions need pairs");
  const std::string delete_it = "Delete the key, or choose what it belongs to.";
  expect([](ModelConfig& c) { c.own["sliding_window"] = int64_t{8}; }, "model.sliding_window",
         "has no effect on llama: it belongs to gemma2, mistral and mixtral", delete_it);
  expect(
      [](ModelConfig& c) {
        c.family = "gpt2";
        c.own["rope_theta"] = 5e5;
      },
      "model.rope_theta",
      "has no effect on gpt2: it belongs to gemma2, llama, mistral, mixtral, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and "
      "qwen3_moe",
      delete_it);
  expect([](ModelConfig& c) { c.own["rope_theta"] = 0.0; }, "model.rope_theta", "must be above 0");
  expect([](ModelConfig& c) { c.own["rope_theta"] = int64_t{1}; }, "model.rope_theta", "has another kind of value");
  expect([](ModelConfig& c) { c.own["rope_tetha"] = 1.0; }, "model.rope_tetha", "unknown key");
  expect([](ModelConfig& c) { c.family = "lama"; }, "model.family", "unknown model family 'lama'",
         "Did you mean llama?");
  expect([](ModelConfig& c) { c.dropout = 1; }, "model.dropout", "must be at least 0 and below 1");
  expect(
      [](ModelConfig& c) {
        c.family = "mpt";
        c.kv_heads = 2;
      },
      "model.kv_heads",
      "GQA belongs to gemma2, llama, mistral, mixtral, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and qwen3_moe");
  expect([](ModelConfig& c) { c.own["rope_factor"] = 0.5; }, "model.rope_factor", "must be at least 1");
  expect([](ModelConfig& c) { c.own["rope_original_length"] = int64_t{0}; }, "model.rope_original_length",
         "must be at least 1");
  expect(
      [](ModelConfig& c) {
        c.own["rope_factor"] = 8.0;
        c.own["rope_low_frequency_factor"] = 4.0;
      },
      "model.rope_low_frequency_factor", "4 is not below model.rope_high_frequency_factor, 4");
  expect([](ModelConfig& c) { c.own["rope_original_length"] = int64_t{4096}; }, "model.rope_original_length",
         "has no effect at model.rope_factor 1, which stretches nothing", "Delete the key, or give model.rope_factor.");
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
  for (const std::string& family : model_family_names()) {
    ModelConfig c = config;
    c.family = family;
    if (family == "gpt2") c.dropout = 0.25;
    if (family == "mpt") c.own["alibi_bias_max"] = 6.0;
    if (model_family(family).grouped_queries) {
      c.kv_heads = 2;
      c.head_dim = 32;
      c.own["rope_theta"] = 5e5;
    }
    if (family == "llama" || family == "olmo2" || family == "qwen2" || family == "qwen3") {
      c.own["rope_factor"] = 32.0;
      c.own["rope_low_frequency_factor"] = 1.5;
      c.own["rope_high_frequency_factor"] = 5.0;
      c.own["rope_original_length"] = int64_t{111};
    }
    if (family == "mistral" || family == "gemma2") c.own["sliding_window"] = int64_t{17};
    if (family == "gemma2") {
      c.own["query_pre_attention_scalar"] = int64_t{18};
      c.own["attention_softcap"] = 0.0;
      c.own["logit_softcap"] = 12.5;
    }
    if (family == "llama") c.tie_embeddings = true;
    if (model_family(family).find_key("experts") != nullptr) {
      c.own["experts"] = int64_t{7};
      c.own["experts_per_token"] = int64_t{3};
      if (family != "mixtral") c.own["normalized_expert_weights"] = true;
      if (family.starts_with("qwen")) {
        c.own["expert_ffn_width"] = int64_t{40};
        c.own["sparse_step"] = int64_t{2};
        c.own["first_dense_layers"] = int64_t{1};
      }
    }
    c = c.resolved();
    EXPECT_EQ(from_hugging_face(to_hugging_face(c)), c) << family;
  }
}

// As transformers writes it for the same models, as far as it says how they compute.
TEST(ModelConfig, IsWrittenAsTransformersReadsIt) {
  ModelConfig config;
  config.width = 64;
  const auto written = [&](const char* family) {
    ModelConfig c = config;
    c.family = family;
    return to_hugging_face(c.resolved());
  };
  Json expected = {{"initializer_range", 0.02}, {"torch_dtype", "float32"}, {"vocab_size", 256}};
  expected.update({{"architectures", {"GPT2LMHeadModel"}},
                   {"model_type", "gpt2"},
                   {"tie_word_embeddings", true},
                   {"n_embd", 64},
                   {"n_layer", 4},
                   {"n_head", 4},
                   {"n_inner", 256},
                   {"n_positions", 1024},
                   {"n_ctx", 1024},
                   {"layer_norm_epsilon", 1e-5},
                   {"activation_function", "gelu_new"},
                   {"resid_pdrop", 0.0},
                   {"embd_pdrop", 0.0},
                   {"attn_pdrop", 0.0}});
  EXPECT_EQ(written("gpt2").dump(2), expected.dump(2));
  expected = {{"initializer_range", 0.02}, {"torch_dtype", "float32"}, {"vocab_size", 256}};
  expected.update({{"architectures", {"LlamaForCausalLM"}},
                   {"model_type", "llama"},
                   {"tie_word_embeddings", false},
                   {"hidden_size", 64},
                   {"intermediate_size", 192},
                   {"num_hidden_layers", 4},
                   {"num_attention_heads", 4},
                   {"num_key_value_heads", 4},
                   {"head_dim", 16},
                   {"rms_norm_eps", 1e-5},
                   {"max_position_embeddings", 1024},
                   {"hidden_act", "silu"},
                   {"rope_theta", 10000.0},
                   {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}}});
  EXPECT_EQ(written("llama").dump(2), expected.dump(2));
  expected.update({{"architectures", {"MistralForCausalLM"}}, {"model_type", "mistral"}, {"sliding_window", nullptr}});
  EXPECT_EQ(written("mistral").dump(2), expected.dump(2));
  expected.erase("sliding_window");
  expected.update({{"architectures", {"Qwen2ForCausalLM"}}, {"model_type", "qwen2"}, {"use_sliding_window", false}});
  EXPECT_EQ(written("qwen2").dump(2), expected.dump(2));
  expected.update({{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}, {"attention_bias", false}});
  EXPECT_EQ(written("qwen3").dump(2), expected.dump(2));
  expected.erase("use_sliding_window");
  expected.update({{"architectures", {"Olmo2ForCausalLM"}}, {"model_type", "olmo2"}});
  EXPECT_EQ(written("olmo2").dump(2), expected.dump(2));
  expected.erase("hidden_act");
  expected.update(
      {{"architectures", {"Gemma2ForCausalLM"}},
       {"model_type", "gemma2"},
       {"tie_word_embeddings", true},
       {"intermediate_size", 256},
       {"hidden_activation", "gelu_pytorch_tanh"},
       {"query_pre_attn_scalar", 16},
       {"attn_logit_softcapping", 50.0},
       {"final_logit_softcapping", 30.0},
       {"sliding_window", 1024},
       {"layer_types", Json::array({"full_attention", "full_attention", "full_attention", "full_attention"})}});
  EXPECT_EQ(written("gemma2").dump(2), expected.dump(2));
  expected = {{"initializer_range", 0.02}, {"torch_dtype", "float32"}, {"vocab_size", 256}};
  expected.update({{"architectures", {"MptForCausalLM"}},
                   {"model_type", "mpt"},
                   {"tie_word_embeddings", true},
                   {"d_model", 64},
                   {"n_heads", 4},
                   {"n_layers", 4},
                   {"expansion_ratio", 4},
                   {"max_seq_len", 1024},
                   {"no_bias", true},
                   {"layer_norm_epsilon", 1e-5},
                   {"attn_config", {{"alibi", true}, {"alibi_bias_max", 8}}}});
  EXPECT_EQ(written("mpt").dump(2), expected.dump(2));
}

// For transformers 4 in rope_scaling, for transformers 5 in rope_parameters.
TEST(ModelConfig, StretchedWavelengthsAreWrittenForEitherVersion) {
  ModelConfig config;
  config.own = {{"rope_theta", 5e5}, {"rope_factor", 8.0}};
  const Json json = to_hugging_face(config.resolved());
  Json rope = {{"rope_type", "llama3"},
               {"factor", 8.0},
               {"low_freq_factor", 1.0},
               {"high_freq_factor", 4.0},
               {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(json["rope_theta"], 5e5);
  EXPECT_EQ(json["rope_scaling"], rope);
  rope["rope_theta"] = 5e5;
  EXPECT_EQ(json["rope_parameters"], rope);
}

TEST(ModelConfig, StretchedWavelengthsAreReadOfEitherVersion) {
  ModelConfig config;
  const ModelConfig plain = config.resolved();
  config.own = {{"rope_theta", 5e5}, {"rope_factor", 32.0}};
  const ModelConfig stretched = config.resolved();
  const Json scaling = {{"rope_type", "llama3"},
                        {"factor", 32},
                        {"low_freq_factor", 1},
                        {"high_freq_factor", 4},
                        {"original_max_position_embeddings", 8192}};
  const auto with = [](Json json, const Json& entries) {
    json.update(entries);
    return json;
  };
  Json neither = to_hugging_face(plain);
  for (const char* key : {"rope_theta", "rope_parameters"}) neither.erase(key);
  EXPECT_EQ(from_hugging_face(neither), plain);
  const Json of_4 = with(neither, {{"rope_theta", 5e5}, {"rope_scaling", scaling}});
  EXPECT_EQ(from_hugging_face(of_4), stretched);
  Json of_5 = with(neither, {{"rope_parameters", with(scaling, {{"rope_theta", 5e5}})}});
  EXPECT_EQ(from_hugging_face(of_5), stretched);
  // Its name when there was no other kind than those of transformers before 4.43.
  Json older = of_4;
  older["rope_scaling"].erase("rope_type");
  older["rope_scaling"]["type"] = "llama3";
  EXPECT_EQ(from_hugging_face(older), stretched);
  // As transformers has it: rope_scaling before rope_parameters.
  EXPECT_EQ(from_hugging_face(with(of_4, {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1.0}}}})),
            stretched);
  of_5["rope_scaling"] = {{"rope_type", "default"}, {"rope_theta", 10000}};
  EXPECT_EQ(from_hugging_face(of_5), plain);
  // Stretched by 1: not at all.
  EXPECT_EQ(from_hugging_face(with(neither, {{"rope_scaling", with(scaling, {{"factor", 1}})}})), plain);
}

TEST(ModelConfig, PositionsThatAreNotImplementedAreRefused) {
  const Json llama = to_hugging_face(ModelConfig().resolved());
  const auto expect = [&](const std::string& key, const Json& value, ErrorKind kind, const std::string& message,
                          const std::string& hint) {
    Json json = llama;
    json[key] = value;
    expect_error_of_config([&] { from_hugging_face(json); }, kind, "config.json", message, hint);
  };
  const std::string kinds = "Only \"default\" and \"llama3\" are implemented.";
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    expect(key, {{"rope_type", "yarn"}, {"factor", 4.0}}, ErrorKind::kUnsupported, "rope_type = \"yarn\"", kinds);
    expect(key, {{"type", "linear"}, {"factor", 2.0}}, ErrorKind::kUnsupported, "rope_type = \"linear\"", kinds);
    expect(key, {{"rope_type", "llama3"}}, ErrorKind::kInvalidArgument, "'factor' is missing", "");
    expect(key, {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}, ErrorKind::kUnsupported,
           "partial_rotary_factor = 0.5", "Only 1.0 is implemented.");
  }
  expect("rope_scaling", "linear", ErrorKind::kUnsupported, "rope_scaling = \"linear\"", "Only null is implemented.");
  expect("partial_rotary_factor", 0.25, ErrorKind::kUnsupported, "partial_rotary_factor = 0.25",
         "Only 1.0 is implemented.");
  Json qwen2 = llama;
  qwen2["model_type"] = "qwen2";
  EXPECT_EQ(from_hugging_face(qwen2).family, "qwen2");
  qwen2.update({{"use_sliding_window", true}, {"max_window_layers", 3}});
  expect_error_of_config([&] { from_hugging_face(qwen2); }, ErrorKind::kUnsupported, "config.json",
                         "use_sliding_window = true with a window in the layers from 3 on",
                         "Only full attention in all layers is implemented.");
  Json olmo2 = llama;
  olmo2.update({{"model_type", "olmo2"}, {"attention_bias", true}});
  expect_error_of_config([&] { from_hugging_face(olmo2); }, ErrorKind::kUnsupported, "config.json",
                         "attention_bias = true", "Only false is implemented.");
  Json qwen3 = llama;
  qwen3["model_type"] = "qwen3";
  EXPECT_EQ(from_hugging_face(qwen3).family, "qwen3");
  qwen3["attention_bias"] = true;
  expect_error_of_config([&] { from_hugging_face(qwen3); }, ErrorKind::kUnsupported, "config.json",
                         "attention_bias = true", "Only false is implemented.");
}

TEST(ModelConfig, Gemma2SaysWhereItsWindowsAre) {
  ModelConfig config;
  config.family = "gemma2";
  config.layers = 3;
  const auto types = [](std::initializer_list<const char*> kinds) {
    Json list = Json::array();
    for (const std::string kind : kinds) list.push_back(kind + "_attention");
    return list;
  };
  const Json without = to_hugging_face(config.resolved());
  EXPECT_EQ(without["layer_types"], types({"full", "full", "full"}));
  EXPECT_EQ(from_hugging_face(without), config.resolved());
  config.own["sliding_window"] = int64_t{9};
  Json json = to_hugging_face(config.resolved());
  EXPECT_EQ(json["layer_types"], types({"sliding", "full", "sliding"}));
  EXPECT_EQ(json["sliding_window"], 9);
  // As before transformers 4.53.
  json.erase("layer_types");
  EXPECT_EQ(from_hugging_face(json), config.resolved());
  json.erase("sliding_window");
  EXPECT_EQ(from_hugging_face(json).own_integer("sliding_window"), 4096);
  const auto expect = [&](const Json& given, ErrorKind kind, const std::string& message, const std::string& hint) {
    json["layer_types"] = given;
    expect_error_of_config([&] { from_hugging_face(json); }, kind, "config.json", message, hint);
  };
  const std::string implemented =
      "Implemented are sliding_attention and full_attention in turn, and full_attention in all layers.";
  expect(types({"full", "sliding", "full"}), ErrorKind::kUnsupported, "layer_types in another order than in turn",
         implemented);
  expect(types({"sliding", "sliding", "sliding"}), ErrorKind::kUnsupported, "layer_types in another order than in turn",
         implemented);
  expect(types({"sliding", "full"}), ErrorKind::kInvalidArgument, "'layer_types' has 2 layers, and the model 3", "");
  for (const Json& list : {Json::array({1, 2, 3}), Json("sliding")})
    expect(list, ErrorKind::kInvalidArgument, "'layer_types' has an unexpected kind of value", "");
}

TEST(ModelConfig, Gemma2sCapsMayBeAbsentOrNone) {
  ModelConfig config;
  config.family = "gemma2";
  Json json = to_hugging_face(config.resolved());
  for (const auto& [entry, key, usual] : {std::tuple{"attn_logit_softcapping", "attention_softcap", 50.0},
                                          {"final_logit_softcapping", "logit_softcap", 30.0}}) {
    json.erase(entry);
    EXPECT_EQ(from_hugging_face(json).own_number(key), usual);
    json[entry] = nullptr;
    EXPECT_EQ(from_hugging_face(json).own_number(key), 0);
    EXPECT_EQ(to_hugging_face(from_hugging_face(json))[entry], nullptr);
    json[entry] = -1;
    expect_error_of_config([&] { from_hugging_face(json); }, ErrorKind::kInvalidArgument, std::string("model.") + key,
                           "must be finite and not negative", "");
    json[entry] = 2.5;
    EXPECT_EQ(from_hugging_face(json).own_number(key), 2.5);
  }
}

TEST(ModelConfig, OptionsOfGemma2ThatAreNotImplementedAreRefused) {
  ModelConfig config;
  config.family = "gemma2";
  const Json gemma2 = to_hugging_face(config.resolved());
  const auto expect = [&](const std::string& key, const Json& value, const std::string& hint) {
    Json json = gemma2;
    json[key] = value;
    expect_error_of_config([&] { from_hugging_face(json); }, ErrorKind::kUnsupported, "config.json",
                           fmt::format("{} = {}", key, value.dump()), hint);
  };
  expect("hidden_activation", "gelu", "Only \"gelu_pytorch_tanh\" is implemented.");
  expect("attention_bias", true, "Only false is implemented.");
  expect("use_bidirectional_attention", true, "Only false is implemented.");
  expect("tie_word_embeddings", false, "Only true is implemented.");
}

// Of config.json of the published models what says how many they have.
TEST(ModelConfig, PublishedModelsHaveTheirNumbersOfParameters) {
  const std::pair<const char*, int64_t> published[] = {
      // Llama 3.2 1B
      {R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
           "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
           "max_position_embeddings": 131072, "rope_theta": 500000.0, "tie_word_embeddings": true,
           "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                            "original_max_position_embeddings": 8192, "rope_type": "llama3"}})",
       1'235'814'400},
      // Llama 3.1 8B
      {R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
           "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
           "max_position_embeddings": 131072, "rope_theta": 500000.0, "tie_word_embeddings": false,
           "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                            "original_max_position_embeddings": 8192, "rope_type": "llama3"}})",
       8'030'261'248},
      // Qwen2.5 0.5B
      {R"({"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
           "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
           "max_position_embeddings": 32768, "max_window_layers": 24, "rope_theta": 1000000.0,
           "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": true})",
       494'032'768},
      // Qwen2.5 7B
      {R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
           "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
           "max_position_embeddings": 131072, "max_window_layers": 28, "rope_theta": 1000000.0,
           "sliding_window": 131072, "use_sliding_window": false, "tie_word_embeddings": false})",
       7'615'616'512},
      // Qwen3 0.6B
      {R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
           "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
           "attention_bias": false, "max_position_embeddings": 40960, "max_window_layers": 28,
           "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null, "use_sliding_window": false,
           "tie_word_embeddings": true})",
       596'049'920},
      // Qwen3 1.7B
      {R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
           "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
           "attention_bias": false, "tie_word_embeddings": true})",
       1'720'574'976},
      // Qwen3 4B
      {R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728,
           "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
           "attention_bias": false, "tie_word_embeddings": true})",
       4'022'468'096},
      // Qwen3 8B
      {R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
           "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
           "attention_bias": false, "tie_word_embeddings": false})",
       8'190'735'360},
      // OLMo 2 1B
      {R"({"model_type": "olmo2", "vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 8192,
           "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16, "attention_bias": false,
           "max_position_embeddings": 4096, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 500000,
           "tie_word_embeddings": false})",
       1'484'916'736},
      // OLMo 2 7B
      {R"({"model_type": "olmo2", "vocab_size": 100352, "hidden_size": 4096, "intermediate_size": 11008,
           "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
           "tie_word_embeddings": false})",
       7'298'617'344},
      // OLMo 2 13B
      {R"({"model_type": "olmo2", "vocab_size": 100352, "hidden_size": 5120, "intermediate_size": 13824,
           "num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 40,
           "tie_word_embeddings": false})",
       13'716'198'400},
      // Gemma 2 2B
      {R"({"model_type": "gemma2", "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216,
           "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
           "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "cache_implementation": "hybrid",
           "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
           "max_position_embeddings": 8192, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
           "rope_theta": 10000.0, "sliding_window": 4096})",
       2'614'341'888},
      // Gemma 2 9B
      {R"({"model_type": "gemma2", "vocab_size": 256000, "hidden_size": 3584, "intermediate_size": 14336,
           "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
           "query_pre_attn_scalar": 256})",
       9'241'705'984},
      // Gemma 2 27B
      {R"({"model_type": "gemma2", "vocab_size": 256000, "hidden_size": 4608, "intermediate_size": 36864,
           "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
           "query_pre_attn_scalar": 144})",
       27'227'128'320},
      // Mixtral 8x7B
      {R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
           "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
           "num_experts_per_tok": 2, "max_position_embeddings": 32768, "output_router_logits": false,
           "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
           "tie_word_embeddings": false})",
       46'702'792'704},
      // OLMoE 1B-7B
      {R"({"model_type": "olmoe", "vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 1024,
           "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 64,
           "num_experts_per_tok": 8, "norm_topk_prob": false, "clip_qkv": null, "attention_bias": false,
           "max_position_embeddings": 4096, "rope_scaling": null, "router_aux_loss_coef": 0.01})",
       6'919'161'856},
      // Qwen1.5-MoE-A2.7B
      {R"({"model_type": "qwen2_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
           "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts": 60,
           "num_experts_per_tok": 4, "decoder_sparse_step": 1, "norm_topk_prob": false, "num_hidden_layers": 24,
           "num_attention_heads": 16, "num_key_value_heads": 16, "use_sliding_window": false,
           "sliding_window": 32768, "max_window_layers": 21, "tie_word_embeddings": false})",
       14'315'784'192},
      // Qwen3-30B-A3B
      {R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
           "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
           "decoder_sparse_step": 1, "mlp_only_layers": [], "num_hidden_layers": 48, "num_attention_heads": 32,
           "num_key_value_heads": 4, "head_dim": 128, "attention_bias": false, "use_sliding_window": false,
           "sliding_window": null, "max_window_layers": 48, "rope_theta": 1000000.0})",
       30'532'122'624},
      // Qwen3-235B-A22B, under the other name of the number of experts
      {R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
           "moe_intermediate_size": 1536, "num_local_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": true,
           "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128})",
       235'093'634'560}};
  for (const auto& [text, parameters] : published)
    EXPECT_EQ(parameter_count(from_hugging_face(Json::parse(text))), parameters) << text;
}

TEST(ModelConfig, AFeedForwardWidthOfMptSurvivesAsItsRatio) {
  ModelConfig config;
  config.family = "mpt";
  config.width = 96;
  for (const auto& [width, ratio] : {std::pair<int64_t, Json>{288, 3}, {240, 2.5}, {100, 100.0 / 96}, {1, 1.0 / 96}}) {
    config.ffn_width = width;
    const ModelConfig resolved = config.resolved();
    const Json json = to_hugging_face(resolved);
    EXPECT_EQ(json["expansion_ratio"], ratio);
    EXPECT_EQ(from_hugging_face(Json::parse(json.dump())), resolved);
  }
  config.ffn_width = 0;
  Json json = to_hugging_face(config.resolved());
  json.erase("expansion_ratio");
  EXPECT_EQ(from_hugging_face(json).ffn_width, 4 * 96);
  for (const Json& ratio : {Json(0.3), Json(0), Json(-4), Json(1e300)}) {
    json["expansion_ratio"] = ratio;
    EXPECT_THROW(from_hugging_face(json), Error) << ratio;
  }
}

TEST(ModelConfig, RefusesWhatIsNotImplemented) {
  ModelConfig config;
  const Json llama = to_hugging_face(config.resolved());
  const auto expect = [&](const std::string& key, const Json& value, ErrorKind kind, const std::string& message,
                          const std::string& hint) {
    Json json = llama;
    json[key] = value;
    expect_error_of_config([&] { from_hugging_face(json); }, kind, "config.json", message, hint);
  };
  expect("model_type", "falcon", ErrorKind::kUnsupported, "model_type 'falcon'",
         "Implemented are gemma2, gpt2, llama, mistral, mixtral, mpt, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and "
         "qwen3_moe.");
  expect("hidden_act", "gelu", ErrorKind::kUnsupported, "hidden_act = \"gelu\"", "Only \"silu\" is implemented.");
  expect("attention_bias", true, ErrorKind::kUnsupported, "attention_bias = true", "Only false is implemented.");
  expect("hidden_size", "wide", ErrorKind::kInvalidArgument, "'hidden_size' has an unexpected kind of value", "");
  // Numbers that are none, or beyond what a conversion would keep.
  for (const Json& value : {Json(1e300), Json(32.5), Json(uint64_t{1} << 63), Json(true), Json("32"), Json::array()})
    expect("hidden_size", value, ErrorKind::kInvalidArgument, "'hidden_size' has an unexpected kind of value", "");
  Json untied = to_hugging_face([] {
    ModelConfig gpt2;
    gpt2.family = "gpt2";
    return gpt2.resolved();
  }());
  untied["tie_word_embeddings"] = false;
  expect_error_of_config([&] { from_hugging_face(untied); }, ErrorKind::kUnsupported, "config.json",
                         "tie_word_embeddings = false", "Only true is implemented.");
  Json missing = llama;
  missing.erase("model_type");
  expect_error_of_config([&] { from_hugging_face(missing); }, ErrorKind::kInvalidArgument, "config.json",
                         "'model_type' is missing", "");
}

}  // namespace
}  // namespace causeway::model
