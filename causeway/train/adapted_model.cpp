#include "causeway/train/adapted_model.h"

#include "causeway/base/error.h"
#include "causeway/model/hugging_face.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/stored_model.h"

namespace causeway::train {
namespace {

Recipe recipe_of_base(const std::filesystem::path& directory) {
  Recipe recipe;
  if (is_checkpoint(directory)) {
    recipe = checkpoint_recipe(CheckpointReader(directory));
    if (recipe.adapter.is_used())
      throw Error(ErrorKind::kInvalidArgument, "the run has adapters of its own", directory.string(),
                  fmt::format("Name its base, {}, and this run among the adapters: --adapter {}", recipe.model_from,
                              directory.string()));
  } else {
    recipe.train.precision = Precision::kF32;
    recipe.model = read_hugging_face_config(directory);
  }
  recipe.model_from = directory.string();
  return recipe;
}

}  // namespace

AdaptedModel load_adapted_model(const std::filesystem::path& base, std::span<const WeightedAdapter> adapters,
                                AdapterCombination combination, std::optional<DType> frozen_type) {
  const std::filesystem::path directory = find_checkpoint(base).value_or(base);
  AdaptedModel adapted{nullptr, recipe_of_base(directory), ""};
  const std::unique_ptr<StoredModel> weights = open_base(directory.string(), "");
  for (const auto& [adapter, weight] : adapters) adapter->require_base(*weights, directory.string());
  adapted.base_identity = weights->identity();
  adapted.recipe.adapter = combined_adapter(adapters, combination);
  NewWeights made = new_weights(adapted.recipe);
  made.storage = WeightStorage::kElements;
  made.frozen_type = frozen_type.value_or(made.frozen_type);
  made.trained_type = DType::kF32;  // the recipe says how the base's run held its weights
  adapted.model = LanguageModel::create(adapted.recipe.model, ModelPart(adapted.recipe.model.layers), made);
  require_targets(*adapted.model);
  try {
    weights->load(*adapted.model);
  } catch (const Error& error) {
    throw naming_directory_of(error, directory.string());
  }
  load_combined(adapters, combination, *adapted.model);
  return adapted;
}

}  // namespace causeway::train
