// GPT-2 (Radford et al., 2019). Linear weights are [in, out], as its checkpoints have them.
#include "causeway/base/error.h"
#include "causeway/model/families.h"
#include "causeway/model/initial_values.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

struct Affine {
  Tensor weight, bias;
};

struct Block {
  Affine attention_norm, qkv, attention_output, mlp_norm, up, down;
};

class Gpt2 final : public LanguageModel {
 public:
  Gpt2(const ModelConfig& c, InitialValues* values) : LanguageModel(c) {
    token_embedding_ = declare("transformer.wte.weight", {c.vocabulary_size, c.width}, Initial::kNormal, values);
    position_embedding_ = declare("transformer.wpe.weight", {c.max_sequence_length, c.width}, Initial::kNormal, values);
    const auto norm = [&](const std::string& name) -> Affine {
      return {declare(name + ".weight", {c.width}, Initial::kOnes, values),
              declare(name + ".bias", {c.width}, Initial::kZeros, values)};
    };
    const auto projection = [&](const std::string& name, int64_t in, int64_t out, Initial initial) -> Affine {
      return {declare(name + ".weight", {in, out}, initial, values),
              declare(name + ".bias", {out}, Initial::kZeros, values)};
    };
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("transformer.h.{}.", i);
      Block block;
      block.attention_norm = norm(name + "ln_1");
      block.qkv = projection(name + "attn.c_attn", c.width, 3 * c.width, Initial::kNormal);
      block.attention_output = projection(name + "attn.c_proj", c.width, c.width, Initial::kResidualNormal);
      block.mlp_norm = norm(name + "ln_2");
      block.up = projection(name + "mlp.c_fc", c.width, c.ffn_width, Initial::kNormal);
      block.down = projection(name + "mlp.c_proj", c.ffn_width, c.width, Initial::kResidualNormal);
      blocks_.push_back(std::move(block));
    }
    final_norm_ = norm("transformer.ln_f");
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

  Tensor output_weight() const override { return token_embedding_; }

 private:
  static Tensor project(const Tensor& x, const Affine& affine) { return matmul(x, affine.weight) + affine.bias; }
  Tensor norm(const Tensor& x, const Affine& affine) const {
    return layer_norm(x, affine.weight, affine.bias, config().norm_epsilon);
  }

  Tensor embed(const ForwardInputs& inputs) const {
    const Scope scope("embedding");
    const Dim length = inputs.tokens.size(1);
    if (length.is_constant() && length.constant() > config().max_sequence_length)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("a sequence of {} tokens, but the position table has {} entries", length.constant(),
                              config().max_sequence_length),
                  "embedding", "Shorten the sequences, or raise model.max_sequence_length.");
    return drop(embedding(inputs.tokens, token_embedding_) + narrow(position_embedding_, 0, 0, length), inputs);
  }

  Tensor attention(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const std::vector<Tensor> qkv = split(project(norm(x, block.attention_norm), block.qkv), config().width, -1);
    const int64_t heads = config().heads;
    const Tensor mixed =
        attend(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads), inputs);
    return drop(project(mixed, block.attention_output), inputs);
  }

  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    const Tensor inner = gelu(project(norm(x, block.mlp_norm), block.up), GeluApproximation::kTanh);
    return drop(project(inner, block.down), inputs);
  }

  Tensor token_embedding_, position_embedding_;
  std::vector<Block> blocks_;
  Affine final_norm_;
};

}  // namespace

std::unique_ptr<LanguageModel> make_gpt2(const ModelConfig& config, InitialValues* values) {
  return std::make_unique<Gpt2>(config, values);
}

}  // namespace causeway::model
