#include "causeway/train/grpo/sampling_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <vector>

#include "causeway/base/byte_size.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/generate/cached_forward.h"
#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

SamplingMemory sampling_memory(const Recipe& recipe, const Target& target) {
  SamplingMemory memory;
  if (!recipe.grpo.is_used()) return memory;
  const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(target),
                                                     ContextOptions{.mesh = make_mesh(recipe.mesh)}));
  const ModelPart all(recipe.model.layers);
  if (holds_reference_model(recipe)) {
    const std::unique_ptr<LanguageModel> reference =
        LanguageModel::create(recipe.model, all, new_reference_weights(recipe));
    for (const Parameter& parameter : reference->parameters()) memory.reference += parameter.tensor.local_bytes();
  }
  if (samples_with_cache(recipe)) {
    const std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, all, new_weights(recipe));
    memory.cache = CachedForward(*model, pipeline_options(recipe), sampled_side_by_side(recipe),
                                 recipe.data.sequence_length, recipe.model.vocabulary_size, nullptr)
                       .cache_bytes();
  }
  return memory;
}

std::string sampling_memory_text(const SamplingMemory& memory) {
  std::vector<std::string> held;
  if (memory.cache > 0) held.push_back(fmt::format("a KV cache of {}", format_bytes(memory.cache)));
  if (memory.reference > 0) held.push_back(fmt::format("a reference of {}", format_bytes(memory.reference)));
  return fmt::format("{}", fmt::join(held, " and "));
}

}  // namespace causeway::train
