// Llama (Touvron et al., arXiv 2302.13971; grouped queries as in 2307.09288).
#include "causeway/model/llama.h"

#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/initial_values.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr char kRopeTheta[] = "rope_theta";
constexpr char kRopeFactor[] = "rope_factor";
constexpr char kRopeLowFrequency[] = "rope_low_frequency_factor";
constexpr char kRopeHighFrequency[] = "rope_high_frequency_factor";
constexpr char kRopeLength[] = "rope_original_length";

// A factor of 1 stretches nothing.
RotaryScaling scaling_of(const ModelConfig& c) {
  return {c.own_number(kRopeFactor), c.own_number(kRopeLowFrequency), c.own_number(kRopeHighFrequency),
          static_cast<double>(c.own_integer(kRopeLength))};
}

struct Block {
  Tensor q, k, v, attention_output, gate, up, down, attention_norm, mlp_norm;
  Tensor q_bias, k_bias, v_bias;  // of the variant that has them
};

class Llama final : public LanguageModel {
 public:
  Llama(const ModelConfig& c, const ModelPart& part, const LlamaVariant& variant, InitialValues* values)
      : LanguageModel(c, part), window_(variant.window) {
    const ParameterDim vocabulary{c.vocabulary_size, LogicalDim::kVocabulary}, width{c.width, LogicalDim::kWidth},
        query{c.heads * c.head_dim, LogicalDim::kHeads}, key{c.kv_heads * c.head_dim, LogicalDim::kKeyHeads},
        ffn{c.ffn_width, LogicalDim::kFfn};
    const auto matrix = [&](const std::string& name, ParameterDim out, ParameterDim in,
                            Initial initial = Initial::kNormal) {
      return declare(name + ".weight", {out, in}, initial, values);
    };
    const auto norm = [&](const std::string& name) {
      return declare(name + ".weight", {width}, Initial::kOnes, values);
    };
    const auto bias = [&](const std::string& name, ParameterDim out) {
      return variant.attention_biases ? declare(name + ".bias", {out}, Initial::kZeros, values) : Tensor();
    };
    const ParameterDim rows{c.vocabulary_size, c.tie_embeddings ? LogicalDim::kVocabulary : LogicalDim::kLookup};
    if (part.holds_embedding() || (c.tie_embeddings && part.holds_head()))
      embedding_ = matrix("model.embed_tokens", rows, width);
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("model.layers.{}.", i);
      Block& block = blocks_.emplace_back();
      if (!begin_layer(i)) continue;
      block.q = matrix(name + "self_attn.q_proj", query, width);
      block.q_bias = bias(name + "self_attn.q_proj", query);
      block.k = matrix(name + "self_attn.k_proj", key, width);
      block.k_bias = bias(name + "self_attn.k_proj", key);
      block.v = matrix(name + "self_attn.v_proj", key, width);
      block.v_bias = bias(name + "self_attn.v_proj", key);
      block.attention_output = matrix(name + "self_attn.o_proj", width, query, Initial::kResidualNormal);
      block.gate = matrix(name + "mlp.gate_proj", ffn, width);
      block.up = matrix(name + "mlp.up_proj", ffn, width);
      block.down = matrix(name + "mlp.down_proj", width, ffn, Initial::kResidualNormal);
      block.attention_norm = norm(name + "input_layernorm");
      block.mlp_norm = norm(name + "post_attention_layernorm");
    }
    const RotaryScaling scaling = scaling_of(c);
    frequencies_ = rotary_frequencies(c.head_dim, c.own_number(kRopeTheta),
                                      scaling.factor == 1 ? std::nullopt : std::optional(scaling));
    if (!begin_head()) return;
    final_norm_ = norm("model.norm");
    output_ = c.tie_embeddings ? embedding_ : matrix("lm_head", vocabulary, width);
  }

  Tensor output_weight() const override { return output_; }

 private:
  Tensor embed(const ForwardInputs& inputs) const override {
    return drop(embedding(inputs.tokens, embedding_), inputs);
  }

  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const override {
    const Block& block = blocks_[static_cast<size_t>(layer)];
    const Tensor mixed = residual_stream(x + attention(x, block, inputs));
    return residual_stream(mixed + mlp(mixed, block, inputs));
  }

  Tensor last_norm(const Tensor& x) const override { return rms_norm(x, final_norm_, config().norm_epsilon); }

  Tensor attention(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const Tensor normed = rms_norm(x, block.attention_norm, config().norm_epsilon);
    const auto project = [&](const Tensor& weight, const Tensor& bias, int64_t heads) {
      const Tensor product = linear(normed, weight);
      return split_heads(bias.defined() ? product + bias : product, heads);
    };
    const Tensor q = project(block.q, block.q_bias, config().heads);
    const Tensor k = project(block.k, block.k_bias, config().kv_heads);
    const Tensor v = project(block.v, block.v_bias, config().kv_heads);
    const Tensor mixed = attend(rotary_embedding(q, frequencies_, inputs.positions),
                                rotary_embedding(k, frequencies_, inputs.positions), v, inputs, window_);
    return drop(linear(mixed, block.attention_output), inputs);
  }

  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    const Tensor normed = rms_norm(x, block.mlp_norm, config().norm_epsilon);
    return drop(linear(swiglu(linear(normed, block.gate), linear(normed, block.up)), block.down), inputs);
  }

  int64_t window_;  // positions that a query sees, itself included; 0: all
  Tensor embedding_, output_;
  std::vector<Block> blocks_;  // of all layers; empty where they are another part's
  Tensor final_norm_;
  Tensor frequencies_;  // [head_dim / 2]
};

