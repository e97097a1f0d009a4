// The program's own optimizers, a file each, in the order in which recipes and messages list them.
#pragma once

#include <vector>

#include "causeway/optimizer/optimizer.h"

namespace causeway::optimizer {

Optimizer adamw_optimizer();
Optimizer adafactor_optimizer();
Optimizer schedule_free_adamw_optimizer();

inline std::vector<Optimizer> own_optimizers() {
  return {adamw_optimizer(), adafactor_optimizer(), schedule_free_adamw_optimizer()};
}

}  // namespace causeway::optimizer
