#include "causeway/model/config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::model {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kFamilies[] = {"gpt2", "llama", "mistral", "mpt"};

void require(bool condition, const std::string& key, const std::string& what, const std::string& hint = {}) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, what, "model." + key, hint);
}

struct SizeBound {
  const char* key;
  int64_t ModelConfig::* size;
  int64_t least;
  int64_t most;
};

constexpr SizeBound kSizeBounds[] = {
    {"vocabulary_size", &ModelConfig::vocabulary_size, 2, int64_t{1} << 24},
    {"layers", &ModelConfig::layers, 1, 1024},
    {"width", &ModelConfig::width, 1, int64_t{1} << 20},
    {"heads", &ModelConfig::heads, 1, int64_t{1} << 16},
    {"kv_heads", &ModelConfig::kv_heads, 0, int64_t{1} << 16},
    {"head_dim", &ModelConfig::head_dim, 0, 512},
    {"ffn_width", &ModelConfig::ffn_width, 0, int64_t{1} << 22},
    {"max_sequence_length", &ModelConfig::max_sequence_length, 1, int64_t{1} << 24},
    {"sliding_window", &ModelConfig::sliding_window, 0, int64_t{1} << 24},
};

// Before anything is computed from the sizes.
void check_size(const ModelConfig& config, const SizeBound& bound) {
  const int64_t value = config.*bound.size;
  require(value >= bound.least, bound.key,
          bound.least == 0 ? "must not be negative" : fmt::format("must be at least {}", bound.least));
  require(value <= bound.most, bound.key,
          fmt::format("{} is more than {}, the largest that can be built", value, bound.most));
}

bool is_llama_like(ModelFamily family) { return family == ModelFamily::kLlama || family == ModelFamily::kMistral; }

// The divisors of `width` nearest to `heads`, as a suggestion.
std::string possible_heads(int64_t width, int64_t heads) {
  int64_t below = 1, above = width;
  for (int64_t candidate = 1; candidate <= width; ++candidate) {
    if (width % candidate != 0) continue;
    if (candidate < heads) below = candidate;
    if (candidate > heads) {
      above = candidate;
      break;
    }
  }
  return fmt::format("{} or {} heads would divide it.", below, above);
}

[[noreturn]] void fail_kind(const char* key) {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' has an unexpected kind of value", key), "config.json");
}

void read(const Json& json, const char* key, int64_t& value) {
  // Not by conversion: of a fraction, or of a number beyond 64 bits, it would make another number.
  if (!json.is_number_integer()) fail_kind(key);
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) fail_kind(key);
  value = json.get<int64_t>();
}
void read(const Json& json, const char* key, double& value) {
  if (!json.is_number()) fail_kind(key);
  value = json.get<double>();
}
void read(const Json& json, const char* key, bool& value) {
  if (!json.is_boolean()) fail_kind(key);
  value = json.get<bool>();
}
void read(const Json& json, const char* key, std::string& value) {
  if (!json.is_string()) fail_kind(key);
  value = json.get<std::string>();
}

template <class T>
T get(const Json& json, const char* key, T fallback) {
  const auto entry = json.find(key);
  if (entry != json.end() && !entry->is_null()) read(*entry, key, fallback);
  return fallback;
}

template <class T>
T need(const Json& json, const char* key) {
  if (!json.contains(key)) throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is missing", key), "config.json");
  return get<T>(json, key, T{});
}

void expect_value(const Json& json, const char* key, const Json& supported) {
  const auto entry = json.find(key);
  if (entry == json.end() || entry->is_null() || *entry == supported) return;
  throw Error(ErrorKind::kUnsupported, fmt::format("{} = {}", key, entry->dump()), "config.json",
              fmt::format("Only {} is implemented.", supported.dump()));
}

// One size, or the same for every layer; transformers writes either.
int64_t kv_heads_of(const Json& json, int64_t heads) { return get<int64_t>(json, "num_key_value_heads", heads); }

}  // namespace

std::string_view model_family_name(ModelFamily family) { return kFamilies[static_cast<size_t>(family)]; }

ModelFamily parse_model_family(std::string_view name) {
  for (size_t i = 0; i < std::size(kFamilies); ++i)
    if (kFamilies[i] == name) return static_cast<ModelFamily>(i);
  const std::string nearest = nearest_name(name, {std::begin(kFamilies), std::end(kFamilies)});
  throw Error(
      ErrorKind::kInvalidArgument, fmt::format("unknown model family '{}'", name), "model.family",
      nearest.empty() ? "Families are gpt2, llama, mistral and mpt." : fmt::format("Did you mean {}?", nearest));
}

