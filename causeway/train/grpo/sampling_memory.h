// What a run that samples its own completions (grpo.reward) holds of a device beside its step, all the time.
#pragma once

#include <cstdint>
#include <string>

#include "causeway/device/target.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// Bytes of one rank's device.
struct SamplingMemory {
  int64_t cache = 0;      // keys and values of completions that are sampled side by side
  int64_t reference = 0;  // the model of grpo.beta, held a second time
  int64_t total() const { return cache + reference; }
};

// Of a run of the recipe on a device of that target, with nothing allocated: zeros without grpo.reward. The cache is
// that of prompts as long as data.sequence_length lets them be; what a prefill works in is not counted.
SamplingMemory sampling_memory(const Recipe& recipe, const Target& target);

// "a KV cache of 12.0 MiB and a reference of 417 KiB"; empty where neither is held.
std::string sampling_memory_text(const SamplingMemory& memory);

}  // namespace causeway::train
