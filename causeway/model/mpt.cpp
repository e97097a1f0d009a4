// MPT (MosaicML, 2023): ALiBi (Press et al., arXiv 2108.12409) in place of positions, norms without biases, and one
// projection to queries, keys and values.
#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr char kAlibiBiasMax[] = "alibi_bias_max";

struct MptBlock {
  Tensor attention_norm, mlp_norm;
  Matrix qkv, attention_output, up, down;
};

class Mpt final : public LanguageModel {
 public:
  Mpt(const ModelConfig& c, const ModelPart& part, const NewWeights& weights) : LanguageModel(c, part) {
    const ParameterDim vocabulary{c.vocabulary_size, LogicalDim::kVocabulary}, width{c.width, LogicalDim::kWidth},
        heads{c.width, LogicalDim::kHeads}, heads_of_three{3 * c.width, LogicalDim::kHeadsOfThree},
        ffn{c.ffn_width, LogicalDim::kFfn};
    const auto matrix = [&](const std::string& name, ParameterDim out, ParameterDim in,
                            Initial initial = Initial::kNormal) {
      return declare_matrix(name, out, in, initial, weights);
    };
    const auto norm = [&](const std::string& name) {
      return declare(name + ".weight", {width}, Initial::kOnes, weights);
    };
    if (part.holds_embedding() || part.holds_head())
      embedding_ = declare("transformer.wte.weight", {vocabulary, width}, Initial::kNormal, weights);
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("transformer.blocks.{}.", i);
      MptBlock& block = blocks_.emplace_back();
      if (!begin_layer(i)) continue;
      block.attention_norm = norm(name + "norm_1");
      block.qkv = matrix(name + "attn.Wqkv", heads_of_three, width);
      block.attention_output = matrix(name + "attn.out_proj", width, heads, Initial::kResidualNormal);
      block.mlp_norm = norm(name + "norm_2");
      block.up = matrix(name + "ffn.up_proj", ffn, width);
      block.down = matrix(name + "ffn.down_proj", width, ffn, Initial::kResidualNormal);
    }
    if (begin_head()) final_norm_ = norm("transformer.norm_f");
    slopes_ = alibi_slopes(c.heads, c.own_number(kAlibiBiasMax));
  }

  Tensor output_weight() const override { return part().holds_head() ? embedding_ : Tensor(); }

 private:
  Tensor norm(const Tensor& x, const Tensor& weight) const { return layer_norm(x, weight, {}, config().norm_epsilon); }

  Tensor embed(const ForwardInputs& inputs) const override { return drop(look_up(inputs.tokens, embedding_), inputs); }

  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const override {
    const MptBlock& block = blocks_[static_cast<size_t>(layer)];
    const Tensor mixed = residual_stream(x + attention(x, block, inputs));
    return residual_stream(mixed + mlp(mixed, block, inputs));
  }

  Tensor last_norm(const Tensor& x) const override { return norm(x, final_norm_); }

  Tensor attention(const Tensor& x, const MptBlock& block, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const std::vector<Tensor> qkv =
        split(multiply(norm(x, block.attention_norm), block.qkv, inputs), config().width, -1);
    const int64_t heads = config().heads;
    const Tensor mixed = attend(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads),
                                inputs, {.slopes = slopes_});
    return drop(multiply(mixed, block.attention_output, inputs), inputs);
  }

  Tensor mlp(const Tensor& x, const MptBlock& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    return drop(multiply(gelu(multiply(norm(x, block.mlp_norm), block.up, inputs)), block.down, inputs), inputs);
  }

  Tensor embedding_;
  std::vector<MptBlock> blocks_;  // of all layers; empty where they are another part's
  Tensor final_norm_;
  Tensor slopes_;  // [H]
};

int64_t count_mpt_parameters(const ModelConfig& c) {
  const int64_t matrices = 4 * c.width * c.width + 2 * c.width * c.ffn_width;
  const int64_t norms = 2 * c.width;
  return c.vocabulary_size * c.width + c.layers * (matrices + norms) + c.width;
}

