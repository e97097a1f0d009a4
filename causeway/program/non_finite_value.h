// Where a run's numbers stop being numbers.
#pragma once

#include <string>

#include "causeway/namespaces.h"

namespace causeway::program {

// The first value that is not finite in a run, in execution order.
struct NonFiniteValue {
  std::string op;     // the op that produced it
  std::string scope;  // the layer
  std::string type;
};

}  // namespace causeway::program
