// Horizontal fusion: loops that are alike and do not wait for each other, in one launch. Updating a bias of 1,600
// elements takes a GPU as long as launching it does; a step of GPT-2 1.5B updates 386 such tensors, and sums up the
// squares of as many gradients. An optimizer's large tensors are updated at 83 % of a copy's rate one by one.
#pragma once

#include <vector>

#include "causeway/program/fused_kernels.h"
#include "causeway/program/fusion_problem.h"

namespace causeway::program {

// The requests of the kernels, where loops of equal text and constant sizes whose results are small, or new values of
// inputs, are one request each (KernelRequest::alike), in the place of the last of them: as many as the arguments of a
// launch allow. A loop is put off for that only where nothing between needs its results or takes the place of an input
// that it reads, and where no large tensor would have to be kept longer, unless nothing between takes memory for
// another one.
std::vector<KernelRequest> fuse_horizontally(const FusionProblem& problem, const MaterializedValues& materialized,
                                             const FusedKernels& kernels);

}  // namespace causeway::program
