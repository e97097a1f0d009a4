#include "causeway/optimizer/orthogonal_update.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "causeway/optimizer/optimizers.h"
#include "causeway/passes/recompute.h"
#include "causeway/tensor/ops.h"
#include "causeway/tensor/sharding_ops.h"

namespace causeway::optimizer {
namespace {

constexpr char kMatchAdamW[] = "match_rms_adamw", kOriginal[] = "original";

// The size of a step of learning rate 1: so that it is AdamW's, or sqrt(out / in) where the output is the longer side.
double step_size(const Parameter& parameter, const std::string& scale) {
  const Shape& shape = parameter.tensor.shape();
  double out = static_cast<double>(shape[0].constant()), in = static_cast<double>(shape[1].constant());
  if (parameter.input_first) std::swap(out, in);
  return scale == kOriginal ? std::sqrt(std::max(1.0, out / in)) : 0.2 * std::sqrt(std::max(out, in));
}

UpdatedParameter update_matrix(const ParameterUpdate& of, const OptimizerConfig& config,
                               const OrthogonalUpdate& update) {
  const double momentum = config.own_number("momentum");
  const Tensor &p = of.parameter.tensor, &g = of.gradient;
  const Tensor average = momentum * of.state[0] + (1 - momentum) * g;
  const Tensor taken = config.own_truth("nesterov") ? momentum * average + (1 - momentum) * g : average;
  // A rank has a part of the matrix. It is gathered, and each rank makes all of the direction: the same bits as one.
  const Tensor whole = constrain_sharding(taken, {});
  Tensor direction = orthogonalized(whole, config.own_integer("newton_schulz_steps"));
  UpdatedParameter updated{{}, {average}};
  if (update.normalize) direction = update.normalize(direction, of, config, updated.state);
  direction = constrain_sharding(direction, p.sharding());
  const Tensor decayed = of.weight_decay == 0 ? p : p * (1.0 - of.learning_rate * of.weight_decay);
  updated.parameter =
      decayed - direction * (of.learning_rate * step_size(of.parameter, config.own_text("update_scale")));
  return updated;
}

}  // namespace

bool is_hidden_matrix(const Parameter& parameter) {
  return parameter.tensor.shape().size() == 2 && !block_of_scope(parameter.name).empty();
}

Tensor orthogonalized(const Tensor& m, int64_t iterations) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kLeastNorm = 1e-7;
  const bool is_tall = m.size(0).constant() > m.size(1).constant();
  Tensor x = is_tall ? transpose(m) : m;
  x = x / clamp_min(sqrt(sum(x * x)), kLeastNorm);
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
  optimizer.update = [rest, update = std::move(update)](const ParameterUpdate& of, const OptimizerConfig& config) {
    return is_hidden_matrix(of.parameter) ? update_matrix(of, config, update) : rest->update(of, config);
  };
  return optimizer;
}

}  // namespace causeway::optimizer
