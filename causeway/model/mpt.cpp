// MPT (MosaicML, 2023): ALiBi (Press et al., arXiv 2108.12409) in place of positions, norms without biases, and one
// projection to queries, keys and values.
#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/initial_values.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr char kAlibiBiasMax[] = "alibi_bias_max";

struct Block {
  Tensor attention_norm, qkv, attention_output, mlp_norm, up, down;
};

class Mpt final : public LanguageModel {
 public:
  Mpt(const ModelConfig& c, const ModelPart& part, const NewWeights& weights) : LanguageModel(c, part) {
    const ParameterDim vocabulary{c.vocabulary_size, LogicalDim::kVocabulary}, width{c.width, LogicalDim::kWidth},
        heads{c.width, LogicalDim::kHeads}, heads_of_three{3 * c.width, LogicalDim::kHeadsOfThree},
        ffn{c.ffn_width, LogicalDim::kFfn};
    const auto matrix = [&](const std::string& name, ParameterDim out, ParameterDim in,
                            Initial initial = Initial::kNormal) {
      return declare(name + ".weight", {out, in}, initial, weights);
    };
    const auto norm = [&](const std::string& name) {
      return declare(name + ".weight", {width}, Initial::kOnes, weights);
    };
    if (part.holds_embedding() || part.holds_head()) embedding_ = matrix("transformer.wte", vocabulary, width);
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string name = fmt::format("transformer.blocks.{}.", i);
      Block& block = blocks_.emplace_back();
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

  Tensor embed(const ForwardInputs& inputs) const override {
    return drop(embedding(inputs.tokens, embedding_), inputs);
  }

  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const override {
    const Block& block = blocks_[static_cast<size_t>(layer)];
    const Tensor mixed = residual_stream(x + attention(x, block, inputs));
    return residual_stream(mixed + mlp(mixed, block, inputs));
  }

  Tensor last_norm(const Tensor& x) const override { return norm(x, final_norm_); }

  Tensor attention(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("attention");
    const std::vector<Tensor> qkv = split(linear(norm(x, block.attention_norm), block.qkv), config().width, -1);
    const int64_t heads = config().heads;
    const Tensor mixed = attend(split_heads(qkv[0], heads), split_heads(qkv[1], heads), split_heads(qkv[2], heads),
                                inputs, {.slopes = slopes_});
    return drop(linear(mixed, block.attention_output), inputs);
  }

  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const {
    const Scope scope("mlp");
    return drop(linear(gelu(linear(norm(x, block.mlp_norm), block.up)), block.down), inputs);
  }

  Tensor embedding_;
  std::vector<Block> blocks_;  // of all layers; empty where they are another part's
  Tensor final_norm_;
  Tensor slopes_;  // [H]
};

int64_t count_parameters(const ModelConfig& c) {
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

void list_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("no_bias", true);
  file.required("d_model", c.width);
  file.required("n_layers", c.layers);
  file.required("n_heads", c.heads);
  list_expansion_ratio(file, c);
  file.optional("max_seq_len", c.max_sequence_length, 2048);
  file.optional("layer_norm_epsilon", c.norm_epsilon, 1e-5);
  file.object("attn_config", [&](HuggingFaceConfig& attention) {
    attention.fixed("alibi", true);
    attention.expected("clip_qkv", nullptr);
    attention.expected("qk_ln", false);
    double most = c.own_number(kAlibiBiasMax);
    attention.optional("alibi_bias_max", most, 8.0);
    c.own[kAlibiBiasMax] = most;
  });
}

}  // namespace

ModelFamily mpt_family() {
  ModelFamily family;
  family.name = "mpt";
  family.keys = {positive_key(kAlibiBiasMax, 8.0, "largest ALiBi exponent")};
  family.always_tied = true;
  family.usual_ffn_width = [](int64_t width) { return 4 * width; };
  family.parameter_count = count_parameters;
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Mpt>(config, part, weights);
  };
  family.hugging_face = {.model_type = "mpt", .architecture = "MptForCausalLM", .entries = list_entries};
  return family;
}

}  // namespace causeway::model
