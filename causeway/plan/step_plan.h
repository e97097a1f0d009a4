// What a recipe's training step needs and takes on named hardware, before anything of it is at hand: the step is traced
// and lowered for the hardware's target as `causeway train` would, with no memory allocated, nothing compiled and
// nothing run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/passes/count_flops.h"
#include "causeway/plan/step_work.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::plan {

// What one rank exchanges in a step.
struct CollectiveTotal {
  WorkKind kind = WorkKind::kAllReduce;
  std::string group;  // "fsdp+dp"
  int64_t ranks = 1;
  int64_t number = 0;
  double bytes = 0;    // of whole tensors: gathered, reduced or exchanged
  double seconds = 0;  // predicted, of all of them
};

// Bytes of one device, but for the checkpoint's.
struct MemoryPlan {
  int64_t weights = 0;
  int64_t gradients = 0;    // sums over micro-batches; 0 where there is one: then they are among the activations
  int64_t optimizer = 0;    // its state on the device
  int64_t activations = 0;  // and gradients and workspaces of a micro-batch
  int64_t batch = 0;        // its tokens, what else the step reads, its results
  // Of grpo.reward, beside the step: the KV cache of sampling at most, and the reference of grpo.beta.
  int64_t sampling_cache = 0, reference = 0;
  // To the byte; otherwise activations are those of a few layers, or of a few stages and micro-batches, with what each
  // further one added for the rest.
  bool exact = false;
  int64_t checkpoint = 0;  // weights and optimizer state, of all ranks together
  // Of the host's memory, for a device: the optimizer's state, and activations between forward and backward.
  int64_t host_optimizer = 0;
  int64_t host_activations = 0;
  int64_t total() const { return weights + gradients + optimizer + activations + batch + sampling_cache + reference; }
};

// Of the first rank, with nothing traced: weights, and the optimizer's state wherever it lies. Without stages each
// layer has what the second has, unless groups tell layers apart or some have experts and others none.
struct HeldBytes {
  int64_t weights = 0;
  int64_t optimizer = 0;
};
HeldBytes held_bytes(Recipe recipe, const Machine& machine);

// Of one device, what a run of the recipe may take.
double usable_bytes(const Recipe& recipe, const Machine& machine);

struct StepPlan {
  Recipe recipe;
  MemoryPlan memory;
  std::vector<CollectiveTotal> collectives;
  StepTime time;      // predicted, of one step
  double tokens = 0;  // of one step
  FlopCount flops;    // of one step, of all ranks: those of the model, without what is computed again
  double flops_utilization = 0;
  double bubble = 0;  // the share of the step that a stage of a pipeline waits
  double tokens_per_second() const { return tokens / time.seconds; }
  double host_bytes = 0;  // that a device sends to its host and gets from there in a step, together
  // What a run may take of the machine's device: all, or what device_memory_limit says.
  bool fits(const Machine& machine) const {
    return static_cast<double>(memory.total()) <= usable_bytes(recipe, machine);
  }
};

// What a rank does in a step of the recipe, which has no stages, traced for the machine's target.
StepWork trace_step_work(const Recipe& recipe, const Machine& machine);

// Whether a further layer may take something else than the one before it: the optimizer exchanges layers between ranks
// and updates several together (Muon), groups of parameters tell layers apart, or some have experts and others none.
// Then all layers are traced.
bool layers_differ(const Recipe& recipe);

// Layers beyond a few are not traced, unless layers_differ(): each takes what the last traced one does. With
// `exact_memory` all are, for memory alone; of long pipelines see pipeline_plan.h. Throws Error(kUnsupported) where the
// hardware has no peak for the GEMMs' type, and as tracing does.
StepPlan plan_step(const Recipe& recipe, const Machine& machine, bool exact_memory);

// Dollars for 1e9 tokens at this price of a device's hour.
double dollars_per_billion_tokens(const StepPlan& plan, double dollars_per_hour);

}  // namespace causeway::plan
