#include "causeway/optimizer/orthogonal_update.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "causeway/optimizer/optimizers.h"
#include "causeway/passes/recompute.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/sharding_ops.h"

namespace causeway::optimizer {
namespace {

constexpr char kMatchAdamW[] = "match_rms_adamw", kOriginal[] = "original";

// The size of a step of learning rate 1: so that it is AdamW's, or sqrt(out / in) where the output is the longer side.
double step_size(const Parameter& parameter, const std::string& scale) {
  const Shape& shape = parameter.tensor.shape();
  double out = static_cast<double>(shape[shape.size() - 2].constant());
  double in = static_cast<double>(shape[shape.size() - 1].constant());
  if (parameter.input_first) std::swap(out, in);
  return scale == kOriginal ? std::sqrt(std::max(1.0, out / in)) : 0.2 * std::sqrt(std::max(out, in));
}

// Of the matrices that are orthogonalised together.
struct Momentum {
  Tensor average;    // that is kept
  Tensor direction;  // before it is orthogonal
};

Momentum momentum_of(const ParameterUpdate& of, const OptimizerConfig& config) {
  const double momentum = config.own_number("momentum");
  const Tensor average = momentum * of.state[0] + (1 - momentum) * of.gradient;
  return {average, config.own_truth("nesterov") ? momentum * average + (1 - momentum) * of.gradient : average};
}

UpdatedParameter update_matrix(const ParameterUpdate& of, const Momentum& momentum, Tensor direction,
                               const OptimizerConfig& config, const OrthogonalUpdate& update) {
  UpdatedParameter updated{{}, {momentum.average}};
  if (update.normalize) direction = update.normalize(direction, of, config, updated.state);
  const Tensor& p = of.value();
  const Tensor decayed = of.weight_decay == 0 ? p : p * (1.0 - of.learning_rate * of.weight_decay);
  updated.parameter =
      decayed - direction * (of.learning_rate * step_size(of.parameter, config.own_text("update_scale")));
  return updated;
}

// The axes that cut a parameter, in the mesh's order.
std::vector<std::string> axes_of(const Parameter& parameter) {
  std::vector<std::string> axes;
  for (const MeshAxis& axis : parameter.tensor.context()->mesh().axes)
    for (const std::vector<std::string>& of_dim : parameter.tensor.sharding().dims)
      if (std::ranges::find(of_dim, axis.name) != of_dim.end()) axes.push_back(axis.name);
  return axes;
}

// As many matrices as there are ranks that share each: every rank gets one of them whole in exchange for its parts of
// the others, makes it orthogonal, and gives the parts back. What lacks to that number is zeros.
std::vector<Tensor> orthogonalized_by_owners(const std::vector<Tensor>& parts, const Sharding& sharding,
                                             const std::vector<std::string>& axes, size_t ranks, int64_t iterations) {
  std::vector<Tensor> stacked = parts;
  while (stacked.size() < ranks) stacked.push_back(zeros_like(parts.front()));
  Sharding lying = sharding, owned;
  lying.dims.insert(lying.dims.begin(), std::vector<std::string>());
  owned.dims = {axes, {}, {}};
  const Tensor mine = constrain_sharding(constrain_sharding(stack(stacked), lying), owned);
  const Tensor back = constrain_sharding(orthogonalized(mine, iterations), lying);
  std::vector<Tensor> directions;
  for (size_t i = 0; i < parts.size(); ++i)
    directions.push_back(squeeze(narrow(back, 0, static_cast<int64_t>(i), 1), {0}));
  return directions;
}

// Experts' matrices [experts, out, in], each rank some of them whole.
Tensor orthogonalized_experts(const Tensor& parts, const Sharding& sharding, const std::vector<std::string>& axes,
                              size_t ranks, int64_t iterations) {
  Sharding owned;
  owned.dims.resize(3);
  if (parts.size(0).constant() % static_cast<int64_t>(ranks) == 0) owned.dims[0] = axes;
  return constrain_sharding(orthogonalized(constrain_sharding(parts, owned), iterations), sharding);
}

size_t ranks_of(const Parameter& parameter) {
  const Mesh& mesh = parameter.tensor.context()->mesh();
  int64_t ranks = 1;
  for (const std::string& axis : axes_of(parameter)) ranks *= mesh.axes[mesh.axis(axis)].size;
  return static_cast<size_t>(ranks);
}

// Matrices of one shape that lie alike, as many as one exchange takes, the first ones first.
std::vector<std::vector<size_t>> matrices_by_exchange(const std::vector<ParameterUpdate>& parameters) {
  std::vector<std::vector<size_t>> exchanges;
  std::map<std::string, size_t> open;  // the last exchange of each kind
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i].parameter;
    if (!is_hidden_matrix(parameter)) continue;
    const std::string kind =
        fmt::format("{} {}", parameters[i].gradient.type().text(), parameter.tensor.sharding().text());
    const auto found = open.find(kind);
    const bool is_alone = parameter.tensor.rank() == 3;
    if (!is_alone && found != open.end() && exchanges[found->second].size() < ranks_of(parameter)) {
      exchanges[found->second].push_back(i);
    } else {
      open[kind] = exchanges.size();
      exchanges.push_back({i});
    }
  }
  return exchanges;
}

