// What a run says of itself before its first step.
#pragma once

#include <optional>
#include <string>

#include "causeway/train/checkpoint/resume.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/checkpoint/run_saver.h"
#include "causeway/train/step/flops_utilization.h"

namespace causeway::train {

// Compiles the step, on every rank. Throws Error(kResource), naming the largest activations, when it needs more memory
// than the device has.
void require_memory_for_step(const RunParts& run);

// Prints parameters, tokens and FLOPs; the device; memory; how MFU is counted, or why it is not; when checkpoints are
// written; and after a resume where it goes on from and every key that differs from the checkpoint's recipe.
void announce_run(const RunParts& run, const FlopsUtilization& utilization, const std::optional<Resumed>& resumed,
                  const RunSaver& saver);

// A comment for a saved recipe: the device that "auto" chose, and what architecture a GPU's kernels are compiled for
// where the recipe does not say. Not the key's value, so that the recipe still runs elsewhere.
std::string device_comment(const Recipe& recipe, const Device& device);

}  // namespace causeway::train
