// Llama, and what families share that are Llama but for some of its parts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/model/experts.h"
#include "causeway/model/family.h"
#include "causeway/model/language_model.h"

namespace causeway::model {

// Over what queries and keys are normed, between their projections and the rotation.
enum class QueryKeyNorm {
  kNone,
  kHead,        // each head by itself, with one weight [head_dim] for all
  kProjection,  // all heads together, with a weight [heads x head_dim]
};

// What a layer's experts are called, where the configuration has some (expert_shape()).
struct ExpertNames {
  std::string block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
};

// Which parameters a family's layers have.
struct LlamaVariant {
  int64_t window = 0;             // positions that a query sees, itself included; 0: all
  bool attention_biases = false;  // the projections to queries, keys and values have one each
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  // The norms of a layer, by their names in Hugging Face's checkpoints; "": there is none. Those before are of what
  // attention and the feed-forward layer are given, those after of what they add to the residual stream.
  std::string norm_before_attention = "input_layernorm", norm_after_attention = {};
  std::string norm_before_mlp = "post_attention_layernorm", norm_after_mlp = {};
  bool norm_weights_less_one = false;  // norms multiply by 1 + weight, and weights begin at 0
  ExpertNames experts = {};
};

// What a family computes otherwise it overrides.
class Llama : public LanguageModel {
 public:
  Llama(const ModelConfig& config, const ModelPart& part, const LlamaVariant& variant, const NewWeights& weights);

  Tensor output_weight() const override { return output_; }
  int64_t window(int64_t layer) const override { return attention_form(layer).window; }

 protected:
  // Of tokens, before dropout.
  virtual Tensor embed_tokens(const Tensor& tokens) const;
  // What becomes of the feed-forward layer's two projections, between them and the third.
  virtual Tensor gated(const Tensor& gate, const Tensor& up) const;
  virtual AttentionForm attention_form(int64_t layer) const;

 private:
  struct Block {
    Matrix q, k, v, attention_output;
    // Of the feed-forward layer, or of the expert that all tokens go through.
    Matrix gate, up, down;
    ExpertWeights experts;
    Tensor shared_expert_gate;
    // Of the variants that have them.
    Tensor q_bias, k_bias, v_bias, q_norm, k_norm;
    Tensor norm_before_attention, norm_after_attention, norm_before_mlp, norm_after_mlp;
  };

  Tensor embed(const ForwardInputs& inputs) const override;
  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const override;
  Tensor last_norm(const Tensor& x) const override;

  Block declare_layer(int64_t layer, const NewWeights& weights);
  // In place of a dense feed-forward layer.
  void declare_experts(Block& block, const std::string& layer, const NewWeights& weights);
  Tensor declare_norm(const std::string& name, ParameterDim dim, const NewWeights& weights);

  Tensor attention(const Tensor& x, int64_t layer, const ForwardInputs& inputs) const;
  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const;
  Tensor dense_mlp(const Tensor& normed, const Block& block, const ForwardInputs& inputs) const;
  Tensor mix(const Tensor& normed, const Block& block, const ForwardInputs& inputs) const;
  Tensor norm(const Tensor& x, const Tensor& weight) const;
  // x itself where the variant has no norm there.
  Tensor norm_before(const Tensor& x, const Tensor& weight) const;
  Tensor norm_after(const Tensor& x, const Tensor& weight) const;

  LlamaVariant variant_;
  std::optional<ExpertShape> experts_;
  Tensor embedding_, output_;
  std::vector<Block> blocks_;  // of all layers; empty where they are another part's
  Tensor final_norm_;
  Tensor frequencies_;  // [head_dim / 2]
};

// The key `sliding_window` of the families that have windows.
inline constexpr char kSlidingWindow[] = "sliding_window";
ModelKey sliding_window_key();

// What a family's configuration class of transformers has where config.json says nothing; versions 4 and 5 agree.
struct LlamaDefaults {
  int64_t width = 4096, ffn_width = 11008, layers = 32, heads = 32;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;  // 0: width / heads
  int64_t max_sequence_length = 2048;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
};

// The entries of config.json that all of them have; and without the activation, which is not SiLU in all.
void list_llama_entries(HuggingFaceConfig& file, ModelConfig& c, const LlamaDefaults& defaults);
void list_llama_sizes(HuggingFaceConfig& file, ModelConfig& c, const LlamaDefaults& defaults);
// Of families with experts: how many there are, under config.json's names of all of them; and what of its keys acts in
// training alone there, or not at all.
struct ExpertDefaults {
  int64_t experts = 8, per_token = 2;
  double balance_loss = 0.001;  // its coefficient
  bool writes_local = false;    // their number as "num_local_experts"; otherwise as "num_experts"
};
void list_experts(HuggingFaceConfig& file, ModelConfig& c, const ExpertDefaults& defaults);
// Of Qwen's: the sizes of experts, and which layers have them.
void list_qwen_experts(HuggingFaceConfig& file, ModelConfig& c, const ExpertDefaults& defaults, int64_t expert_width);
// The description of a family with experts that is Llama otherwise: what `llama_family()` has, counted and checked with
// experts.
ModelFamily llama_family_with_experts();
// Of Mistral and Mixtral: one window for all layers; what it is where the file does not say, 0 for none.
void list_one_window(HuggingFaceConfig& file, ModelConfig& c, int64_t absent);
// Of Qwen 2 and 3: windows in the layers from max_window_layers on, or as layer_types has it. Refuses a file in which
// any layer has one.
void list_qwen_windows(HuggingFaceConfig& file, ModelConfig& c);

}  // namespace causeway::model