std::vector<ModelKey> rope_scaling_keys() {
  ModelKey factor =
      positive_key(kRopeFactor, 1.0, "by how much long rotary wavelengths are stretched, as in Llama 3.1; 1: not");
  factor.problem = [](const ModelValue& value) -> std::string {
    return std::get<double>(value) >= 1 ? "" : "must be at least 1";
  };
  return {
      std::move(factor),
      positive_key(kRopeLowFrequency, 1.0, "rope_original_length over this: wavelengths from there on are stretched"),
      positive_key(kRopeHighFrequency, 4.0, "rope_original_length over this: wavelengths up to there stay"),
      size_key(kRopeLength, 8192, 1, int64_t{1} << 24, "longest sequence before the stretching")};
}

int64_t count_parameters(const ModelConfig& c) {
  const int64_t embeddings = c.vocabulary_size * c.width * (c.tie_embeddings ? 1 : 2);
  const int64_t query = c.heads * c.head_dim, key = c.kv_heads * c.head_dim;
  const int64_t matrices = 2 * c.width * query + 2 * c.width * key + 3 * c.width * c.ffn_width;
  const int64_t norms = 2 * c.width;
  return embeddings + c.layers * (matrices + norms) + c.width;
}

void check_positions(const ModelConfig& c) {
  if (c.head_dim % 2 != 0)
    throw Error(ErrorKind::kInvalidArgument, fmt::format("{} is odd; rotary positions need pairs", c.head_dim),
                "model.head_dim");
  const RotaryScaling scaling = scaling_of(c);
  if (scaling.low_frequency_factor >= scaling.high_frequency_factor)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} is not below model.rope_high_frequency_factor, {}", scaling.low_frequency_factor,
                            scaling.high_frequency_factor),
                "model.rope_low_frequency_factor");
  if (scaling.factor != 1) return;
  for (const ModelKey& key : rope_scaling_keys())
    if (key.name != kRopeFactor && c.own.contains(key.name) && c.own.at(key.name) != key.default_value)
      throw Error(ErrorKind::kInvalidArgument, "has no effect at model.rope_factor 1, which stretches nothing",
                  "model." + key.name, "Delete the key, or give model.rope_factor.");
}

