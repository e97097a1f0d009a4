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

struct Block {
  Tensor q, k, v, attention_output, gate, up, down, attention_norm, mlp_norm;
};

class Llama final : public LanguageModel {
 public:
  Llama(const ModelConfig& c, const ModelPart& part, int64_t window, InitialValues* values)
      : LanguageModel(c, part), window_(window) {
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
    const ParameterDim rows{c.vocabulary_size, c.tie_embeddings ? LogicalDim::kVocabulary : LogicalDim::kLookup};
    if (part.holds_embedding() || (c.tie_embeddings && part.holds_head()))
      embedding_ = matrix("model.embed_tokens", rows, width);
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("model.layers.{}.", i);
      Block& block = blocks_.emplace_back();
      if (!begin_layer(i)) continue;
      block.q = matrix(name + "self_attn.q_proj", query, width);
      block.k = matrix(name + "self_attn.k_proj", key, width);
      block.v = matrix(name + "self_attn.v_proj", key, width);
      block.attention_output = matrix(name + "self_attn.o_proj", width, query, Initial::kResidualNormal);
      block.gate = matrix(name + "mlp.gate_proj", ffn, width);
      block.up = matrix(name + "mlp.up_proj", ffn, width);
      block.down = matrix(name + "mlp.down_proj", width, ffn, Initial::kResidualNormal);
      block.attention_norm = norm(name + "input_layernorm");
      block.mlp_norm = norm(name + "post_attention_layernorm");
    }
    frequencies_ = rotary_frequencies(c.head_dim, c.own_number(kRopeTheta));
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
    const Tensor q = split_heads(linear(normed, block.q), config().heads);
    const Tensor k = split_heads(linear(normed, block.k), config().kv_heads);
    const Tensor v = split_heads(linear(normed, block.v), config().kv_heads);
    const Tensor mixed =
        attend(rotary_embedding(q, frequencies_), rotary_embedding(k, frequencies_), v, inputs, window_);
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

int64_t count_parameters(const ModelConfig& c) {
  const int64_t embeddings = c.vocabulary_size * c.width * (c.tie_embeddings ? 1 : 2);
  const int64_t query = c.heads * c.head_dim, key = c.kv_heads * c.head_dim;
  const int64_t matrices = 2 * c.width * query + 2 * c.width * key + 3 * c.width * c.ffn_width;
  const int64_t norms = 2 * c.width;
  return embeddings + c.layers * (matrices + norms) + c.width;
}

void require_even_heads(const ModelConfig& c) {
  if (c.head_dim % 2 == 0) return;
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{} is odd; rotary positions need pairs", c.head_dim),
              "model.head_dim");
}

void list_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("hidden_act", "silu");
  file.expected("attention_bias", false);
  file.expected("mlp_bias", false);
  file.expected("rope_scaling", nullptr);
  file.required("hidden_size", c.width);
  file.required("num_hidden_layers", c.layers);
  file.required("num_attention_heads", c.heads);
  file.optional("num_key_value_heads", c.kv_heads, c.heads);
  file.optional("head_dim", c.head_dim, 0);
  file.required("intermediate_size", c.ffn_width);
  file.optional("max_position_embeddings", c.max_sequence_length, 2048);
  file.optional("rms_norm_eps", c.norm_epsilon, 1e-6);
  double theta = c.own_number(kRopeTheta);
  file.optional("rope_theta", theta, 10000.0);
  // Where transformers 5 has it.
  file.object("rope_parameters", [&](HuggingFaceConfig& rope) {
    rope.fixed("rope_type", "default");
    rope.optional("rope_theta", theta, theta);
  });
  c.own[kRopeTheta] = theta;
}

}  // namespace

std::unique_ptr<LanguageModel> build_llama(const ModelConfig& config, const ModelPart& part, int64_t window,
                                           InitialValues* values) {
  return std::make_unique<Llama>(config, part, window, values);
}

ModelFamily llama_family() {
  ModelFamily family;
  family.name = "llama";
  family.keys = {positive_key(kRopeTheta, 10000.0, "base of the rotary frequencies")};
  family.grouped_queries = true;
  family.any_head_dim = true;
  family.usual_ffn_width = [](int64_t width) { return (8 * width / 3 + 63) / 64 * 64; };
  family.check = require_even_heads;
  family.parameter_count = count_parameters;
  family.build = [](const ModelConfig& config, const ModelPart& part, InitialValues* values) {
    return build_llama(config, part, 0, values);
  };
  family.hugging_face = {.model_type = "llama",
                         .architecture = "LlamaForCausalLM",
                         .entries = list_entries,
                         .constants = {".rotary_emb.inv_freq"}};
  return family;
}

}  // namespace causeway::model
