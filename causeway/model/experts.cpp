#include "causeway/model/experts.h"

#include <fmt/format.h>

#include "causeway/base/error.h"
#include "causeway/model/family.h"
#include "causeway/model/mesh_axis.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::model {
namespace {

constexpr int64_t kMostExperts = 4096;

bool has_key(const ModelConfig& config, const char* key) {
  return model_family(config.family).find_key(key) != nullptr;
}

void require_experts(bool condition, const char* key, const std::string& what, const std::string& hint = {}) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, what, fmt::format("model.{}", key), hint);
}

// The parts that the mesh's axes cut a dimension into, where they divide it.
int64_t parts_of(const Dim& size, std::initializer_list<MeshAxisId> axes) {
  int64_t parts = 1;
  for (const MeshAxisId id : axes) {
    const MeshAxis* axis = find_axis(Context::current()->mesh(), id);
    if (axis != nullptr && size.is_constant() && size.constant() % (parts * axis->size) == 0) parts *= axis->size;
  }
  return parts;
}

// [B, T, d] as slabs [P, tokens, d], one for each rank that has tokens of its own, in the mesh's order: positions are
// cut before rows. And back.
class Slabs {
 public:
  explicit Slabs(const Tensor& x)
      : rows_(x.size(0)),
        length_(x.size(1)),
        width_(x.size(2)),
        by_rows_(parts_of(rows_, {MeshAxisId::kFsdp, MeshAxisId::kDp})),
        by_length_(parts_of(length_, {MeshAxisId::kCp})) {}

  Tensor cut(const Tensor& x) const {
    if (by_length_ == 1) return reshape(x, {by_rows_, tokens(), width_});
    const Tensor parts = reshape(x, {by_rows_, rows_part(), by_length_, length_part(), width_});
    return reshape(permute(parts, {2, 0, 1, 3, 4}), {by_length_ * by_rows_, tokens(), width_});
  }

  Tensor join(const Tensor& y) const {
    if (by_length_ == 1) return reshape(y, {rows_, length_, width_});
    const Tensor parts = reshape(y, {by_length_, by_rows_, rows_part(), length_part(), width_});
    return reshape(permute(parts, {1, 2, 0, 3, 4}), {rows_, length_, width_});
  }

  double all_tokens() const {
    CAUSEWAY_CHECK(rows_.is_constant() && length_.is_constant());
    return static_cast<double>(rows_.constant() * length_.constant());
  }

 private:
  Dim rows_part() const { return by_rows_ == 1 ? rows_ : Dim(rows_.constant() / by_rows_); }
  Dim length_part() const { return by_length_ == 1 ? length_ : Dim(length_.constant() / by_length_); }
  Dim tokens() const { return rows_part() * length_part(); }

  Dim rows_, length_, width_;
  int64_t by_rows_, by_length_;
};

void add_up(Tensor& sum_of_layers, const Tensor& of_layer) {
  sum_of_layers = sum_of_layers.defined() ? sum_of_layers + of_layer : of_layer;
}

void add_statistics(RouterStatistics& all, const Tensor& logits, const ExpertChoice& choice, const ExpertRows& rows,
                    const ExpertShape& shape, double tokens) {
  const Tensor counts = sum(cast(rows.counts, DType::kF32), {0});
  add_up(all.counts, counts);
  add_up(all.probabilities, sum(choice.probabilities, {0, 1}));
  const Tensor log_sums = logsumexp(cast(logits, DType::kF32), {-1});
  add_up(all.squares, sum(log_sums * log_sums));
  const double mean_count = tokens * static_cast<double>(shape.per_token) / static_cast<double>(shape.experts);
  add_up(all.largest_load, amax(stop_gradient(counts)) * (1 / mean_count));
  const Tensor certain = stop_gradient(choice.probabilities);
  add_up(all.entropy, sum(certain * log(clamp_min(certain, 1e-30))) * -1.0);
  all.tokens += tokens;
  ++all.layers;
}

}  // namespace

ModelKey experts_key() {
  return size_key(kExperts, 8, 1, kMostExperts, "experts of a layer, of which each token goes through some");
}
ModelKey experts_per_token_key() {
  return size_key(kExpertsPerToken, 2, 1, kMostExperts, "experts that each token goes through, the likeliest ones");
}
ModelKey expert_width_key() {
  return size_key(kExpertWidth, 0, 0, int64_t{1} << 22, "inner size of each expert; 0: ffn_width");
}
ModelKey shared_expert_width_key() {
  return size_key(kSharedExpertWidth, 0, 0, int64_t{1} << 22,
                  "inner size of the expert that all tokens go through; 0: ffn_width");
}
ModelKey normalized_weights_key() {
  return {kNormalizedWeights, false, "the weights of a token's experts are made to add up to 1", {}};
}
ModelKey sparse_step_key() {
  return size_key(kSparseStep, 1, 1, 1024, "every so-many-th layer has experts; the others are dense");
}
ModelKey first_dense_layers_key() {
  return size_key(kFirstDenseLayers, 0, 0, 1024, "so many layers, the first ones, are dense");
}

