// Routed experts in place of a layer's feed-forward layer: what a configuration says of them, and what is computed. A
// router gives each token a probability for each expert; the token goes through the likeliest ones, and their results
// are added up by these probabilities (Shazeer et al., arXiv 1701.06538; Jiang et al., Mixtral, 2401.04088).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "causeway/model/config.h"
#include "causeway/tensor/tensor.h"

namespace causeway::model {

struct ModelFamily;
struct ModelKey;

// The keys of families with experts; no family has all of them.
inline constexpr char kExperts[] = "experts", kExpertsPerToken[] = "experts_per_token";
inline constexpr char kExpertWidth[] = "expert_ffn_width", kSharedExpertWidth[] = "shared_expert_ffn_width";
inline constexpr char kNormalizedWeights[] = "normalized_expert_weights";
inline constexpr char kSparseStep[] = "sparse_step", kFirstDenseLayers[] = "first_dense_layers";
ModelKey experts_key();
ModelKey experts_per_token_key();
ModelKey expert_width_key();
ModelKey shared_expert_width_key();
ModelKey normalized_weights_key();
ModelKey sparse_step_key();
ModelKey first_dense_layers_key();

// Which experts a model has.
struct ExpertShape {
  int64_t experts = 1;
  int64_t per_token = 1;     // that each token goes through
  int64_t width = 0;         // inner size of each
  int64_t shared_width = 0;  // of the expert that all tokens go through, weighed by a sigmoid; 0: there is none
  bool normalized = true;    // a token's weights add up to 1
  int64_t sparse_step = 1;   // every so-many-th layer has experts,
  int64_t first_dense = 0;   // but for so many, the first ones

  bool is_sparse(int64_t layer) const { return layer >= first_dense && (layer + 1) % sparse_step == 0; }
  int64_t sparse_layers(int64_t layers) const;
  // Of one layer's router, experts and shared expert, of a model of that width: all, or those that one token goes
  // through.
  int64_t parameters(int64_t model_width, bool active_only) const;
};
// Of a resolved configuration; nothing in families without experts.
std::optional<ExpertShape> expert_shape(const ModelConfig& config);

// For a family's description (ModelFamily::settle, check). check_experts() throws Error(kInvalidArgument) naming the
// key.
void settle_experts(ModelConfig& config);
void check_experts(const ModelConfig& config);
// How many parameters more a model has by its experts than if all layers were dense.
int64_t added_by_experts(const ModelConfig& config);

// Parameters of a resolved configuration that a token meets: parameter_count() without the experts that it does not go
// through.
int64_t active_parameter_count(const ModelConfig& config);

// Some layers have experts and others have none.
bool has_layers_of_two_kinds(const ModelConfig& config);

// The weights of one layer's experts.
struct ExpertWeights {
  Tensor router;          // [experts, width]
  Tensor gate, up, down;  // [experts, inner, width], and down [experts, width, inner]
};

// What routers did to the tokens of one forward pass, added up over the layers that have one.
struct RouterStatistics {
  Tensor counts;         // f32 [E]: choices of each expert
  Tensor probabilities;  // f32 [E]: sum of each expert's
  Tensor squares;        // f32 []: sum of the squares of log(sum(exp(logits)))
  Tensor largest_load;   // f32 []: sum over layers of the most choices that one expert has, over the mean
  Tensor entropy;        // f32 []: sum of the entropies of the probabilities
  double tokens = 0;     // over which all sums but that of loads go: each layer's
  int64_t layers = 0;

  // Switch's loss of all layers' tokens together, as transformers has it (balance_loss()).
  Tensor balance() const;
  // Means: of the squares, of the loads and of the entropies.
  Tensor z_loss() const;
  Tensor mean_load() const;
  Tensor mean_entropy() const;
};

// x [B, T, width], normed, through the experts: [B, T, width]. Over a mesh each rank's tokens are routed by themselves
// where the axes of the batch and the sequence divide it. `gated`: of the projections to gate and up, what comes
// between them and down. `statistics`, where given, is added to.
Tensor mix_experts(const Tensor& x, const ExpertWeights& weights, const ExpertShape& shape,
                   const std::function<Tensor(const Tensor&, const Tensor&)>& gated, RouterStatistics* statistics);

}  // namespace causeway::model
