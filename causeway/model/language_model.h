// A decoder-only language model: its parameters by Hugging Face's names, and its forward pass on tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/model/adapter.h"
#include "causeway/model/config.h"
#include "causeway/model/model_part.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/model/sequence_order.h"
#include "causeway/tensor/loss_ops.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

class KeyValueCache;
struct RouterStatistics;  // causeway/model/experts.h

// How weights lie in a device's memory.
enum class WeightStorage {
  kElements,  // one after another
  kHalves,    // those that GEMMs alone read in halves (Tensor::uninitialized_halves()), which is for bf16 on GPUs
};

// The weight [1, width] of a reward model's score (ModelConfig::score_head), as Hugging Face calls it.
inline constexpr char kScoreWeight[] = "score.weight";

// How weights are made.
struct NewWeights {
  std::optional<uint64_t> seed = {};  // nothing: of undefined contents
  WeightStorage storage = WeightStorage::kElements;
  // Whether a parameter of that name is trained; empty: all are.
  std::function<bool(const std::string& name)> is_trained = {};
  // In which matrices and tables lie that are not trained, and that are: f32 or bf16. Vectors lie in f32.
  DType frozen_type = DType::kF32, trained_type = DType::kF32;
  // Adapters beside them, which are trained whatever `is_trained` says. Their contents are undefined until
  // initialize_adapters().
  AdapterConfig adapter = {};
};

// Which of the matrices that experts have one of each.
enum class ExpertMatrix { kNone, kGate, kUp, kDown };

struct Parameter {
  std::string name;   // as in Hugging Face's checkpoints, e.g. "model.layers.0.mlp.up_proj.weight"
  Tensor tensor;      // f32 or bf16 (NewWeights), in Hugging Face's layout; cut over the mesh where its context has one
  bool decays;        // weight decay applies: matrices and embeddings, not norms and biases
  int64_t piece = 0;  // of the model (ModelPart), where it is used
  // A tied embedding whose output layer is another stage's, or the other way round: both ends hold it, and update it by
  // the sum of their gradients. The copy is that of the stage with the output layer.
  bool is_shared = false;
  bool is_copy = false;
  bool only_multiplied = false;  // a matrix of GEMMs alone: no embedding, tied or not, no norm and no bias
  // Otherwise it is frozen: no gradient is computed of it, and the optimizer keeps nothing of it.
  bool is_trained = true;
  bool input_first = false;  // a matrix of GEMMs that lies as [in, out]; others are [out, in]
  bool is_adapter = false;   // a part of an adapter: no weight of the model that it belongs to
  // Those of all experts of a layer, [experts, out, in]: "model.layers.0.mlp.experts.up_proj.weight". Files have a
  // tensor for each ("model.layers.0.mlp.experts.3.up_proj.weight"), or fused ones (causeway/model/hugging_face.h).
  ExpertMatrix of_experts = ExpertMatrix::kNone;
  // Of a frozen matrix that lies in fewer bits: `tensor` are its codes, and parameters named "NAME.PART" follow, its
  // scales.
  std::shared_ptr<QuantizedWeight> quantized = {};
  bool is_scale = false;

  // Whether files of the model's weights have a tensor for it.
  bool is_stored() const { return !is_adapter && !is_scale; }
  // Of that tensor.
  std::vector<int64_t> stored_shape() const;
};

// What one forward pass is given beside the tokens.
struct ForwardInputs {
  Tensor tokens;  // i32 [B, T]
  // i32 [B, T], or undefined: attention stays within equal numbers.
  Tensor documents;
  Tensor dropout_key;  // i64 [2] = {seed, step}, or undefined: no dropout
  // In which tokens, documents and what is computed of them lie. Another than the plain one where there is no cache.
  SequenceOrder order = {};
  // i32 [B, T] or [T], or undefined: the tokens' positions are 0 to T - 1, in that order. With a cache negative ones
  // are those of no token.
  Tensor positions = {};
  // Positions are counted from where each token's document begins, which is what `documents` then has of it (from 0 to
  // T - 1). It makes no difference to attention that depends on distances alone.
  bool positions_restart = false;
  // Where keys and values are kept for the tokens that follow; nullptr: nowhere.
  const KeyValueCache* cache = nullptr;
  // i32 [S], 0 to S - 1: the cached positions among which are all that the tokens, one of each sequence (T = 1), attend
  // to. Undefined: they attend to each other alone.
  Tensor cached_positions = {};
  // The same of layers of which the cache keeps the last positions alone: i32 [R], 0 to R - 1, the slots of its ring.
  Tensor ring_slots = {};
  bool without_adapters = false;        // as if the model had none
  RouterStatistics* routing = nullptr;  // what routers did is added to it
  int64_t layer = 0;                    // that is run; set by run_piece()
};

