// Launches in an order in which what ranks exchange is there early. What sends a value that was made long before (a
// copy in another order) comes right behind what makes that. A large exchange that the next kernels wait for, and the
// last one of a step, of gradients that the backward pass ends with, have little to run beside: what comes shortly
// before one and is not needed for it, gradients of weights that nobody else waits for, comes behind what it needs
// instead. The method is that of zero-bubble schedules (Qi et al., arXiv 2401.10241), within a step.
#pragma once

#include <vector>

#include "causeway/program/collective_order.h"

namespace causeway::program {

// `kernels` as they may run one after the other; gives them in another such order.
std::vector<KernelWork> exchange_early(std::vector<KernelWork> kernels);

}  // namespace causeway::program