// The feed-forward width as its ratio to the width. Published models have 4; transformers computes with 4 whatever the
// ratio says, so it refuses the weights of others.
void list_expansion_ratio(HuggingFaceConfig& file, ModelConfig& c) {
  constexpr char kKey[] = "expansion_ratio";
  if (!file.is_reading()) {
    if (c.ffn_width % c.width == 0) return file.written(kKey, c.ffn_width / c.width);
    return file.written(kKey, static_cast<double>(c.ffn_width) / static_cast<double>(c.width));
  }
  double ratio = 0;
  file.optional(kKey, ratio, 4.0);
  const double exact = ratio * static_cast<double>(c.width);
  constexpr double kMostExact = 1 << 30;  // beyond every size that can be built
  if (!(exact >= 1 && exact <= kMostExact) || std::abs(exact - std::round(exact)) > 1e-6)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} = {} of a width of {} is no feed-forward width", kKey, ratio, c.width), "config.json");
  c.ffn_width = std::llround(exact);
}

constexpr double kMostInteger = 9007199254740992;  // 2^53: beyond it a double stands for several

// Those of MptAttentionConfig, and of LLM Foundry's, which transformers reads past.
void list_attention(HuggingFaceConfig& file, ModelConfig& c) {
  list_base_entries(file);
  file.fixed("alibi", true);
  file.expected("attn_type", "multihead_attention");
  file.expected("clip_qkv", nullptr);
  file.expected("qk_ln", false);
  file.expected("qk_gn", false);
  file.expected("prefix_lm", false);
  file.expected("rope", false);
  file.expected("sliding_window_size", -1);
  file.expected("softmax_scale", nullptr);
  double most = c.own_number(kAlibiBiasMax);
  // Transformers 5 takes an integer alone.
  if (file.is_reading() || most != std::trunc(most) || most > kMostInteger)
    file.optional(kAlibiBiasMax, most, 8.0);
  else
    file.written(kAlibiBiasMax, static_cast<int64_t>(most));
  c.own[kAlibiBiasMax] = most;
  file.training_only({{"attn_pdrop", 0}});
  // A document by itself has one sequence id.
  file.without_effect({{"attn_impl", "torch"}, {"attn_uses_sequence_id", false}, {"tie_word_embeddings", true}});
}

// Defaults are MptConfig's.
void list_mpt_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.alias("hidden_size", "d_model");
  file.alias("num_attention_heads", "n_heads");
  file.alias("num_hidden_layers", "n_layers");
  file.fixed("no_bias", true);
  file.expected("logit_scale", nullptr);
  file.expected("embedding_fraction", 1.0);
  if (file.is_reading()) file.fixed("norm_type", {"low_precision_layernorm", "layernorm"});
  file.optional("d_model", c.width, 2048);
  file.optional("n_layers", c.layers, 24);
  file.optional("n_heads", c.heads, 16);
  list_expansion_ratio(file, c);
  file.optional("max_seq_len", c.max_sequence_length, 2048);
  file.optional("layer_norm_epsilon", c.norm_epsilon, 1e-5);
  file.object("attn_config", [&](HuggingFaceConfig& attention) { list_attention(attention, c); });
  list_full_attention(file, c);
  file.training_only({{"resid_pdrop", 0.0}, {"emb_pdrop", 0.0}});
  // With ALiBi there are no learned positions.
  file.without_effect({{"learned_pos_emb", true}, {"init_device", "cpu"}, {"verbose", 0}, {"use_cache", false}});
}

}  // namespace

ModelFamily mpt_family() {
  ModelFamily family;
  family.name = "mpt";
  family.other_names = {"mosaic", "mosaicml"};
  family.keys = {positive_key(kAlibiBiasMax, 8.0, "largest ALiBi exponent")};
  family.always_tied = true;
  family.usual_ffn_width = [](int64_t width) { return 4 * width; };
  family.parameter_count = count_mpt_parameters;
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Mpt>(config, part, weights);
  };
  family.hugging_face = {.model_type = "mpt",
                         .architecture = "MptForCausalLM",
                         .entries = list_mpt_entries,
                         .usual_vocabulary = 50368,
                         .optional_prefix = "transformer.",
                         .embedding = "transformer.wte.weight"};
  return family;
}

}  // namespace causeway::model
