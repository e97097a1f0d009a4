#include "causeway/train/step/objective.h"

#include "causeway/train/step/grpo_objective.h"
#include "causeway/train/step/language_modelling_objective.h"
#include "causeway/train/step/preference_objective.h"

namespace causeway::train {

std::unique_ptr<Objective> make_objective(const Recipe& recipe) {
  if (recipe.grpo.is_used()) return std::make_unique<GrpoObjective>(recipe);
  if (recipe.preference.is_used()) return std::make_unique<PreferenceObjective>(recipe);
  return std::make_unique<LanguageModellingObjective>(recipe);
}

}  // namespace causeway::train
