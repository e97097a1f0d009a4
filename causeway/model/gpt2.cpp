// GPT-2 (Radford et al., 2019). Linear weights are [in, out], as its checkpoints have them.
#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr char kScaleAttention[] = "scale_attention";
constexpr char kScaleAttentionByLayer[] = "scale_attention_by_layer";

struct Affine {
  Tensor weight, bias;
};

struct Projection {
  Matrix weight;
  Tensor bias;
};

struct Gpt2Block {
  Affine attention_norm, mlp_norm;
  Projection qkv, attention_output, up, down;
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
    const auto projection = [&](const std::string& name, ParameterDim in, ParameterDim out,
                                Initial initial) -> Projection {
      return {declare_matrix(name, out, in, initial, weights, MatrixLayout::kInputFirst),
              declare(name + ".bias", {out}, Initial::kZeros, weights)};
    };
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("transformer.h.{}.", i);
      Gpt2Block& block = blocks_.emplace_back();
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
  Tensor project(const Tensor& x, const Projection& projection, const ForwardInputs& inputs) const {
    return multiply(x, projection.weight, inputs) + projection.bias;
  }
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
    return drop(look_up(inputs.tokens, token_embedding_) + embed_positions(inputs), inputs);
  }

  Tensor embed_positions(const ForwardInputs& inputs) const {
    const Tensor& tokens = inputs.tokens;
    if (!inputs.positions.defined() && !inputs.positions_restart)
      return cast(narrow(position_embedding_, 0, 0, tokens.size(1)), DType::kF32);
    Tensor positions = inputs.positions.defined() ? inputs.positions : index_tensor(DType::kI32, {tokens.size(1)}, 0);
    if (inputs.positions_restart) positions = positions - inputs.documents;
    return look_up(positions, position_embedding_);
  }

  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const override {
    const Gpt2Block& block = blocks_[static_cast<size_t>(layer)];
    const Tensor mixed = residual_stream(x + attention(x, layer, inputs));
    return residual_stream(mixed + mlp(mixed, block, inputs));
  }

  Tensor last_norm(const Tensor& x) const override { return norm(x, final_norm_); }

  AttentionForm attention_form(int64_t layer) const {
    const bool scales = config().own_truth(kScaleAttention), by_layer = config().own_truth(kScaleAttentionByLayer);
    if (scales && !by_layer) return {};
    const double of_heads = scales ? 1 / std::sqrt(static_cast<double>(config().head_dim)) : 1;
    return {.scale = by_layer ? of_heads / static_cast<double>(layer + 1) : of_heads};
  }

  Tensor attention(const Tensor& x, int64_t layer, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const Gpt2Block& block = blocks_[static_cast<size_t>(layer)];
    const std::vector<Tensor> qkv =
        split(project(norm(x, block.attention_norm), block.qkv, inputs), config().width, -1);
    const int64_t heads = config().heads;
    const Tensor mixed = attend(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads),
                                inputs, attention_form(layer));
    return drop(project(mixed, block.attention_output, inputs), inputs);
  }

  Tensor mlp(const Tensor& x, const Gpt2Block& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    const Tensor inner = gelu(project(norm(x, block.mlp_norm), block.up, inputs), GeluApproximation::kTanh);
    return drop(project(inner, block.down, inputs), inputs);
  }

  Tensor token_embedding_, position_embedding_;
  std::vector<Gpt2Block> blocks_;  // of all layers; empty where they are another part's
  Affine final_norm_;
};

int64_t count_gpt2_parameters(const ModelConfig& c) {
  const int64_t embeddings = (c.vocabulary_size + c.max_sequence_length) * c.width;
  const int64_t matrices = 4 * c.width * c.width + 2 * c.width * c.ffn_width;
  const int64_t biases = 4 * c.width + c.ffn_width + c.width;  // qkv and projection, feed-forward
  const int64_t norms = 2 * 2 * c.width;
  return embeddings + c.layers * (matrices + biases + norms) + 2 * c.width;
}

// One probability is that of embeddings and of what is added to the residual stream; attention's weights have none.
void list_other_dropouts(HuggingFaceConfig& file, const ModelConfig& c) {
  for (const char* key : {"embd_pdrop", "attn_pdrop"}) file.written(key, c.dropout);
  if (!file.is_reading()) return;
  const auto embeddings = file.json().find("embd_pdrop");
  if (embeddings == file.json().end() || *embeddings == c.dropout)
    file.without_effect({{"embd_pdrop", c.dropout}});
  else
    file.training_only({{"embd_pdrop", c.dropout}});
  file.training_only({{"attn_pdrop", c.dropout}});
}

// Defaults are GPT2Config's.
void list_gpt2_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.alias("hidden_size", "n_embd");
  file.alias("max_position_embeddings", "n_positions");
  file.alias("num_attention_heads", "n_head");
  file.alias("num_hidden_layers", "n_layer");
  file.fixed("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  file.optional("n_embd", c.width, 768);
  file.optional("n_layer", c.layers, 12);
  file.optional("n_head", c.heads, 12);
  file.optional("n_inner", c.ffn_width, 0, 0);
  file.optional("n_positions", c.max_sequence_length, 1024);
  file.written("n_ctx", c.max_sequence_length);
  file.optional("layer_norm_epsilon", c.norm_epsilon, 1e-5);
  // Written where they say something: older checkpoints do not have them.
  const auto truth = [&](const char* entry, const char* key, bool absent) {
    bool value = c.own_truth(key);
    if (!file.is_reading() && value == absent) return file.not_carried({entry});
    file.optional(entry, value, absent);
    c.own[key] = value;
  };
  truth("scale_attn_weights", kScaleAttention, true);
  truth("scale_attn_by_inverse_layer_idx", kScaleAttentionByLayer, false);
  file.optional("resid_pdrop", c.dropout, 0.1);
  list_full_attention(file, c);
  list_other_dropouts(file, c);
  // How GEMMs are rounded below f32; what cross-attention, other heads and caches do.
  file.without_effect({{"reorder_and_upcast_attn", false},
                       {"use_cache", true},
                       {"summary_type", "cls_index"},
                       {"summary_use_proj", true},
                       {"summary_activation", nullptr},
                       {"summary_proj_to_labels", true},
                       {"summary_first_dropout", 0.1}});
}

}  // namespace

ModelFamily gpt2_family() {
  ModelFamily family;
  family.name = "gpt2";
  family.other_names = {"gpt", "gpt_2"};
  family.keys = {{kScaleAttention, true, "attention scores are divided by the root of the size of a head", {}},
                 {kScaleAttentionByLayer, false, "attention scores of layer i, the first is 1, are divided by i", {}}};
  family.always_tied = true;
  family.usual_ffn_width = [](int64_t width) { return 4 * width; };
  family.parameter_count = count_gpt2_parameters;
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Gpt2>(config, part, weights);
  };
  family.hugging_face = {.model_type = "gpt2",
                         .architecture = "GPT2LMHeadModel",
                         .entries = list_gpt2_entries,
                         .usual_vocabulary = 50257,
                         .optional_prefix = "transformer.",
                         .embedding = "transformer.wte.weight",
                         .constants = {".attn.bias", ".attn.masked_bias"}};
  return family;
}

}  // namespace causeway::model
