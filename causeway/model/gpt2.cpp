// GPT-2 (Radford et al., 2019). Linear weights are [in, out], as its checkpoints have them.
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
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
  Gpt2(const ModelConfig& c, const ModelPart& part, const NewWeights& weights) : LanguageModel(c, part) {
    const ParameterDim vocabulary{c.vocabulary_size, LogicalDim::kVocabulary}, width{c.width, LogicalDim::kWidth},
        positions{c.max_sequence_length, LogicalDim::kPositions}, heads{c.width, LogicalDim::kHeads},
        heads_of_three{3 * c.width, LogicalDim::kHeadsOfThree}, ffn{c.ffn_width, LogicalDim::kFfn};
    if (part.holds_embedding() || part.holds_head())
      token_embedding_ = declare("transformer.wte.weight", {vocabulary, width}, Initial::kNormal, weights);
    if (part.holds_embedding())
      position_embedding_ = declare("transformer.wpe.weight", {positions, width}, Initial::kNormal, weights);
    const auto norm = [&](const std::string& name) -> Affine {
      return {declare(name + ".weight", {width}, Initial::kOnes, weights),
              declare(name + ".bias", {width}, Initial::kZeros, weights)};
    };
    const auto projection = [&](const std::string& name, ParameterDim in, ParameterDim out, Initial initial) -> Affine {
      return {declare(name + ".weight", {in, out}, initial, weights),
              declare(name + ".bias", {out}, Initial::kZeros, weights)};
    };
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("transformer.h.{}.", i);
      Block& block = blocks_.emplace_back();
      if (!begin_layer(i)) continue;
      block.attention_norm = norm(name + "ln_1");
      block.qkv = projection(name + "attn.c_attn", width, heads_of_three, Initial::kNormal);
      block.attention_output = projection(name + "attn.c_proj", heads, width, Initial::kResidualNormal);
      block.mlp_norm = norm(name + "ln_2");
      block.up = projection(name + "mlp.c_fc", width, ffn, Initial::kNormal);
      block.down = projection(name + "mlp.c_proj", ffn, width, Initial::kResidualNormal);
    }
    if (begin_head()) final_norm_ = norm("transformer.ln_f");
  }

  Tensor output_weight() const override { return part().holds_head() ? token_embedding_ : Tensor(); }

 private:
  static Tensor project(const Tensor& x, const Affine& affine) { return matmul(x, affine.weight) + affine.bias; }
  Tensor norm(const Tensor& x, const Affine& affine) const {
    return layer_norm(x, affine.weight, affine.bias, config().norm_epsilon);
  }

  Tensor embed(const ForwardInputs& inputs) const override {
    const Dim length = inputs.tokens.size(1);
    if (length.is_constant() && length.constant() > config().max_sequence_length)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("a sequence of {} tokens, but the position table has {} entries", length.constant(),
                              config().max_sequence_length),
                  "embedding", "Shorten the sequences, or raise model.max_sequence_length.");
    return drop(embedding(inputs.tokens, token_embedding_) + embed_positions(inputs), inputs);
  }

  Tensor embed_positions(const ForwardInputs& inputs) const {
    const Tensor& tokens = inputs.tokens;
    if (!inputs.positions.defined() && !inputs.positions_restart)
      return narrow(position_embedding_, 0, 0, tokens.size(1));
    Tensor positions = inputs.positions.defined() ? inputs.positions : index_tensor(DType::kI32, {tokens.size(1)}, 0);
    if (inputs.positions_restart) positions = positions - inputs.documents;
    return embedding(positions, position_embedding_);
  }

  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const override {
    const Block& block = blocks_[static_cast<size_t>(layer)];
    const Tensor mixed = residual_stream(x + attention(x, block, inputs));
    return residual_stream(mixed + mlp(mixed, block, inputs));
  }

  Tensor last_norm(const Tensor& x) const override { return norm(x, final_norm_); }

  Tensor attention(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const std::vector<Tensor> qkv = split(project(norm(x, block.attention_norm), block.qkv), config().width, -1);
    const int64_t heads = config().heads;
    const Tensor mixed =
        attend(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads), inputs, {});
    return drop(project(mixed, block.attention_output), inputs);
  }

  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    const Tensor inner = gelu(project(norm(x, block.mlp_norm), block.up), GeluApproximation::kTanh);
    return drop(project(inner, block.down), inputs);
  }

  Tensor token_embedding_, position_embedding_;
  std::vector<Block> blocks_;  // of all layers; empty where they are another part's
  Affine final_norm_;
};

int64_t count_parameters(const ModelConfig& c) {
  const int64_t embeddings = (c.vocabulary_size + c.max_sequence_length) * c.width;
  const int64_t matrices = 4 * c.width * c.width + 2 * c.width * c.ffn_width;
  const int64_t biases = 4 * c.width + c.ffn_width + c.width;  // qkv and projection, feed-forward
  const int64_t norms = 2 * 2 * c.width;
  return embeddings + c.layers * (matrices + biases + norms) + 2 * c.width;
}

void list_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("activation_function", "gelu_new");
  file.expected("scale_attn_by_inverse_layer_idx", false);
  file.required("n_embd", c.width);
  file.required("n_layer", c.layers);
  file.required("n_head", c.heads);
  file.optional("n_inner", c.ffn_width, 0);
  file.optional("n_positions", c.max_sequence_length, 1024);
  file.written("n_ctx", c.max_sequence_length);
  file.optional("layer_norm_epsilon", c.norm_epsilon, 1e-5);
  file.optional("resid_pdrop", c.dropout, 0.0);
  for (const char* key : {"embd_pdrop", "attn_pdrop"}) file.written(key, c.dropout);
}

}  // namespace

ModelFamily gpt2_family() {
  ModelFamily family;
  family.name = "gpt2";
  family.always_tied = true;
  family.usual_ffn_width = [](int64_t width) { return 4 * width; };
  family.parameter_count = count_parameters;
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Gpt2>(config, part, weights);
  };
  family.hugging_face = {.model_type = "gpt2",
                         .architecture = "GPT2LMHeadModel",
                         .entries = list_entries,
                         // As in its first checkpoints.
                         .optional_prefix = "transformer.",
                         .constants = {".attn.bias", ".attn.masked_bias"}};
  return family;
}

}  // namespace causeway::model