// What a family's attention is beside causal.
struct AttentionForm {
  int64_t window = 0;  // positions that a query sees, itself included; 0: all
  Tensor slopes = {};  // [H], if defined, of ALiBi: a score falls by its head's slope with each position back
  double scale = 0;    // of the dot products of queries and keys; 0: 1 / sqrt(D)
  double softcap = 0;  // above 0: scores become cap tanh(score / cap)
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // `config` is resolved. Parameters are allocated in the current context and initialised from `seed`: normal with
  // standard deviation initializer_range, the projections into the residual stream divided by sqrt(2 x layers), norms
  // 1 (as weights that are one less: 0), biases 0. The same seed gives the same bits on every device. Without a seed
  // the contents are undefined, to be loaded. Where the context is a rank's of a mesh, parameters are cut over it
  // (weight_sharding()), and each rank makes its part of the same values. Throws Error(kResource) before anything is
  // allocated when the device's memory cannot hold them.
  static std::unique_ptr<LanguageModel> create(const ModelConfig& config, std::optional<uint64_t> seed,
                                               WeightStorage storage = WeightStorage::kElements);
  // The same of a part of it: parameters that belong to it, with the same values, and no others.
  static std::unique_ptr<LanguageModel> create(const ModelConfig& config, const ModelPart& part,
                                               std::optional<uint64_t> seed,
                                               WeightStorage storage = WeightStorage::kElements);
  static std::unique_ptr<LanguageModel> create(const ModelConfig& config, const ModelPart& part,
                                               const NewWeights& weights);

  const ModelConfig& config() const { return config_; }
  const ModelPart& part() const { return part_; }
  // In Hugging Face's order; a tied output layer is not listed, but where the embedding is another stage's.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // The matrices of the layers that are here.
  const std::vector<Matrix>& matrices() const { return matrices_; }
  const AdapterConfig& adapter() const { return adapter_; }
  // Throws Error(kNotFound) with the nearest name.
  const Parameter& parameter(const std::string& name) const;

  // Gives the weight of a reward model's score the values that it has in a new model of that seed.
  void initialize_score(uint64_t seed);

  // Where this is a part of a model, ranks of all stages make the same calls, and what one needs of another is sent.

  // After the last norm: f32 [B, T, width]. Undefined where another stage has it.
  Tensor hidden_states(const ForwardInputs& inputs) const;
  // [V, width]; undefined where another stage has it.
  virtual Tensor output_weight() const = 0;
  // Positions that a query of a layer sees, itself included; 0: all.
  virtual int64_t window(int64_t /*layer*/) const { return 0; }
  // What the output layer makes of hidden states [..., width]: f32 [..., V], soft-capped where the family does that; of
  // a reward model the scores, f32 [..., 1]. On the stage that has it.
  Tensor logits_of(const Tensor& hidden) const;
  // f32 [B, T, V]; for small models and tests: training uses loss(). Of a whole model.
  Tensor logits(const ForwardInputs& inputs) const;
  // Of a reward model, what it makes of each text up to each token: f32 [B, T]. Of a whole model.
  Tensor scores(const ForwardInputs& inputs) const;
  // f32 [V], on every rank: those of the token that follows the first row.
  Tensor next_logits(const ForwardInputs& inputs) const;
  // f32 [B, V]: those of the tokens that follow `last`, i32 [B], of each row. Of a whole model.
  Tensor logits_after(const ForwardInputs& inputs, const Tensor& last) const;
  // sum_i token_weights_i * -log p(target_i), f32 []; targets i32 [B, T] with negative = ignored, token_weights f32
  // [B, T]. Never holds all logits. The same on every rank.
  Tensor loss(const ForwardInputs& inputs, const Tensor& targets, const Tensor& token_weights) const;

  // The same, and with a coefficient above 0 the z-loss beside it, which is undefined otherwise
  // (linear_cross_entropy_and_z_loss()). Of a whole model.
  LossAndZLoss loss_and_z_loss(const ForwardInputs& inputs, const Tensor& targets, const Tensor& token_weights,
                               double coefficient) const;

  // -log p(target_i) of each, f32 [B, T], 0 where a target is ignored. The gradient of each is its own, and computes
  // the logits again. Of a whole model. At another `temperature` than 1 of the logits over it; where the family bends
  // logits, all of them are held then.
  Tensor token_losses(const ForwardInputs& inputs, const Tensor& targets, double temperature = 1) const;
  // What a token that follows hidden states [..., width] is drawn by: logits over the temperature, f32 [..., V]. Their
  // softmax is that of token_losses().
  Tensor sampling_logits(const Tensor& hidden, double temperature) const;

