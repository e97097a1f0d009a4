#include "causeway/train/step/language_modelling_objective.h"

#include "causeway/model/experts.h"
#include "causeway/tensor/ops.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

// What is minimized comes first, then figures of routers: means over micro-batches.
std::vector<Tensor> LanguageModellingObjective::trace(const LanguageModel& model, const MicroBatch& batch) const {
  RouterStatistics routing;
  ForwardInputs inputs = batch.inputs;
  if (takes_router_figures(recipe_)) inputs.routing = &routing;
  const LossAndZLoss both = model.loss_and_z_loss(inputs, batch.targets, batch.token_weights, recipe_.train.z_loss);
  std::vector<Tensor> values = {both.loss};
  if (both.z_loss.defined()) values.push_back(both.z_loss);
  if (inputs.routing == nullptr) return values;
  const double share = 1 / static_cast<double>(recipe_.micro_batches());
  if (recipe_.moe.balance_loss > 0) values.push_back(routing.balance() * (recipe_.moe.balance_loss * share));
  if (recipe_.moe.router_z_loss > 0) values.push_back(routing.z_loss() * (recipe_.moe.router_z_loss * share));
  values.push_back(routing.mean_load() * share);
  values.push_back(routing.mean_entropy() * share);
  return values;
}

Tensor LanguageModellingObjective::minimized(const std::vector<Tensor>& values) const {
  Tensor sum_of_terms = values.front();
  const size_t terms = values.size() - (takes_router_figures(recipe_) ? 2 : 0);
  for (size_t i = 1; i < terms; ++i) sum_of_terms = sum_of_terms + values[i];
  return sum_of_terms;
}

std::vector<std::string> LanguageModellingObjective::figure_names() const {
  std::vector<std::string> names;
  if (recipe_.train.z_loss > 0) names.emplace_back("z_loss");
  if (!takes_router_figures(recipe_)) return names;
  if (recipe_.moe.balance_loss > 0) names.emplace_back("balance_loss");
  if (recipe_.moe.router_z_loss > 0) names.emplace_back("router_z_loss");
  names.emplace_back("expert_load");
  names.emplace_back("router_entropy");
  return names;
}

int64_t LanguageModellingObjective::weighed_targets(const TrainingBatch& batch) const { return batch.valid_targets; }

}  // namespace causeway::train
