// Collectives among ranks whose buffers all lie in this process's memory.
//
// Sums are f32, of the ranks in their order, whatever the sizes and whoever computes them, and are rounded to bf16
// once: same inputs, same bits.
#pragma once

#include <span>

#include "causeway/communicator/communicator.h"

namespace causeway::communicator {

// One rank's share of the work, on the buffers of all ranks. The shares of all ranks make up the collective; they may
// be done in any order or at the same time, in place too. Not for kSendReceive.
void run_share(const Collective& collective, size_t rank, std::span<const void* const> from, std::span<void* const> to);

void run_transfer(const Transfer& transfer);

}  // namespace causeway::communicator
