// When collectives are given to their queue, so that they run beside kernels: weights are gathered some kernels before
// they are used, sums begin as soon as their terms are there, and several small ones are one instruction (one launch of
// the library, nothing is copied together). The method is torchtitan's and Megatron's, as an order of instructions.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "causeway/program/instruction.h"

namespace causeway::program {

// What a kernel of the program becomes.
using KernelWork = std::variant<Launch, Collectives, StageMessage>;

struct OrderedWork {
  KernelWork work;
  // Collectives that could have come earlier: what the compute queue was given before comes first, so that memory that
  // it no longer needs serves them.
  bool follows_kernels = false;
};

// `kernels` as they may run one after the other, each collective alone; gives the same work in another order that every
// rank with the same kernels finds, collectives of one kind over one group together up to `bucket_bytes`, whatever
// other groups do meanwhile. What a gather reads may be gathered itself, over another group. Launches and messages keep
// their order, but for launches that need nothing but collectives: they come as soon as those will be done.
std::vector<OrderedWork> order_collectives(std::vector<KernelWork> kernels, int64_t bucket_bytes);

}  // namespace causeway::program
