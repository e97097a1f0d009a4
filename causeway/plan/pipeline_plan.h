// Plans of recipes whose layers are cut into stages (mesh.pp).
#pragma once

#include "causeway/plan/step_plan.h"

namespace causeway::plan {

// As plan_step(), stage by stage; those between the first and the last count as the second one, in an estimate as the
// first. Memory is that of the stage that needs most. The time is that of the stage that works longest, and what stages
// wait for one another by the schedule (train::bubble_share()). With `exact_memory` all layers and micro-batches of a
// stage are traced; otherwise two layers and three, a few more micro-batches than there are stages and one more, and
// figures grow on in both as they do there.
StepPlan plan_pipelined_step(const Recipe& recipe, const Machine& machine, bool exact_memory);

}  // namespace causeway::plan
