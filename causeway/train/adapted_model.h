// A base model with one or several adapters beside it, which are named by their directories.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "causeway/model/language_model.h"
#include "causeway/train/adapter_combination.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

struct AdaptedModel {
  std::unique_ptr<LanguageModel> model;
  // Its model, adapter and model.from, the base's directory, are those of this model; the rest is the recipe of the run
  // that trained the base, or of a Hugging Face directory the defaults, in f32.
  Recipe recipe;
  std::string base_identity;
};

// `base`: a Hugging Face directory, a checkpoint, or a run, of which the newest checkpoint is meant. In the current
// context. Matrices of the base are multiplied in `frozen_type`; nothing: as a training of the adapters by that recipe
// does it. They are quantized where those were that the adapters were trained on. Adapters lie in f32.
// Throws Error: kInvalidArgument where the base has adapters of its own, or an adapter is of another one; and as
// StoredModel, combined_adapter() and load_combined() do.
AdaptedModel load_adapted_model(const std::filesystem::path& base, std::span<const WeightedAdapter> adapters,
                                AdapterCombination combination, std::optional<DType> frozen_type = {});

}  // namespace causeway::train
