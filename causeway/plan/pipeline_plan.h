// Plans of recipes whose layers are cut into stages (mesh.pp).
#pragma once

#include "causeway/plan/step_plan.h"

namespace causeway::plan {

// As plan_step(), stage by stage; those between the first and the last count as the second one, in an estimate as the
// first. Memory is that of the stage that needs most. The time is that of the stage that works longest, and what stages
// wait for one another by the schedule (train::bubble_share()). With `exact_memory` all layers of a stage are traced;
// otherwise two and three, and figures grow on as they do there.
//
// A schedule repeats, so that not all of it is traced: a stage is traced at places of a shorter pipeline and with few
// micro-batches, and with one and two further stages and micro-batches. Where the second adds the same to every size in
// memory, to the byte, and to the seconds, all others do. Otherwise more is traced, at last all; of more than a few
// dozen micro-batches a mean of further stages is taken, and MemoryPlan::exact is false. An estimate of so many takes
// the mean of two further stages, of one and two layers. `whole`: all of the schedule at once.
StepPlan plan_pipelined_step(const Recipe& recipe, const Machine& machine, bool exact_memory, bool whole = false);

// What the recipe's first stage needs and takes, about: continued from one and two layers, two stages and three, and
// two micro-batches and three (an interleaved schedule's come in groups). Of a recipe without stages or
// with fewer micro-batches, and where layers_differ(): nothing.
struct StageLook {
  double bytes = 0;    // of a rank
  double seconds = 0;  // of a step

  // Whether it is in doubt that all stages need more than so many bytes. What is said of the first one is at most as
  // much, but for how buffers are packed.
  bool may_fit(double memory_bytes) const { return 0.9 * bytes <= memory_bytes; }
};
StageLook look_at_stages(const Recipe& recipe, const Machine& machine);

}  // namespace causeway::plan
