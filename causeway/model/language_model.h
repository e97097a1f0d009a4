// A decoder-only language model: its parameters by Hugging Face's names, and its forward pass on tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/model/config.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

class InitialValues;

struct Parameter {
  std::string name;  // as in Hugging Face's checkpoints, e.g. "model.layers.0.mlp.up_proj.weight"
  Tensor tensor;     // f32, in Hugging Face's layout; cut over the mesh where its context has one
  bool decays;       // weight decay applies: matrices and embeddings, not norms and biases
};

// What one forward pass is given beside the tokens.
struct ForwardInputs {
  Tensor tokens;       // i32 [B, T]
  Tensor documents;    // i32 [B, T], or undefined: attention stays within equal numbers
  Tensor dropout_key;  // i64 [2] = {seed, step}, or undefined: no dropout
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // `config` is resolved. Parameters are allocated in the current context and initialised from `seed`: normal with
  // standard deviation initializer_range, the projections into the residual stream divided by sqrt(2 x layers), norms
  // 1, biases 0. The same seed gives the same bits on every device. Without a seed the contents are undefined, to be
  // loaded. Where the context is a rank's of a mesh, parameters are cut over it (weight_sharding()), and each rank
  // makes its part of the same values. Throws Error(kResource) before anything is allocated when the device's memory
  // cannot hold them.
  static std::unique_ptr<LanguageModel> create(const ModelConfig& config, std::optional<uint64_t> seed);

  const ModelConfig& config() const { return config_; }
  // In Hugging Face's order; a tied output layer is not listed.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Throws Error(kNotFound) with the nearest name.
  const Parameter& parameter(const std::string& name) const;

  // After the last norm: f32 [B, T, width].
  virtual Tensor hidden_states(const ForwardInputs& inputs) const = 0;
  // [V, width].
  virtual Tensor output_weight() const = 0;
  // f32 [B, T, V]; for small models and tests: training uses loss().
  Tensor logits(const ForwardInputs& inputs) const;
  // sum_i token_weights_i * -log p(target_i), f32 []; targets i32 [B, T] with negative = ignored, token_weights f32
  // [B, T]. Never holds all logits.
  Tensor loss(const ForwardInputs& inputs, const Tensor& targets, const Tensor& token_weights) const;

 protected:
  explicit LanguageModel(const ModelConfig& config) : config_(config) {}

  enum class Initial { kNormal, kResidualNormal, kOnes, kZeros };
  // Declares a parameter; called by the families' constructors in Hugging Face's order. Without initial values the
  // contents stay undefined.
  Tensor declare(const std::string& name, const std::vector<ParameterDim>& dims, Initial initial,
                 InitialValues* values);
  // x [B, T, width], the residual stream, as it lies over the mesh between blocks; x itself where sequences are not
  // cut.
  Tensor residual_stream(const Tensor& x) const;
  // Dropout of config().dropout where the inputs carry a key.
  Tensor drop(const Tensor& x, const ForwardInputs& inputs) const;
  // x [B, T, heads x head_dim] as [B, T, heads, head_dim].
  Tensor split_heads(const Tensor& x, int64_t heads) const;
  // Causal attention of q [B, T, H, D] to k, v [B, T, Hk, D] within documents: [B, T, H x D]. A query sees `window`
  // positions, itself included (0: all). The slopes [H], if defined, are those of ALiBi: a score falls
  // by its head's slope with each position back.
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ForwardInputs& inputs, int64_t window = 0,
                const Tensor& slopes = {}) const;

 private:
  ModelConfig config_;
  std::vector<Parameter> parameters_;
};

}  // namespace causeway::model