ModelConfig ModelConfig::resolved() const {
  ModelConfig c = *this;
  for (const SizeBound& bound : kSizeBounds) check_size(c, bound);
  require(c.norm_epsilon > 0, "norm_epsilon", "must be above 0");
  require(c.dropout >= 0 && c.dropout < 1, "dropout", "must be at least 0 and below 1");
  require(c.initializer_range > 0, "initializer_range", "must be above 0");
  const bool llama = is_llama_like(c.family);
  if (c.head_dim == 0) {
    require(c.width % c.heads == 0, "heads", fmt::format("{} heads do not divide the width, {}", c.heads, c.width),
            possible_heads(c.width, c.heads));
    c.head_dim = c.width / c.heads;
  }
  require(c.head_dim >= 1 && c.head_dim <= 512, "head_dim", fmt::format("{} is not between 1 and 512", c.head_dim));
  require(llama || c.head_dim * c.heads == c.width, "head_dim",
          fmt::format("{} heads of {} do not make the width, {}", c.heads, c.head_dim, c.width));
  require(!llama || c.head_dim % 2 == 0, "head_dim", fmt::format("{} is odd; rotary positions need pairs", c.head_dim));
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  require(c.kv_heads >= 1 && c.heads % c.kv_heads == 0, "kv_heads",
          fmt::format("{} key heads do not divide {} query heads", c.kv_heads, c.heads));
  require(llama || c.kv_heads == c.heads, "kv_heads", "grouped queries belong to llama and mistral");
  if (c.ffn_width == 0) c.ffn_width = llama ? (8 * c.width / 3 + 63) / 64 * 64 : 4 * c.width;
  require(c.sliding_window == 0 || c.family == ModelFamily::kMistral, "sliding_window", "belongs to mistral");
  require(c.rope_theta > 0, "rope_theta", "must be above 0");
  require(c.alibi_bias_max > 0, "alibi_bias_max", "must be above 0");
  if (c.family == ModelFamily::kGpt2 || c.family == ModelFamily::kMpt) c.tie_embeddings = true;
  return c;
}

Json to_hugging_face(const ModelConfig& c) {
  Json json;
  json["vocab_size"] = c.vocabulary_size;
  json["tie_word_embeddings"] = c.tie_embeddings;
  json["torch_dtype"] = "float32";
  json["initializer_range"] = c.initializer_range;
  switch (c.family) {
    case ModelFamily::kGpt2:
      json["architectures"] = {"GPT2LMHeadModel"};
      json["model_type"] = "gpt2";
      json["n_embd"] = c.width;
      json["n_layer"] = c.layers;
      json["n_head"] = c.heads;
      json["n_inner"] = c.ffn_width;
      json["n_positions"] = c.max_sequence_length;
      json["n_ctx"] = c.max_sequence_length;
      json["layer_norm_epsilon"] = c.norm_epsilon;
      json["activation_function"] = "gelu_new";
      for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) json[key] = c.dropout;
      break;
    case ModelFamily::kLlama:
    case ModelFamily::kMistral: {
      const bool mistral = c.family == ModelFamily::kMistral;
      json["architectures"] = {mistral ? "MistralForCausalLM" : "LlamaForCausalLM"};
      json["model_type"] = mistral ? "mistral" : "llama";
      json["hidden_size"] = c.width;
      json["intermediate_size"] = c.ffn_width;
      json["num_hidden_layers"] = c.layers;
      json["num_attention_heads"] = c.heads;
      json["num_key_value_heads"] = c.kv_heads;
      json["head_dim"] = c.head_dim;
      json["rms_norm_eps"] = c.norm_epsilon;
      json["max_position_embeddings"] = c.max_sequence_length;
      json["hidden_act"] = "silu";
      json["rope_theta"] = c.rope_theta;
      json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", c.rope_theta}};
      if (mistral) json["sliding_window"] = c.sliding_window == 0 ? Json(nullptr) : Json(c.sliding_window);
      break;
    }
    case ModelFamily::kMpt:
      json["architectures"] = {"MptForCausalLM"};
      json["model_type"] = "mpt";
      json["d_model"] = c.width;
      json["n_heads"] = c.heads;
      json["n_layers"] = c.layers;
      json["expansion_ratio"] = c.ffn_width / c.width;
      json["max_seq_len"] = c.max_sequence_length;
      json["no_bias"] = true;
      json["layer_norm_epsilon"] = c.norm_epsilon;
      json["attn_config"] = {{"alibi", true}, {"alibi_bias_max", c.alibi_bias_max}};
      break;
  }
  return json;
}

