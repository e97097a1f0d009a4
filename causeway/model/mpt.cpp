// MPT (MosaicML, 2023): ALiBi (Press et al., arXiv 2108.12409) in place of positions, norms without biases, and one
// projection to queries, keys and values.
#include "causeway/base/error.h"
#include "causeway/model/families.h"
#include "causeway/model/initial_values.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

struct Block {
  Tensor attention_norm, qkv, attention_output, mlp_norm, up, down;
};

class Mpt final : public LanguageModel {
 public:
  Mpt(const ModelConfig& c, InitialValues* values) : LanguageModel(c) {
    const auto matrix = [&](const std::string& name, int64_t out, int64_t in, Initial initial = Initial::kNormal) {
      return declare(name + ".weight", {out, in}, initial, values);
    };
    const auto norm = [&](const std::string& name) {
      return declare(name + ".weight", {c.width}, Initial::kOnes, values);
    };
    embedding_ = matrix("transformer.wte", c.vocabulary_size, c.width);
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("transformer.blocks.{}.", i);
      Block block;
      block.attention_norm = norm(name + "norm_1");
      block.qkv = matrix(name + "attn.Wqkv", 3 * c.width, c.width);
      block.attention_output = matrix(name + "attn.out_proj", c.width, c.width, Initial::kResidualNormal);
      block.mlp_norm = norm(name + "norm_2");
      block.up = matrix(name + "ffn.up_proj", c.ffn_width, c.width);
      block.down = matrix(name + "ffn.down_proj", c.width, c.ffn_width, Initial::kResidualNormal);
      blocks_.push_back(std::move(block));
    }
    final_norm_ = norm("transformer.norm_f");
    slopes_ = alibi_slopes(c.heads, c.alibi_bias_max);
  }

  Tensor hidden_states(const ForwardInputs& inputs) const override {
    Tensor x = embed(inputs);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Scope scope(fmt::format("layers.{}", i));
      x = x + attention(x, blocks_[i], inputs);
      x = x + mlp(x, blocks_[i], inputs);
    }
    const Scope scope("head");
    return norm(x, final_norm_);
  }

  Tensor output_weight() const override { return embedding_; }

 private:
  Tensor norm(const Tensor& x, const Tensor& weight) const { return layer_norm(x, weight, {}, config().norm_epsilon); }

  Tensor embed(const ForwardInputs& inputs) const {
    const Scope scope("embedding");
    return drop(embedding(inputs.tokens, embedding_), inputs);
  }

  Tensor attention(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const std::vector<Tensor> qkv = split(linear(norm(x, block.attention_norm), block.qkv), config().width, -1);
    const int64_t heads = config().heads;
    const Tensor mixed =
        attend(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads), inputs, 0, slopes_);
    return drop(linear(mixed, block.attention_output), inputs);
  }

  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    return drop(linear(gelu(linear(norm(x, block.mlp_norm), block.up)), block.down), inputs);
  }

  Tensor embedding_;
  std::vector<Block> blocks_;
  Tensor final_norm_;
  Tensor slopes_;  // [H]
};

}  // namespace

std::unique_ptr<LanguageModel> make_mpt(const ModelConfig& config, InitialValues* values) {
  return std::make_unique<Mpt>(config, values);
}

}  // namespace causeway::model
