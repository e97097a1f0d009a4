// Plans of recipes whose layers are cut into stages (mesh.pp).
#pragma once

#include "causeway/plan/step_plan.h"

namespace causeway::plan {

// As plan_step(), with all layers and micro-batches of every stage traced but for those of a stage between the first
// and the last, which count as the second one's. Memory is that of the stage that needs most. The time is that of the
// stage that works longest, and what stages wait for one another by the schedule (train::bubble_share()).
StepPlan plan_pipelined_step(const Recipe& recipe, const Machine& machine);

}  // namespace causeway::plan