// What kind of scaling there is, if any: Llama 3's alone.
void list_scaling(HuggingFaceConfig& rope, RotaryScaling& scaling) {
  constexpr char kKind[] = "llama3", kNone[] = "default";
  if (!rope.is_reading() && scaling.factor == 1) return rope.written("rope_type", kNone);
  rope.expected("partial_rotary_factor", 1.0);
  if (rope.is_reading()) {
    std::string kind;
    rope.optional("type", kind, kNone);  // its name before transformers 4.43
    rope.optional("rope_type", kind, std::string(kind));
    if (kind == kNone) return;
    if (kind != kKind)
      throw Error(ErrorKind::kUnsupported, fmt::format("rope_type = \"{}\"", kind), "config.json",
                  fmt::format("Only \"{}\" and \"{}\" are implemented.", kNone, kKind));
  }
  rope.written("rope_type", kKind);
  rope.required("factor", scaling.factor);
  rope.required("low_freq_factor", scaling.low_frequency_factor);
  rope.required("high_freq_factor", scaling.high_frequency_factor);
  auto length = static_cast<int64_t>(scaling.original_context);
  rope.required("original_max_position_embeddings", length);
  scaling.original_context = static_cast<double>(length);
}

// What rotary positions are, where transformers 4 has it and where transformers 5 does. Where a file has both, it is
// the former that counts, in either version.
void list_rope(HuggingFaceConfig& file, ModelConfig& c) {
  double theta = c.own_number(kRopeTheta);
  file.optional("rope_theta", theta, 10000.0);
  file.expected("partial_rotary_factor", 1.0);
  RotaryScaling scaling = scaling_of(c);
  const auto older = file.json().find("rope_scaling");
  const bool is_older = older != file.json().end() && older->is_object() && !older->empty();
  if (file.is_reading() ? is_older : scaling.factor != 1)
    file.object("rope_scaling", [&](HuggingFaceConfig& rope) {
      list_scaling(rope, scaling);
      if (rope.is_reading()) rope.optional("rope_theta", theta, theta);
    });
  else
    file.expected("rope_scaling", nullptr);
  if (!is_older)
    file.object("rope_parameters", [&](HuggingFaceConfig& rope) {
      list_scaling(rope, scaling);
      rope.optional("rope_theta", theta, theta);
    });
  if (scaling.factor == 1) scaling = {.factor = 1};
  c.own[kRopeTheta] = theta;
  c.own[kRopeFactor] = scaling.factor;
  c.own[kRopeLowFrequency] = scaling.low_frequency_factor;
  c.own[kRopeHighFrequency] = scaling.high_frequency_factor;
  c.own[kRopeLength] = static_cast<int64_t>(scaling.original_context);
}

void list_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.expected("attention_bias", false);
  file.expected("mlp_bias", false);
  list_llama_entries(file, c);
}

}  // namespace

std::unique_ptr<LanguageModel> build_llama(const ModelConfig& config, const ModelPart& part,
                                           const LlamaVariant& variant, InitialValues* values) {
  return std::make_unique<Llama>(config, part, variant, values);
}

void list_llama_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("hidden_act", "silu");
  file.required("hidden_size", c.width);
  file.required("num_hidden_layers", c.layers);
  file.required("num_attention_heads", c.heads);
  file.optional("num_key_value_heads", c.kv_heads, c.heads);
  file.optional("head_dim", c.head_dim, 0);
  file.required("intermediate_size", c.ffn_width);
  file.optional("max_position_embeddings", c.max_sequence_length, 2048);
  file.optional("rms_norm_eps", c.norm_epsilon, 1e-6);
  list_rope(file, c);
}

ModelFamily llama_family() {
  ModelFamily family;
  family.name = "llama";
  family.keys = rope_scaling_keys();
  family.keys.insert(family.keys.begin(), positive_key(kRopeTheta, 10000.0, "base of the rotary frequencies"));
  family.grouped_queries = true;
  family.any_head_dim = true;
  family.usual_ffn_width = [](int64_t width) { return (8 * width / 3 + 63) / 64 * 64; };
  family.check = check_positions;
  family.parameter_count = count_parameters;
  family.build = [](const ModelConfig& config, const ModelPart& part, InitialValues* values) {
    return build_llama(config, part, {}, values);
  };
  family.hugging_face = {.model_type = "llama",
                         .architecture = "LlamaForCausalLM",
                         .entries = list_entries,
                         .constants = {".rotary_emb.inv_freq"}};
  return family;
}

}  // namespace causeway::model
