// Several adapters over one base, each with a weight, made into one: as PEFT's add_weighted_adapter() makes it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "causeway/base/named_values.h"
#include "causeway/model/adapter.h"
#include "causeway/train/stored_adapter.h"

namespace causeway::train {

enum class AdapterCombination {
  // One under another: what they add is added up, each times its weight. The rank is the sum of their ranks.
  kCat,
  // Of factors of one rank the sums, A and B each times the root of weight and scale: what is added holds products of
  // one adapter's A and another one's B, too.
  kLinear,
};
constexpr auto named_values(AdapterCombination) {
  return std::to_array<NamedValue<AdapterCombination>>(
      {{AdapterCombination::kCat, "cat"}, {AdapterCombination::kLinear, "linear"}});
}

struct WeightedAdapter {
  std::shared_ptr<StoredAdapter> adapter;
  double weight = 1;
};

// "DIRECTORY" or "DIRECTORY=WEIGHT", as StoredAdapter::open() takes it; a path that is there with all of the text is
// that path. Throws Error(kInvalidArgument) for a weight that is no finite number.
WeightedAdapter parse_weighted_adapter(const std::string& text);

// What the model's adapters then are. Of one adapter of weight 1 its own, of others kind lora and scale 1. Throws
// Error(kUnsupported) where a DoRA is not alone and of weight 1, and Error(kInvalidArgument) where ranks differ that
// must not, or how the bases lay that they were trained on (lora.base), of which there is one.
AdapterConfig combined_adapter(std::span<const WeightedAdapter> adapters, AdapterCombination combination);

// Overwrites the adapters of a whole model that has them as combined_adapter() says. Throws as StoredAdapter::load().
void load_combined(std::span<const WeightedAdapter> adapters, AdapterCombination combination, LanguageModel& model);

}  // namespace causeway::train
