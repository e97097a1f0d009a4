// Gemma 2 (arXiv 2408.00118): Llama with scaled embeddings, norms on both sides of attention and of the feed-forward
// layer, GELU in place of SiLU, capped attention scores and logits, and a sliding window in every other layer.
#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/formats/hugging_face_config.h"
#include "causeway/model/families.h"
#include "causeway/model/llama.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr char kQueryScalar[] = "query_pre_attention_scalar";
constexpr char kAttentionSoftcap[] = "attention_softcap";
constexpr char kLogitSoftcap[] = "logit_softcap";

const LlamaVariant kGemma2Variant = {.norm_before_attention = "input_layernorm",
                                     .norm_after_attention = "post_attention_layernorm",
                                     .norm_before_mlp = "pre_feedforward_layernorm",
                                     .norm_after_mlp = "post_feedforward_layernorm",
                                     .norm_weights_less_one = true};

bool has_window(int64_t layer) { return layer % 2 == 0; }

class Gemma2 final : public Llama {
 public:
  Gemma2(const ModelConfig& c, const ModelPart& part, const NewWeights& weights)
      : Llama(c, part, kGemma2Variant, weights) {
    const int64_t scalar = c.own_integer(kQueryScalar);
    form_.scale = 1 / std::sqrt(static_cast<double>(scalar == 0 ? c.head_dim : scalar));
    form_.softcap = c.own_number(kAttentionSoftcap);
    window_ = c.own_integer(kSlidingWindow);
  }

 private:
  Tensor embed_tokens(const Tensor& tokens) const override {
    return Llama::embed_tokens(tokens) * std::sqrt(static_cast<double>(config().width));
  }

  Tensor gated(const Tensor& gate, const Tensor& up) const override {
    return geglu(gate, up, GeluApproximation::kTanh);
  }

  AttentionForm attention_form(int64_t layer) const override {
    AttentionForm form = form_;
    if (has_window(layer)) form.window = window_;
    return form;
  }

  double logit_softcap() const override { return config().own_number(kLogitSoftcap); }

  AttentionForm form_;
  int64_t window_ = 0;
};

ModelKey softcap_key(std::string name, double default_value, std::string meaning) {
  ModelKey key = positive_key(std::move(name), default_value, std::move(meaning));
  key.problem = [](const ModelValue& value) -> std::string {
    const double cap = std::get<double>(value);
    return cap >= 0 && std::isfinite(cap) ? "" : "must be finite and not negative";
  };
  return key;
}

// Which layers have the window. transformers takes a list of them, or, in its older versions, every other layer.
void list_windows(HuggingFaceConfig& file, ModelConfig& c) {
  const auto type_of = [](bool sliding) { return sliding ? "sliding_attention" : "full_attention"; };
  int64_t window = c.own_integer(kSlidingWindow);
  if (!file.is_reading()) {
    nlohmann::json types = nlohmann::json::array();
    for (int64_t i = 0; i < c.layers; ++i) types.push_back(type_of(window > 0 && has_window(i)));
    file.written("layer_types", types);
    // It wants a window even where no layer has one: one that leaves nothing out.
    file.written(kSlidingWindow, window > 0 ? window : c.max_sequence_length);
    return;
  }
  file.optional(kSlidingWindow, window, 4096, 0);
  bool in_turn = true, full = false;
  if (const std::optional<std::vector<std::string>> types = list_layer_types(file, c)) {
    full = true;
    for (size_t i = 0; i < types->size(); ++i) {
      in_turn = in_turn && (*types)[i] == type_of(has_window(static_cast<int64_t>(i)));
      full = full && (*types)[i] == type_of(false);
    }
  }
  if (!in_turn && !full)
    throw Error(ErrorKind::kUnsupported, "layer_types in another order than in turn", "config.json",
                fmt::format("Implemented are {} and {} in turn, and {} in all layers.", type_of(true), type_of(false),
                            type_of(false)));
  if (full) window = 0;
  if (!full && window <= 0)
    throw Error(ErrorKind::kUnsupported, fmt::format("{} in some layers without a sliding_window", type_of(true)),
                "config.json", fmt::format("Give the window, or layer_types that are all {}.", type_of(false)));
  c.own[kSlidingWindow] = window;
}

// Defaults are Gemma2Config's.
void list_gemma2_entries(HuggingFaceConfig& file, ModelConfig& c) {
  file.fixed("hidden_activation", {"gelu_pytorch_tanh", "gelu_new", "gelu_fast"});
  file.without_effect({{"hidden_act", "gelu_pytorch_tanh"}});  // Gemma's, which Gemma 2 does not look at
  file.fixed("attention_bias", false);
  file.expected("use_bidirectional_attention", false);
  list_llama_sizes(file, c,
                   {.width = 2304,
                    .ffn_width = 9216,
                    .layers = 26,
                    .heads = 8,
                    .kv_heads = 4,
                    .head_dim = 256,
                    .max_sequence_length = 8192});
  list_windows(file, c);
  const int64_t written = c.own_integer(kQueryScalar);
  int64_t scalar = written == 0 ? c.head_dim : written;
  file.optional("query_pre_attn_scalar", scalar, 256);
  c.own[kQueryScalar] = scalar == c.head_dim ? 0 : scalar;
  const auto cap = [&](const char* entry, const char* key, double absent) {
    double value = c.own_number(key);
    file.optional_or_null(entry, value, absent);
    c.own[key] = value;
  };
  cap("attn_logit_softcapping", kAttentionSoftcap, 50);
  cap("final_logit_softcapping", kLogitSoftcap, 30);
}

}  // namespace

ModelFamily gemma2_family() {
  ModelFamily family = llama_family();
  family.name = "gemma2";
  family.other_names = {"gemma_2"};
  family.keys.push_back(sliding_window_key());
  family.keys.push_back(size_key(kQueryScalar, 0, 0, int64_t{1} << 24,
                                 "attention scores are divided by its root; 0: the size of a head"));
  family.keys.push_back(
      softcap_key(kAttentionSoftcap, 50, "attention scores become cap tanh(score / cap); 0: they stay"));
  family.keys.push_back(softcap_key(kLogitSoftcap, 30, "logits become cap tanh(logit / cap); 0: they stay"));
  family.always_tied = true;
  family.usual_ffn_width = [](int64_t width) { return 4 * width; };
  family.build = [](const ModelConfig& config, const ModelPart& part,
                    const NewWeights& weights) -> std::unique_ptr<LanguageModel> {
    return std::make_unique<Gemma2>(config, part, weights);
  };
  family.parameter_count = [llama = family.parameter_count](const ModelConfig& c) {
    return llama(c) + c.layers * 2 * c.width;
  };
  family.hugging_face.model_type = "gemma2";
  family.hugging_face.architecture = "Gemma2ForCausalLM";
  family.hugging_face.entries = list_gemma2_entries;
  family.hugging_face.usual_vocabulary = 256000;
  return family;
}

}  // namespace causeway::model
