#include "causeway/train/recipe/preference_config.h"

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {
namespace {

void require_preference(bool condition, const std::string& key, const std::string& what, const std::string& hint = {},
                        ErrorKind kind = ErrorKind::kInvalidArgument) {
  if (!condition) throw Error(kind, what, key, hint);
}

}  // namespace

void check_preference(const Recipe& r) {
  const PreferenceConfig& preference = r.preference;
  require_preference(preference.beta > 0, "preference.beta", "must be above 0");
  require_preference(preference.label_smoothing >= 0 && preference.label_smoothing < 0.5, "preference.label_smoothing",
                     "must be at least 0 and below 0.5");
  require_preference(preference.margin >= 0, "preference.margin", "must not be negative");
  require_preference(preference.center_rewards_coefficient >= 0, "preference.center_rewards_coefficient",
                     "must not be negative");
  if (!preference.is_used()) return;
  const std::string loss = fmt::format("preference.loss={}", name_of(preference.loss));
  require_preference(r.train.batch_size % 2 == 0, "train.batch_size",
                     fmt::format("{} sequences are no pairs, and {} trains on pairs", r.train.batch_size, loss),
                     "Give an even number: a pair is two sequences.");
  const int64_t rows = 2 * r.mesh.row_groups();
  require_preference(
      r.train.micro_batch_size % rows == 0, "train.micro_batch_size",
      fmt::format("{} sequences are not whole pairs{}: a pair's two sequences stand in one micro-batch{}",
                  r.train.micro_batch_size, r.mesh.row_groups() > 1 ? " for each rank of mesh.dp x mesh.fsdp" : "",
                  r.mesh.row_groups() > 1 ? " of one rank" : ""),
      fmt::format("Give a multiple of {}.", rows));
  const auto unsupported = [&](bool is_there, const char* key, const std::string& what, const std::string& hint) {
    require_preference(!is_there, key, what, hint, ErrorKind::kUnsupported);
  };
  unsupported(r.mesh.pp > 1, "mesh.pp", fmt::format("{} is not yet trained over stages", loss),
              "Cut over mesh.fsdp, mesh.dp or mesh.tp.");
  unsupported(r.mesh.cp > 1, "mesh.cp", fmt::format("{} is not yet trained with cut sequences", loss),
              "Cut over mesh.fsdp, mesh.dp or mesh.tp.");
  unsupported(preference.trains_reward_model() && r.adapter.is_used(), "lora.rank",
              fmt::format("{} trains the weight of the score, and adapters leave all weights as they are", loss),
              "Leave it out; optimizer.groups can freeze what is not to be trained.");
  unsupported(preference.trains_reward_model() && r.sampling.interval > 0, "sampling.interval",
              fmt::format("{} makes a model that gives scores and writes no text", loss), "Leave it out.");
  unsupported(r.train.mesh_independent, "train.mesh_independent",
              fmt::format("the sums of {} are not yet the same bits on every mesh", loss), "Leave it out.");
  unsupported(r.data.packs_documents(), "data.packing",
              fmt::format("{} has each completion in a row of its own, and packs none", loss), "Leave it out.");
  unsupported(r.data.document_mask, "data.document_mask",
              fmt::format("{} has each completion in a row of its own: nothing is to be masked", loss),
              "Leave it out.");
  unsupported(r.train.z_loss > 0, "train.z_loss", fmt::format("{} has no z-loss", loss), "Leave it out.");
}

void refuse_preference_without_effect(const Recipe& r) {
  const PreferenceConfig& preference = r.preference;
  const PreferenceConfig defaults;
  const char* const hint = "Delete the key, or choose a loss that it belongs to.";
  require_preference(preference.is_used() || preference.beta == defaults.beta, "preference.beta",
                     "has no effect without preference.loss", hint);
  require_preference(!preference.trains_reward_model() || preference.beta == defaults.beta, "preference.beta",
                     "has no effect with preference.loss=reward", hint);
  require_preference(
      preference.trains_reward_model() || preference.center_rewards_coefficient == defaults.center_rewards_coefficient,
      "preference.center_rewards_coefficient", "has an effect with preference.loss=reward alone", hint);
  require_preference(preference.loss == PreferenceLoss::kDpo || preference.label_smoothing == defaults.label_smoothing,
                     "preference.label_smoothing", "has an effect with preference.loss=dpo alone", hint);
  require_preference(preference.loss == PreferenceLoss::kSimpo || preference.margin == defaults.margin,
                     "preference.margin", "has an effect with preference.loss=simpo alone", hint);
}

}  // namespace causeway::train
