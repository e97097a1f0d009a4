// The program's own optimizers, a file each, in the order in which recipes and messages list them.
#pragma once

#include <vector>

#include "causeway/optimizer/optimizer.h"

namespace causeway::optimizer {

Optimizer adamw_optimizer();
Optimizer adafactor_optimizer();
Optimizer lion_optimizer();
Optimizer muon_optimizer();
Optimizer normuon_optimizer();
Optimizer schedule_free_adamw_optimizer();
Optimizer sgd_optimizer();

// Of keys that several of them share.
inline constexpr char kBeta1Meaning[] = "decay of the first moment";
inline constexpr char kBeta2Meaning[] = "decay of the second moment";
inline constexpr char kMomentumMeaning[] = "what a running sum or average of gradients keeps of itself in a step";
inline constexpr char kNesterovMeaning[] = "a step looks one step of momentum ahead";

inline std::vector<Optimizer> own_optimizers() {
  return {
      adamw_optimizer(), muon_optimizer(), normuon_optimizer(), adafactor_optimizer(), schedule_free_adamw_optimizer(),
      lion_optimizer(),  sgd_optimizer()};
}

}  // namespace causeway::optimizer