int64_t ExpertShape::sparse_layers(int64_t layers) const {
  int64_t count = 0;
  for (int64_t layer = 0; layer < layers; ++layer) count += is_sparse(layer) ? 1 : 0;
  return count;
}

int64_t ExpertShape::parameters(int64_t model_width, bool active_only) const {
  const int64_t routed = (active_only ? per_token : experts) * 3 * model_width * width;
  const int64_t shared = shared_width == 0 ? 0 : 3 * model_width * shared_width + model_width;
  return experts * model_width + routed + shared;
}

std::optional<ExpertShape> expert_shape(const ModelConfig& c) {
  if (!has_key(c, kExperts)) return std::nullopt;
  ExpertShape shape;
  shape.experts = c.own_integer(kExperts);
  shape.per_token = c.own_integer(kExpertsPerToken);
  shape.width = has_key(c, kExpertWidth) ? c.own_integer(kExpertWidth) : c.ffn_width;
  if (has_key(c, kSharedExpertWidth)) shape.shared_width = c.own_integer(kSharedExpertWidth);
  if (has_key(c, kNormalizedWeights)) shape.normalized = c.own_truth(kNormalizedWeights);
  if (has_key(c, kSparseStep)) shape.sparse_step = c.own_integer(kSparseStep);
  if (has_key(c, kFirstDenseLayers)) shape.first_dense = c.own_integer(kFirstDenseLayers);
  return shape;
}

void settle_experts(ModelConfig& c) {
  for (const char* key : {kExpertWidth, kSharedExpertWidth})
    if (has_key(c, key) && c.own_integer(key) == 0) c.own[key] = c.ffn_width;
}

void check_experts(const ModelConfig& c) {
  const ExpertShape shape = *expert_shape(c);
  require_experts(shape.per_token <= shape.experts, kExpertsPerToken,
                  fmt::format("{} experts of each token are more than there are, {}", shape.per_token, shape.experts),
                  fmt::format("Give at most {}, or more model.{}.", shape.experts, kExperts));
  require_experts(shape.first_dense < c.layers, kFirstDenseLayers,
                  fmt::format("{} dense layers leave none of {} with experts", shape.first_dense, c.layers),
                  "Give fewer, or choose a family without experts.");
  require_experts(shape.sparse_layers(c.layers) > 0, kSparseStep,
                  fmt::format("no layer of {} has experts where every {}th would", c.layers, shape.sparse_step),
                  "Give a smaller one, or choose a family without experts.");
}

int64_t added_by_experts(const ModelConfig& c) {
  const ExpertShape shape = *expert_shape(c);
  return shape.sparse_layers(c.layers) * (shape.parameters(c.width, false) - 3 * c.width * c.ffn_width);
}

int64_t active_parameter_count(const ModelConfig& c) {
  const std::optional<ExpertShape> shape = expert_shape(c);
  if (!shape) return parameter_count(c);
  return parameter_count(c) -
         shape->sparse_layers(c.layers) * (shape->parameters(c.width, false) - shape->parameters(c.width, true));
}

bool has_layers_of_two_kinds(const ModelConfig& c) {
  const std::optional<ExpertShape> shape = expert_shape(c);
  return shape && shape->sparse_layers(c.layers) < c.layers;
}

Tensor RouterStatistics::balance() const { return balance_loss(counts, probabilities, tokens); }
Tensor RouterStatistics::z_loss() const { return squares * (1 / tokens); }
Tensor RouterStatistics::mean_load() const { return largest_load * (1 / static_cast<double>(layers)); }
Tensor RouterStatistics::mean_entropy() const { return entropy * (1 / tokens); }

Tensor mix_experts(const Tensor& x, const ExpertWeights& weights, const ExpertShape& shape,
                   const std::function<Tensor(const Tensor&, const Tensor&)>& gated, RouterStatistics* statistics) {
  const Slabs slabs(x);
  // Whole over tp, of which each rank has a part of every expert: all of them route the same tokens.
  const Mesh& mesh = Context::current()->mesh();
  const Tensor tokens = slabs.cut(mesh.empty() ? x : constrain_sharding(x, token_sharding(x.shape(), mesh)));
  const Tensor logits = linear(tokens, weights.router);
  const ExpertChoice choice = choose_experts(logits, shape.per_token, shape.normalized);
  const ExpertRows rows = rows_by_expert(choice.experts, shape.experts);
  if (statistics != nullptr) add_statistics(*statistics, logits, choice, rows, shape, slabs.all_tokens());
  const Tensor given = permute_rows(tokens, rows);
  const Tensor wide =
      gated(grouped_matmul(given, weights.gate, rows.offsets), grouped_matmul(given, weights.up, rows.offsets));
  const Tensor y = grouped_matmul(wide, weights.down, rows.offsets);
  return slabs.join(combine_rows(y, choice.weights, rows));
}

}  // namespace causeway::model