ModelConfig from_hugging_face(const Json& json) {
  if (!json.is_object()) throw Error(ErrorKind::kInvalidArgument, "is not a JSON object", "config.json");
  ModelConfig c;
  const std::string type = need<std::string>(json, "model_type");
  c.vocabulary_size = need<int64_t>(json, "vocab_size");
  c.initializer_range = get(json, "initializer_range", 0.02);
  if (type == "gpt2") {
    c.family = ModelFamily::kGpt2;
    expect_value(json, "activation_function", "gelu_new");
    expect_value(json, "scale_attn_by_inverse_layer_idx", false);
    expect_value(json, "tie_word_embeddings", true);
    c.width = need<int64_t>(json, "n_embd");
    c.layers = need<int64_t>(json, "n_layer");
    c.heads = need<int64_t>(json, "n_head");
    c.ffn_width = get<int64_t>(json, "n_inner", 0);
    c.max_sequence_length = get<int64_t>(json, "n_positions", 1024);
    c.norm_epsilon = get(json, "layer_norm_epsilon", 1e-5);
    c.dropout = get(json, "resid_pdrop", 0.0);
  } else if (type == "llama" || type == "mistral") {
    c.family = type == "llama" ? ModelFamily::kLlama : ModelFamily::kMistral;
    expect_value(json, "hidden_act", "silu");
    expect_value(json, "attention_bias", false);
    expect_value(json, "mlp_bias", false);
    expect_value(json, "rope_scaling", nullptr);
    c.width = need<int64_t>(json, "hidden_size");
    c.layers = need<int64_t>(json, "num_hidden_layers");
    c.heads = need<int64_t>(json, "num_attention_heads");
    c.kv_heads = kv_heads_of(json, c.heads);
    c.head_dim = get<int64_t>(json, "head_dim", 0);
    c.ffn_width = need<int64_t>(json, "intermediate_size");
    c.max_sequence_length = get<int64_t>(json, "max_position_embeddings", 2048);
    c.norm_epsilon = get(json, "rms_norm_eps", 1e-6);
    c.rope_theta = get(json, "rope_theta", 10000.0);
    if (const auto rope = json.find("rope_parameters"); rope != json.end() && rope->is_object()) {
      expect_value(*rope, "rope_type", "default");
      c.rope_theta = get(*rope, "rope_theta", c.rope_theta);
    }
    c.tie_embeddings = get(json, "tie_word_embeddings", false);
    if (c.family == ModelFamily::kMistral) c.sliding_window = get<int64_t>(json, "sliding_window", 0);
  } else if (type == "mpt") {
    c.family = ModelFamily::kMpt;
    expect_value(json, "no_bias", true);
    expect_value(json, "tie_word_embeddings", true);
    c.width = need<int64_t>(json, "d_model");
    c.layers = need<int64_t>(json, "n_layers");
    c.heads = need<int64_t>(json, "n_heads");
    c.ffn_width = 4 * c.width;  // whatever expansion_ratio says: the reference implementation fixes it
    c.max_sequence_length = get<int64_t>(json, "max_seq_len", 2048);
    c.norm_epsilon = get(json, "layer_norm_epsilon", 1e-5);
    if (const auto attention = json.find("attn_config"); attention != json.end() && attention->is_object()) {
      expect_value(*attention, "alibi", true);
      expect_value(*attention, "clip_qkv", nullptr);
      expect_value(*attention, "qk_ln", false);
      c.alibi_bias_max = get(*attention, "alibi_bias_max", 8.0);
    }
  } else {
    throw Error(ErrorKind::kUnsupported, fmt::format("model_type '{}'", type), "config.json",
                "Implemented are gpt2, llama, mistral and mpt.");
  }
  return c.resolved();
}

int64_t parameter_count(const ModelConfig& c) {
  const int64_t embedding = c.vocabulary_size * c.width;
  const int64_t query = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  const int64_t attention = c.width * query + 2 * c.width * kv + query * c.width;
  switch (c.family) {
    case ModelFamily::kGpt2: {
      const int64_t biases = 4 * c.width + c.ffn_width + c.width;  // qkv and projection, feed-forward
      return embedding + c.max_sequence_length * c.width + 2 * c.width +
             c.layers * (attention + 2 * c.width * c.ffn_width + biases + 4 * c.width);
    }
    case ModelFamily::kMpt:
      return embedding + c.width + c.layers * (attention + 2 * c.width * c.ffn_width + 2 * c.width);
    default:
      return embedding * (c.tie_embeddings ? 1 : 2) + c.width +
             c.layers * (attention + 3 * c.width * c.ffn_width + 2 * c.width);
  }
}

}  // namespace causeway::model