  // One piece of it that is here. The residual stream [B, T, width] before it (before the first piece: undefined) gives
  // that after it.
  Tensor run_piece(int64_t piece, const Tensor& stream, const ForwardInputs& given) const;
  // What comes after the last piece, of its residual stream: as loss_and_z_loss(), on the stage that has it.
  LossAndZLoss loss_of_stream(const Tensor& stream, const Tensor& targets, const Tensor& token_weights,
                              double coefficient) const;

 protected:
  LanguageModel(const ModelConfig& config, const ModelPart& part) : config_(config), part_(part) {}

  // A family's forward pass, piece by piece: tokens to the residual stream [B, T, width], through one layer after the
  // other, and the norm behind the last one. Of what the part holds.
  virtual Tensor embed(const ForwardInputs& inputs) const = 0;
  virtual Tensor run_layer(int64_t layer, const Tensor& x, const ForwardInputs& inputs) const = 0;
  virtual Tensor last_norm(const Tensor& x) const = 0;
  // Logits become cap tanh(logits / cap); 0: they stay as they are.
  virtual double logit_softcap() const { return 0; }

  enum class Initial { kNormal, kResidualNormal, kOnes, kZeros };
  // Said by the families' constructors before they declare a layer's parameters, and those behind the last layer: what
  // is declared from then on is of those. Whether the part holds them; otherwise they are not declared. What comes
  // before the layers is declared where the part holds the embedding, and a tied one where it holds the head too.
  bool begin_layer(int64_t layer);
  bool begin_head();
  // Declares a parameter; called by the families' constructors in Hugging Face's order. Without initial values the
  // contents stay undefined.
  Tensor declare(const std::string& name, const std::vector<ParameterDim>& dims, Initial initial,
                 const NewWeights& weights);
  // The same of a matrix that each expert of a layer has one of, [experts, out, in].
  Tensor declare_experts_matrix(const std::string& name, ExpertMatrix which, const std::vector<ParameterDim>& dims,
                                Initial initial, const NewWeights& weights);
  // The same of a matrix of a layer, "NAME.weight" of [out, in] or [in, out], which may have an adapter.
  enum class MatrixLayout { kOutputFirst, kInputFirst };
  Matrix declare_matrix(const std::string& name, ParameterDim out, ParameterDim in, Initial initial,
                        const NewWeights& weights, MatrixLayout layout = MatrixLayout::kOutputFirst);
  // x [..., in] multiplied by a matrix and its adapter: [..., out].
  Tensor multiply(const Tensor& x, const Matrix& matrix, const ForwardInputs& inputs) const;
  // x [B, T, width], the residual stream, as it lies over the mesh between blocks; x itself where sequences are not
  // cut.
  Tensor residual_stream(const Tensor& x) const;
  // Rows of a table [N, width] in f32, in whatever type the table lies.
  static Tensor look_up(const Tensor& ids, const Tensor& table);
  // Dropout of config().dropout where the inputs carry a key.
  Tensor drop(const Tensor& x, const ForwardInputs& inputs) const;
  // x [B, T, heads x head_dim] as [B, T, heads, head_dim].
  Tensor split_heads(const Tensor& x, int64_t heads) const;
  // Causal attention of q [B, T, H, D] to k, v [B, T, Hk, D] within documents: [B, T, H x D]. With a cache k and v are
  // kept in it.
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ForwardInputs& inputs,
                const AttentionForm& form) const;

 private:
  Tensor last_stream(const ForwardInputs& inputs) const;
  void initialize(Tensor& tensor, const std::string& name, Initial initial, uint64_t seed) const;
  // One that is declared now.
  Parameter& add_parameter(const std::string& name, const Tensor& tensor);
  void declare_quantized(Matrix& matrix, ParameterDim out, ParameterDim in, Initial initial, const NewWeights& weights);
  void declare_score(const NewWeights& weights);

  ModelConfig config_;
  ModelPart part_;
  std::vector<Parameter> parameters_;
  std::vector<Matrix> matrices_;
  AdapterConfig adapter_;
  Tensor code_values_;                     // that matrices in nf4 share
  Tensor score_;                           // [1, width], of a reward model
  std::optional<int64_t> declared_piece_;  // of what is declared now; nothing: what comes before the layers
};

}  // namespace causeway::model
