// Llama, and what families share that are Llama but for some of its parts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "causeway/model/family.h"
#include "causeway/model/language_model.h"

namespace causeway::model {

// Over what queries and keys are normed, between their projections and the rotation.
enum class QueryKeyNorm {
  kNone,
  kHead,        // each head by itself, with one weight [head_dim] for all
  kProjection,  // all heads together, with a weight [heads x head_dim]
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
    Matrix q, k, v, attention_output, gate, up, down;
    // Of the variants that have them.
    Tensor q_bias, k_bias, v_bias, q_norm, k_norm;
    Tensor norm_before_attention, norm_after_attention, norm_before_mlp, norm_after_mlp;
  };

  Tensor embed(const ForwardInputs& inputs) const override;
  Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const override;
  Tensor last_norm(const Tensor& x) const override;

  Block declare_layer(int64_t layer, const NewWeights& weights);
  Tensor declare_norm(const std::string& name, ParameterDim dim, const NewWeights& weights);

  Tensor attention(const Tensor& x, int64_t layer, const ForwardInputs& inputs) const;
  Tensor mlp(const Tensor& x, const Block& block, const ForwardInputs& inputs) const;
  Tensor norm(const Tensor& x, const Tensor& weight) const;
  // x itself where the variant has no norm there.
  Tensor norm_before(const Tensor& x, const Tensor& weight) const;
  Tensor norm_after(const Tensor& x, const Tensor& weight) const;

  LlamaVariant variant_;
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
};

// The entries of config.json that all of them have; and without the activation, which is not SiLU in all.
void list_llama_entries(HuggingFaceConfig& file, ModelConfig& c, const LlamaDefaults& defaults);
void list_llama_sizes(HuggingFaceConfig& file, ModelConfig& c, const LlamaDefaults& defaults);
// Of Qwen 2 and 3: windows in the layers from max_window_layers on, or as layer_types has it. Refuses a file in which
// any layer has one.
void list_qwen_windows(HuggingFaceConfig& file, ModelConfig& c);

}  // namespace causeway::model