void update_matrices(const std::vector<ParameterUpdate>& parameters, const OptimizerConfig& config,
                     const OrthogonalUpdate& update, const Optimizer::Take& take) {
  const int64_t iterations = config.own_integer("newton_schulz_steps");
  for (const std::vector<size_t>& exchange : matrices_by_exchange(parameters)) {
    std::vector<Momentum> momenta;
    std::vector<Tensor> directions;
    for (const size_t i : exchange) {
      momenta.push_back(momentum_of(parameters[i], config));
      directions.push_back(momenta.back().direction);
    }
    const Parameter& first = parameters[exchange.front()].parameter;
    const size_t ranks = ranks_of(first);
    if (ranks == 1)
      directions = {orthogonalized(directions.front(), iterations)};
    else if (first.tensor.rank() == 3)
      directions = {
          orthogonalized_experts(directions.front(), first.tensor.sharding(), axes_of(first), ranks, iterations)};
    else
      directions = orthogonalized_by_owners(directions, first.tensor.sharding(), axes_of(first), ranks, iterations);
    for (size_t k = 0; k < exchange.size(); ++k)
      take(exchange[k], update_matrix(parameters[exchange[k]], momenta[k], directions[k], config, update));
  }
}

}  // namespace

bool is_hidden_matrix(const Parameter& parameter) {
  const size_t rank = parameter.tensor.shape().size();
  return (rank == 2 || rank == 3) && !block_of_scope(parameter.name).empty();
}

Tensor orthogonalized(const Tensor& m, int64_t iterations) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kLeastNorm = 1e-7;
  const bool is_tall = m.size(-2).constant() > m.size(-1).constant();
  Tensor x = is_tall ? transpose(m) : m;
  x = x / clamp_min(sqrt(sum(x * x, {-2, -1}, true)), kLeastNorm);
  for (int64_t i = 0; i < iterations; ++i) {
    const Tensor products = matmul(x, transpose(x));
    const Tensor polynomial = kB * products + kC * matmul(products, products);
    x = kA * x + matmul(polynomial, x);
  }
  return is_tall ? transpose(x) : x;
}

Optimizer orthogonal_optimizer(std::string name, std::vector<OptimizerKey> more_keys, OrthogonalUpdate update) {
  Optimizer optimizer;
  optimizer.name = std::move(name);
  optimizer.keys = {OptimizerKey::below_one("momentum", 0.95, kMomentumMeaning),
                    {"nesterov", true, kNesterovMeaning},
                    {"newton_schulz_steps", int64_t{5}, "iterations that make a step orthogonal",
                     [](const OptimizerValue& value) -> std::string {
                       const int64_t steps = std::get<int64_t>(value);
                       return steps >= 1 && steps <= 20 ? "" : "must be from 1 to 20";
                     }},
                    OptimizerKey::one_of("update_scale", {kMatchAdamW, kOriginal},
                                         "matrices' steps times 0.2 sqrt(max(out, in)), so that rates and decays of "
                                         "AdamW fit; or times sqrt(max(1, out / in))"),
                    {"adamw_learning_rate", 0.0, "peak learning rate of what is no hidden matrix; 0: learning_rate",
                     [](const OptimizerValue& value) -> std::string {
                       return std::get<double>(value) >= 0 ? "" : "must not be negative";
                     }}};
  for (OptimizerKey& key : more_keys) optimizer.keys.push_back(std::move(key));
  const auto rest = std::make_shared<const Optimizer>(adamw_optimizer());
  for (const OptimizerKey& key : rest->keys)
    if (optimizer.find_key(key.name) == nullptr) optimizer.keys.push_back(key);
  optimizer.state = [rest, more = update.more_state](const OptimizerConfig& config) {
    std::vector<OptimizerState> kept = {{"momentum", DType::kF32, is_hidden_matrix}};
    if (more)
      for (OptimizerState& one : more(config)) kept.push_back(std::move(one));
    for (OptimizerState& one : rest->state(config)) {
      one.kept_for = [kept_for = one.kept_for](const Parameter& parameter) {
        return !is_hidden_matrix(parameter) && (!kept_for || kept_for(parameter));
      };
      kept.push_back(std::move(one));
    }
    return kept;
  };
  optimizer.rate_factor = [](const Parameter& parameter, const OptimizerConfig& config) {
    const double rate = config.own_number("adamw_learning_rate");
    return rate == 0 || is_hidden_matrix(parameter) ? 1.0 : rate / config.learning_rate;
  };
  optimizer.update_all = [rest, update = std::move(update)](const std::vector<ParameterUpdate>& parameters,
                                                            const OptimizerConfig& config,
                                                            const Optimizer::Take& take) {
    for (size_t i = 0; i < parameters.size(); ++i)
      if (!is_hidden_matrix(parameters[i].parameter)) take(i, rest->update(parameters[i], config));
    update_matrices(parameters, config, update, take);
  };
  optimizer.update = [all = optimizer.update_all](const ParameterUpdate& of, const OptimizerConfig& config) {
    UpdatedParameter one;
    all({of}, config, [&](size_t, const UpdatedParameter& updated) { one = updated; });
    return one;
  };
  return optimizer;
}

}  // namespace causeway::optimizer
