// Llama (Touvron et al., arXiv 2302.13971; grouped queries as in 2307.09288), and Mistral (arXiv 2310.06825), which is
// Llama with a sliding window.
#include "causeway/base/error.h"
#include "causeway/model/families.h"
#include "causeway/model/initial_values.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

struct Block {
  Tensor q, k, v, attention_output, gate, up, down, attention_norm, mlp_norm;
};

class Llama final : public LanguageModel {
 public:
  Llama(const ModelConfig& c, InitialValues* values) : LanguageModel(c) {
    const auto matrix = [&](const std::string& name, int64_t out, int64_t in, Initial initial = Initial::kNormal) {
      return declare(name + ".weight", {out, in}, initial, values);
    };
    const auto norm = [&](const std::string& name) {
      return declare(name + ".weight", {c.width}, Initial::kOnes, values);
    };
    const int64_t query = c.heads * c.head_dim, key = c.kv_heads * c.head_dim;
    embedding_ = matrix("model.embed_tokens", c.vocabulary_size, c.width);
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("model.layers.{}.", i);
      Block block;
      block.q = matrix(name + "self_attn.q_proj", query, c.width);
      block.k = matrix(name + "self_attn.k_proj", key, c.width);
      block.v = matrix(name + "self_attn.v_proj", key, c.width);
      block.attention_output = matrix(name + "self_attn.o_proj", c.width, query, Initial::kResidualNormal);
      block.gate = matrix(name + "mlp.gate_proj", c.ffn_width, c.width);
      block.up = matrix(name + "mlp.up_proj", c.ffn_width, c.width);
      block.down = matrix(name + "mlp.down_proj", c.width, c.ffn_width, Initial::kResidualNormal);
      block.attention_norm = norm(name + "input_layernorm");
      block.mlp_norm = norm(name + "post_attention_layernorm");
      blocks_.push_back(std::move(block));
    }
    final_norm_ = norm("model.norm");
    frequencies_ = rotary_frequencies(c.head_dim, c.rope_theta);
    output_ = c.tie_embeddings ? embedding_ : matrix("lm_head", c.vocabulary_size, c.width);
  }

  Tensor hidden_states(const ForwardInputs& inputs) const override {
    Tensor x = embed(inputs);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Scope scope(fmt::format("layers.{}", i));
      x = x + attention(x, blocks_[i], inputs);
      x = x + mlp(x, blocks_[i], inputs);
    }
    const Scope scope("head");
    return rms_norm(x, final_norm_, config().norm_epsilon);
  }

  Tensor output_weight() const override { return output_; }

 private:
  Tensor embed(const ForwardInputs& inputs) const {
    const Scope scope("embedding");
    return drop(embedding(inputs.tokens, embedding_), inputs);
  }

  Tensor attention(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const Tensor normed = rms_norm(x, block.attention_norm, config().norm_epsilon);
    const Tensor q = split_heads(linear(normed, block.q), config().heads);
    const Tensor k = split_heads(linear(normed, block.k), config().kv_heads);
    const Tensor v = split_heads(linear(normed, block.v), config().kv_heads);
    const Tensor mixed = attend(rotary_embedding(q, frequencies_), rotary_embedding(k, frequencies_), v, inputs,
                                config().sliding_window);
    return drop(linear(mixed, block.attention_output), inputs);
  }

  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    const Tensor normed = rms_norm(x, block.mlp_norm, config().norm_epsilon);
    return drop(linear(swiglu(linear(normed, block.gate), linear(normed, block.up)), block.down), inputs);
  }

  Tensor embedding_, output_;
  std::vector<Block> blocks_;
  Tensor final_norm_;
  Tensor frequencies_;  // [head_dim / 2]
};

}  // namespace

std::unique_ptr<LanguageModel> make_llama(const ModelConfig& config, InitialValues* values) {
  return std::make_unique<Llama>(config, values);
}

}  // namespace causeway::model
