// Every key of the configuration classes that the families have in transformers 4 and 5: whether it is honoured, must
// have one value, acts in training alone, or changes nothing. tools/list_configuration_keys.py lists them.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "causeway/base/error.h"
#include "causeway/model/config.h"
#include "causeway/model/family.h"

namespace causeway::model {
namespace {

using Json = nlohmann::json;

enum class Treatment {
  kHonoured,   // another value makes another model
  kRefused,    // another value is refused by the key's name
  kTraining,   // changes training of transformers alone: carried along, and said
  kWithout,    // changes nothing here: carried along
  kRewritten,  // changes nothing here, and is written anew or not at all
};

struct Key {
  const char* name;
  Treatment treatment;
  const char* other;  // another value than the usual one, as JSON
};

constexpr Treatment kHonoured = Treatment::kHonoured, kRefused = Treatment::kRefused, kTraining = Treatment::kTraining,
                    kWithout = Treatment::kWithout, kRewritten = Treatment::kRewritten;

// PretrainedConfig's, and what transformers looks for in any configuration though no class lists it.
const std::vector<Key> kBase = {
    {"_attn_implementation", kWithout, R"("eager")"},
    {"_attn_implementation_autoset", kWithout, "true"},
    {"_commit_hash", kRewritten, R"("0123")"},
    {"_name_or_path", kRewritten, R"("somewhere")"},
    {"add_cross_attention", kRefused, "true"},
    {"architectures", kRewritten, R"(["Other"])"},
    {"attention_chunk_size", kRefused, "8"},
    {"attn_implementation", kWithout, R"("sdpa")"},
    {"auto_map", kRewritten, R"({"AutoConfig": "configuration_x.X"})"},
    {"bad_words_ids", kWithout, "[[1]]"},
    {"begin_suppress_tokens", kWithout, "[1]"},
    {"bos_token_id", kRewritten, "3"},
    {"cache_implementation", kWithout, R"("hybrid")"},
    {"chunk_size_feed_forward", kWithout, "2"},
    {"compression_config", kRefused, R"({"format": "dense"})"},
    {"cross_attention_hidden_size", kWithout, "8"},
    {"decoder_start_token_id", kWithout, "3"},
    {"diversity_penalty", kWithout, "0.5"},
    {"do_sample", kWithout, "true"},
    {"dtype", kRewritten, R"("bfloat16")"},
    {"early_stopping", kWithout, "true"},
    {"encoder_no_repeat_ngram_size", kWithout, "2"},
    {"eos_token_id", kRewritten, "3"},
    {"exponential_decay_length_penalty", kWithout, "[1, 2.0]"},
    {"finetuning_task", kWithout, R"("task")"},
    {"forced_bos_token_id", kWithout, "3"},
    {"forced_eos_token_id", kWithout, "3"},
    {"gradient_checkpointing", kWithout, "true"},
    {"id2label", kWithout, R"({"0": "no", "1": "yes"})"},
    {"initializer_range", kHonoured, "0.5"},
    {"is_causal", kRefused, "false"},
    {"is_decoder", kWithout, "true"},
    {"is_encoder_decoder", kRefused, "true"},
    {"kv_sharing_modes", kRefused, R"(["reuse"])"},
    {"label2id", kWithout, R"({"no": 0})"},
    {"length_penalty", kWithout, "2.0"},
    {"max_length", kWithout, "50"},
    {"min_length", kWithout, "5"},
    {"no_repeat_ngram_size", kWithout, "2"},
    {"num_beam_groups", kWithout, "2"},
    {"num_beams", kWithout, "4"},
    {"num_kv_shared_layers", kRefused, "1"},
    {"num_labels", kWithout, "3"},
    {"num_return_sequences", kWithout, "2"},
    {"output_attentions", kWithout, "true"},
    {"output_hidden_states", kWithout, "true"},
    {"output_scores", kWithout, "true"},
    {"pad_token_id", kRewritten, "3"},
    {"per_layer_config", kRefused, R"({"0": {"hidden_size": 8}})"},
    {"prefix", kWithout, R"("A")"},
    {"problem_type", kWithout, R"("regression")"},
    {"pruned_heads", kRefused, R"({"0": [1]})"},
    {"quantization_config", kRefused, R"({"quant_method": "gptq"})"},
    {"remove_invalid_values", kWithout, "true"},
    {"repetition_penalty", kWithout, "1.5"},
    {"return_dict", kWithout, "false"},
    {"return_dict_in_generate", kWithout, "true"},
    {"sep_token_id", kWithout, "3"},
    {"suppress_tokens", kWithout, "[1]"},
    {"task_specific_params", kWithout, R"({"text-generation": {"do_sample": true}})"},
    {"temperature", kWithout, "0.5"},
    {"tf_legacy_loss", kWithout, "true"},
    {"tie_encoder_decoder", kWithout, "true"},
    {"tokenizer_class", kWithout, R"("GPT2Tokenizer")"},
    {"top_k", kWithout, "10"},
    {"top_p", kWithout, "0.5"},
    {"torch_dtype", kRewritten, R"("float16")"},
    {"torchscript", kWithout, "true"},
    {"transformers_version", kRewritten, R"("4.0.0")"},
    {"transformers_weights", kRefused, R"("other.safetensors")"},
    {"typical_p", kWithout, "0.5"},
    {"use_bfloat16", kWithout, "true"},
    {"vocab_size", kHonoured, "100"},
};

const std::vector<Key> kLlamaSizes = {
    {"attention_dropout", kTraining, "0.25"},
    {"head_dim", kHonoured, "32"},
    {"hidden_size", kHonoured, "128"},
    {"intermediate_size", kHonoured, "96"},
    {"max_position_embeddings", kHonoured, "333"},
    {"num_attention_heads", kHonoured, "8"},
    {"num_hidden_layers", kHonoured, "3"},
    {"num_key_value_heads", kHonoured, "1"},
    {"original_max_position_embeddings", kWithout, "128"},  // with rotary positions of Llama 3's kind alone
    {"partial_rotary_factor", kRefused, "0.5"},
    {"rms_norm_eps", kHonoured, "0.125"},
    {"rope_parameters", kHonoured, R"({"rope_type": "default", "rope_theta": 20000.0})"},
    {"rope_parameters", kRefused, R"({"full_attention": {"rope_type": "default", "rope_theta": 20000.0}})"},
    {"rope_scaling", kHonoured,
     R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0})"},
    {"rope_theta", kHonoured, "20000.0"},  // of transformers 4; "rope_parameters" goes before it
    {"use_cache", kWithout, "false"},
};

const std::map<std::string, std::vector<Key>> kOfFamilies = {
    {"gemma2",
     {{"attention_bias", kRefused, "true"},
      {"attn_logit_softcapping", kHonoured, "null"},
      {"final_logit_softcapping", kHonoured, "5.0"},
      {"hidden_act", kWithout, R"("silu")"},
      {"hidden_activation", kRefused, R"("gelu")"},
      {"layer_types", kHonoured, R"(["full_attention", "full_attention"])"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"query_pre_attn_scalar", kHonoured, "7"},
      {"sliding_window", kHonoured, "5"},
      {"sliding_window", kRefused, "null"},
      {"tie_word_embeddings", kRefused, "false"},
      {"use_bidirectional_attention", kRefused, "true"}}},
    {"gpt2",
     {{"activation_function", kRefused, R"("relu")"},
      {"attn_pdrop", kTraining, "0.25"},
      {"embd_pdrop", kTraining, "0.25"},
      {"hidden_size", kHonoured, "128"},
      {"layer_norm_epsilon", kHonoured, "0.125"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"max_position_embeddings", kHonoured, "333"},
      {"n_embd", kHonoured, "128"},
      {"n_head", kHonoured, "8"},
      {"n_inner", kHonoured, "96"},
      {"n_layer", kHonoured, "3"},
      {"n_positions", kHonoured, "333"},
      {"num_attention_heads", kHonoured, "8"},
      {"num_hidden_layers", kHonoured, "3"},
      {"reorder_and_upcast_attn", kWithout, "true"},
      {"resid_pdrop", kHonoured, "0.25"},
      {"scale_attn_by_inverse_layer_idx", kHonoured, "true"},
      {"scale_attn_weights", kHonoured, "false"},
      {"sliding_window", kRefused, "8"},
      {"summary_activation", kWithout, R"("tanh")"},
      {"summary_first_dropout", kWithout, "0.5"},
      {"summary_proj_to_labels", kWithout, "false"},
      {"summary_type", kWithout, R"("last")"},
      {"summary_use_proj", kWithout, "false"},
      {"tie_word_embeddings", kRefused, "false"},
      {"use_cache", kWithout, "false"}}},
    {"llama",
     {{"attention_bias", kRefused, "true"},
      {"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"mlp_bias", kRefused, "true"},
      {"pretraining_tp", kWithout, "2"},
      {"sliding_window", kRefused, "8"},
      {"tie_word_embeddings", kHonoured, "true"}}},
    {"mistral",
     {{"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"sliding_window", kHonoured, "8"},
      {"sliding_window", kRefused, "0"},
      {"tie_word_embeddings", kHonoured, "true"}}},
    {"mixtral",
     {{"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"num_experts", kHonoured, "4"},  // the other name
      {"num_experts_per_tok", kHonoured, "1"},
      {"num_local_experts", kHonoured, "4"},
      {"output_router_logits", kWithout, "true"},
      {"router_aux_loss_coef", kWithout, "0.5"},
      {"router_jitter_noise", kTraining, "0.25"},
      {"sliding_window", kHonoured, "8"},
      {"sliding_window", kRefused, "0"},
      {"tie_word_embeddings", kHonoured, "true"}}},
    {"mpt",
     {{"attn_config.alibi", kRefused, "false"},
      {"attn_config.alibi_bias_max", kHonoured, "4"},
      {"attn_config.attn_impl", kWithout, R"("flash")"},
      {"attn_config.attn_pdrop", kTraining, "0.25"},
      {"attn_config.attn_type", kRefused, R"("multiquery_attention")"},
      {"attn_config.attn_uses_sequence_id", kWithout, "true"},
      {"attn_config.clip_qkv", kRefused, "6"},
      {"attn_config.prefix_lm", kRefused, "true"},
      {"attn_config.qk_ln", kRefused, "true"},
      {"attn_config.rope", kRefused, "true"},
      {"attn_config.sliding_window_size", kRefused, "8"},
      {"attn_config.softmax_scale", kRefused, "0.5"},
      {"attn_config.tie_word_embeddings", kWithout, "false"},
      {"d_model", kHonoured, "128"},
      {"emb_pdrop", kTraining, "0.25"},
      {"embedding_fraction", kRefused, "0.5"},
      {"expansion_ratio", kHonoured, "2"},
      {"hidden_size", kHonoured, "128"},
      {"init_device", kWithout, R"("meta")"},
      {"layer_norm_epsilon", kHonoured, "0.125"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"learned_pos_emb", kWithout, "false"},
      {"logit_scale", kRefused, "0.5"},
      {"max_seq_len", kHonoured, "333"},
      {"n_heads", kHonoured, "8"},
      {"n_layers", kHonoured, "3"},
      {"no_bias", kRefused, "false"},
      {"norm_type", kRefused, R"("rmsnorm")"},
      {"num_attention_heads", kHonoured, "8"},
      {"num_hidden_layers", kHonoured, "3"},
      {"resid_pdrop", kTraining, "0.25"},
      {"sliding_window", kRefused, "8"},
      {"tie_word_embeddings", kRefused, "false"},
      {"use_cache", kWithout, "true"},
      {"verbose", kWithout, "1"}}},
    {"olmo2",
     {{"attention_bias", kRefused, "true"},
      {"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"sliding_window", kRefused, "8"},
      {"tie_word_embeddings", kHonoured, "true"}}},
    {"olmoe",
     {{"attention_bias", kRefused, "true"},
      {"clip_qkv", kRefused, "6.0"},
      {"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"norm_topk_prob", kHonoured, "true"},
      {"num_experts", kHonoured, "4"},
      {"num_experts_per_tok", kHonoured, "1"},
      {"num_local_experts", kHonoured, "4"},
      {"output_router_logits", kWithout, "true"},
      {"router_aux_loss_coef", kWithout, "0.5"},
      {"sliding_window", kRefused, "8"},
      {"tie_word_embeddings", kHonoured, "true"}}},
    {"qwen2",
     {{"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"max_window_layers", kWithout, "1"},
      {"sliding_window", kWithout, "8"},
      {"tie_word_embeddings", kHonoured, "true"},
      {"use_sliding_window", kRefused, "true"}}},
    {"qwen2_moe",
     {{"decoder_sparse_step", kHonoured, "2"},
      {"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"max_window_layers", kWithout, "1"},
      {"mlp_only_layers", kHonoured, "[0]"},
      {"mlp_only_layers", kRefused, "[1]"},
      {"moe_intermediate_size", kHonoured, "48"},
      {"norm_topk_prob", kHonoured, "true"},
      {"num_experts", kHonoured, "4"},
      {"num_experts_per_tok", kHonoured, "1"},
      {"num_local_experts", kHonoured, "4"},
      {"output_router_logits", kWithout, "true"},
      {"qkv_bias", kRefused, "false"},
      {"router_aux_loss_coef", kWithout, "0.5"},
      {"shared_expert_intermediate_size", kHonoured, "48"},
      {"sliding_window", kWithout, "8"},
      {"tie_word_embeddings", kHonoured, "true"},
      {"use_sliding_window", kRefused, "true"}}},
    {"qwen3",
     {{"attention_bias", kRefused, "true"},
      {"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"max_window_layers", kWithout, "1"},
      {"sliding_window", kWithout, "8"},
      {"tie_word_embeddings", kHonoured, "true"},
      {"use_sliding_window", kRefused, "true"}}},
    {"qwen3_moe",
     {{"attention_bias", kRefused, "true"},
      {"decoder_sparse_step", kHonoured, "2"},
      {"hidden_act", kRefused, R"("gelu")"},
      {"layer_types", kRefused, R"(["full_attention", "sliding_attention"])"},
      {"max_window_layers", kWithout, "1"},
      {"mlp_only_layers", kHonoured, "[0]"},
      {"mlp_only_layers", kRefused, "[1]"},
      {"moe_intermediate_size", kHonoured, "48"},
      {"norm_topk_prob", kHonoured, "true"},
      {"num_experts", kHonoured, "4"},
      {"num_experts_per_tok", kHonoured, "1"},
      {"num_local_experts", kHonoured, "4"},
      {"output_router_logits", kWithout, "true"},
      {"router_aux_loss_coef", kWithout, "0.5"},
      {"sliding_window", kWithout, "8"},
      {"tie_word_embeddings", kHonoured, "true"},
      {"use_sliding_window", kRefused, "true"}}}};

bool has_rotary_positions(const std::string& family) { return family != "gpt2" && family != "mpt"; }

std::vector<Key> keys_of(const std::string& family) {
  std::vector<Key> keys = kOfFamilies.at(family);
  keys.insert(keys.end(), kBase.begin(), kBase.end());
  if (has_rotary_positions(family)) keys.insert(keys.end(), kLlamaSizes.begin(), kLlamaSizes.end());
  return keys;
}

// Names that the class and the table have may lie in attn_config.
Json::json_pointer pointer_to(std::string name) {
  std::ranges::replace(name, '.', '/');
  return Json::json_pointer("/" + name);
}

// A file that says all that is written of a small model. Of a Qwen, a layer with a window were there one.
Json small_file(const std::string& family) {
  ModelConfig config;
  config.family = family;
  config.layers = 2;
  config.width = 64;
  if (model_family(family).find_key("sliding_window") != nullptr) config.own["sliding_window"] = int64_t{6};
  Json file = to_hugging_face(config.resolved());
  if (family == "qwen2" || family == "qwen3") file["max_window_layers"] = 0;
  return file;
}

// Defaults and kinds by key, of one version.
Json class_of(const char* version, const std::string& family) {
  std::ifstream file(std::filesystem::path(CAUSEWAY_SOURCE_DIR) / "tests/fixtures/configuration_keys" /
                     fmt::format("transformers_{}.json", version));
  return Json::parse(file).at(family);
}

constexpr const char* kVersions[] = {"4", "5"};

class ConfigurationKeys : public testing::TestWithParam<const char*> {};

TEST_P(ConfigurationKeys, AreAllListed) {
  std::set<std::string> listed;
  for (const Key& key : keys_of(GetParam())) listed.insert(key.name);
  for (const char* version : kVersions) {
    const Json keys = class_of(version, GetParam());
    for (const auto& [name, unused] : keys.items()) {
      const bool of_base = name.starts_with("attn_config.") && listed.contains(name.substr(12));
      EXPECT_TRUE(name == "model_type" || name == "attn_config.model_type" || of_base || listed.contains(name))
          << name << " of transformers " << version;
    }
  }
}

TEST_P(ConfigurationKeys, AreHonouredOrRefusedByName) {
  const Json file = small_file(GetParam());
  const ModelConfig usual = from_hugging_face(file);
  for (const Key& key : keys_of(GetParam())) {
    Json changed = file;
    const Json value = Json::parse(key.other);
    changed[pointer_to(key.name)] = value;
    if (std::string(key.name) == "num_hidden_layers") changed.erase("layer_types");
    if (std::string(key.name) == "rope_theta") changed.erase("rope_parameters");
    if (key.treatment == kRefused) {
      try {
        from_hugging_face(changed);
        ADD_FAILURE() << key.name << " = " << key.other << " is not refused";
      } catch (const Error& error) {
        const std::string last = std::string(key.name).substr(std::string(key.name).rfind('.') + 1);
        EXPECT_NE(error.message().find(last), std::string::npos) << key.name << ": " << error.message();
        EXPECT_EQ(error.where(), "config.json");
      }
      continue;
    }
    SCOPED_TRACE(key.name);
    const ModelConfig read = from_hugging_face(changed);
    const OtherEntries others = other_entries_of(read);
    EXPECT_EQ(read.without_other_entries() != usual.without_other_entries(), key.treatment == kHonoured);
    EXPECT_TRUE(others.unknown.empty());
    const Json written = to_hugging_face(read);
    EXPECT_EQ(from_hugging_face(written), read);
    const bool is_carried = key.treatment == kTraining || key.treatment == kWithout;
    if (is_carried) EXPECT_EQ(written.value(pointer_to(key.name), Json("nothing")), value);
    const std::string said = fmt::format("{} = {}", key.name, key.other);
    EXPECT_EQ(std::ranges::count(others.only_in_training, said), key.treatment == kTraining ? 1 : 0);
  }
}

// Both versions have the same default wherever it counts.
TEST_P(ConfigurationKeys, AreTheClassesDefaultsWhereTheyAreAbsent) {
  for (const char* version : kVersions) {
    // Of what the class says, key by key; lists of layers and objects of rotary positions follow from the rest.
    Json file = {{"model_type", GetParam()}};
    const ModelConfig absent = from_hugging_face(file);
    const Json keys = class_of(version, GetParam());
    for (const auto& [name, entry] : keys.items())
      if (!name.starts_with("attn_config.model_type")) file[pointer_to(name)] = entry[0];
    file["model_type"] = GetParam();
    const ModelConfig stated = from_hugging_face(file);
    EXPECT_EQ(stated.without_other_entries(), absent.without_other_entries()) << "transformers " << version;
  }
}

// The classes of transformers 5 refuse an integer for a number and the other way round.
TEST_P(ConfigurationKeys, AreWrittenWithTheKindsThatTransformers5Takes) {
  const Json kinds = class_of("5", GetParam());
  const auto kind_of = [](const Json& value) -> std::string {
    return value.is_number_integer() ? "integer"
           : value.is_number()       ? "float"
           : value.is_array()        ? "list"
                                     : value.type_name();
  };
  const auto check = [&](const Json& file, const std::string& prefix) {
    for (const auto& [name, value] : file.items()) {
      const auto known = kinds.find(prefix + name);
      if (known == kinds.end() || (*known)[1].empty()) continue;
      EXPECT_NE(std::ranges::find((*known)[1], Json(kind_of(value))), (*known)[1].end())
          << prefix << name << " = " << value;
    }
  };
  ModelConfig config;
  config.family = GetParam();
  config.norm_epsilon = config.initializer_range = 1;  // without a fraction
  config.dropout = model_family(GetParam()).name == "gpt2" ? 0.5 : 0;
  for (const ModelKey& key : model_family(GetParam()).keys)
    if (std::holds_alternative<double>(key.default_value))
      config.own[key.name] = key.name.starts_with("rope") ? 1.0 : 7.0;
  if (has_rotary_positions(GetParam())) {
    config.own["rope_high_frequency_factor"] = 4.0;
    config.own["rope_theta"] = 500000.0;
  }
  for (const int64_t width : {256, 64}) {
    config.width = width;
    const Json file = to_hugging_face(config.resolved());
    check(file, "");
    if (file.contains("attn_config")) check(file["attn_config"], "attn_config.");
    EXPECT_EQ(from_hugging_face(Json::parse(file.dump())), config.resolved());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ConfigurationKeys,
                         testing::Values("gemma2", "gpt2", "llama", "mistral", "mixtral", "mpt", "olmo2", "olmoe",
                                         "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(ConfigurationFile, UnknownKeysAreCarriedAndNamed) {
  Json file = small_file("mpt");
  file["ffn_config"] = {{"ffn_type", "mptmlp"}, {"list", {1, nullptr, "ü"}}};
  file["attn_config"]["fused_qkv"] = true;
  file["nothing"] = nullptr;
  const ModelConfig read = from_hugging_face(file);
  EXPECT_EQ(other_entries_of(read).unknown,
            (std::vector<std::string>{"ffn_config", "nothing", "attn_config.fused_qkv"}));
  EXPECT_EQ(to_hugging_face(read), file);
  EXPECT_EQ(to_hugging_face(read.without_other_entries()), small_file("mpt"));
}

// As transformers saves what bitsandbytes holds in 4 bits.
TEST(ConfigurationFile, QuantizedWeightsAreRefusedWithWhatToGive) {
  Json file = small_file("llama");
  file["quantization_config"] = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  try {
    from_hugging_face(file);
    ADD_FAILURE() << "quantized weights are read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_EQ(error.message(), "quantization_config: the weights are quantized already, by bitsandbytes");
    EXPECT_NE(error.hint().find("lora.base=nf4"), std::string::npos) << error.hint();
  }
}

TEST(ConfigurationFile, OtherEntriesContradictNothing) {
  ModelConfig config;
  const auto problem = [&](const std::string& entries) {
    config.other_entries = entries;
    try {
      config.resolved();
      return std::string("none");
    } catch (const Error& error) {
      return error.where() + ": " + error.message();
    }
  };
  EXPECT_EQ(problem(R"({"some": 1, "use_cache": false})"), "none");
  EXPECT_EQ(problem("[]"), "model.other_entries: is no JSON object");
  EXPECT_NE(problem("{").find("model.other_entries: the text is not valid JSON"), std::string::npos);
  EXPECT_EQ(problem(R"({"hidden_size": 8})"), "model.other_entries: hidden_size is no entry to carry along");
  EXPECT_EQ(problem(R"({"quantization_config": {}})"), "model.other_entries: quantization_config = {}");
  EXPECT_EQ(problem("{\"a\": \"" + std::string(1 << 20, 'x') + "\"}"),
            "model.other_entries: has more than 1048576 bytes");
}

TEST(ConfigurationFile, OtherDropoutsOfGpt2StayWhateverARecipeTakes) {
  ModelConfig read =
      from_hugging_face({{"model_type", "gpt2"}, {"resid_pdrop", 0.0}, {"embd_pdrop", 0.0}, {"attn_pdrop", 0.25}});
  EXPECT_EQ(other_entries_of(read).only_in_training, (std::vector<std::string>{"attn_pdrop = 0.25"}));
  for (const double dropout : {0.5, 0.25, 0.0}) {
    read.dropout = dropout;
    const Json written = to_hugging_face(read.resolved());
    EXPECT_EQ(written["attn_pdrop"], 0.25);
    EXPECT_EQ(written["resid_pdrop"], dropout);
  }
}

TEST(ConfigurationFile, WindowsOfQwenAreWhereTransformersHasThem) {
  for (const char* family : {"qwen2", "qwen3"}) {
    Json file = small_file(family);
    file.erase("max_window_layers");
    // Layers from 28 on have one where the file does not say: none of two.
    file["use_sliding_window"] = true;
    EXPECT_EQ(from_hugging_face(file).family, family);
    file["max_window_layers"] = 2;
    EXPECT_EQ(from_hugging_face(file).family, family);
    file["max_window_layers"] = 1;
    EXPECT_THROW(from_hugging_face(file), Error);
    file["sliding_window"] = nullptr;
    EXPECT_EQ(from_hugging_face(file).family, family);
    file["use_sliding_window"] = false;
    file["layer_types"] = {"full_attention", "sliding_attention"};
    try {
      from_hugging_face(file);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "layer_types has \"sliding_attention\", though use_sliding_window is false");
    }
  }
}

TEST(ConfigurationFile, AbsentAndNullAreNotTheSame) {
  const auto read = [](const char* family, const Json& entries) {
    Json file = {{"model_type", family}};
    if (entries.is_object()) file.update(entries);
    return from_hugging_face(file);
  };
  EXPECT_EQ(read("mistral", {}).own_integer("sliding_window"), 4096);
  EXPECT_EQ(read("mistral", {{"sliding_window", nullptr}}).own_integer("sliding_window"), 0);
  EXPECT_EQ(read("mistral", {}).kv_heads, 8);
  EXPECT_EQ(read("mistral", {{"num_key_value_heads", nullptr}}).kv_heads, 32);
  EXPECT_EQ(read("llama", {}).kv_heads, 32);
  EXPECT_EQ(read("qwen3", {}).head_dim, 128);
  EXPECT_EQ(read("qwen3", {{"head_dim", 64}, {"hidden_size", 64}}).head_dim, 64);
  EXPECT_EQ(read("gpt2", {}).dropout, 0.1);
  EXPECT_EQ(read("gpt2", {{"n_inner", nullptr}}).ffn_width, 3072);
  EXPECT_THROW(read("gpt2", {{"n_embd", nullptr}}), Error);
  EXPECT_THROW(read("gpt2", {{"scale_attn_weights", nullptr}}), Error);
  EXPECT_THROW(read("llama", {{"tie_word_embeddings", nullptr}}), Error);
}

TEST(ConfigurationFile, RotaryObjectsAreHonouredOrRefused) {
  const Json scaling = {{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}};
  const auto read = [&](const Json& changes, const Json& outside = {}) {
    Json file = small_file("llama");
    file.erase("rope_parameters");
    file["rope_scaling"] = scaling;
    if (changes.is_object()) file["rope_scaling"].update(changes);
    if (outside.is_object()) file.update(outside);
    return from_hugging_face(file);
  };
  // Where the object does not say, transformers 5 takes the number outside of it, or else the longest sequence.
  EXPECT_EQ(read({}).own_integer("rope_original_length"), 1024);
  EXPECT_EQ(read({}, {{"original_max_position_embeddings", 77}}).own_integer("rope_original_length"), 77);
  const Json within = {{"original_max_position_embeddings", 99}};
  EXPECT_EQ(read(within).own_integer("rope_original_length"), 99);
  EXPECT_THROW(read(within, {{"original_max_position_embeddings", 77}}), Error);
  EXPECT_THROW(read({{"type", "linear"}}), Error);
  EXPECT_EQ(read({{"type", "llama3"}, {"attention_factor", 1.0}}), read({}));
  try {
    read({{"scaled", true}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "rope_scaling.scaled = true");
  }
}

TEST(ConfigurationFile, OtherModelTypesAreRefusedWithTheFamiliesThereAre) {
  for (const char* type : {"deepseek_v3", "llama4", "gemma", "gemma3_text", "gpt_oss", "olmo", "gpt_bigcode", ""}) try {
      from_hugging_face({{"model_type", type}, {"vocab_size", 5}});
      ADD_FAILURE() << type;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), fmt::format("model_type '{}'", type));
      EXPECT_EQ(error.hint(),
                "Implemented are gemma2, gpt2, llama, mistral, mixtral, mpt, olmo2, olmoe, qwen2, qwen2_moe, qwen3 and "
                "qwen3_moe.");
    }
}

}  // namespace
}  // namespace causeway::model
