// The meshes, micro-batches and recomputation with which a recipe's step is fastest on so many devices.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "causeway/plan/step_plan.h"

namespace causeway::plan {

// The fastest steps of the recipe that fit on so many devices, fastest first: over meshes, micro-batches of 1, 2, 4,
// ... sequences a rank, and recomputation. Which meshes: tp within a node, cp from sequences of 16,384 on, dp beside
// fsdp and stages beside dp from two nodes on. Of meshes with as many stages the first that fits is planned, in the
// order in which a quick look (look_at_stages()) finds them fast. Runs on all processors. `progress`, if any, is called
// by one thread at a time with how many meshes were tried, of how many. Throws Error(kInvalidArgument) where no mesh
// divides the recipe's sizes and Error(kResource) where none fits, naming the one that needs least.
using SearchObserver = std::function<void(size_t tried, size_t meshes)>;
std::vector<StepPlan> search_plans(const Recipe& recipe, const Machine& machine, int64_t devices,
                                   const SearchObserver& progress = nullptr);

}  // namespace causeway::plan
