// Which values of the forward pass leave the device until the backward pass reads them, and when copies between the
// host and the device are queued.
//
// The method is vDNN's (Rhu et al., MICRO 2016), as a matter of the program's order alone: a value that is not read for
// long is copied out behind the kernel that wrote it and back ahead of the kernel that reads it next, into another
// buffer of the arena. Kernels and the graph are the same, and so are results.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "causeway/program/fusion.h"
#include "causeway/program/instruction.h"
#include "causeway/program/liveness.h"

namespace causeway::program {

// By value of the arena, the first kernel of the backward pass that reads it: of values that a kernel of the forward
// pass writes and that nobody reads for kLeastGap kernels before that one, but for those of less than a kSmallShare-th
// of the largest one's bytes.
inline constexpr int kLeastGap = 24;
inline constexpr int64_t kSmallShare = 64;
std::map<Value, int> find_offloaded(const Graph& graph, const FusionResult& fusion,
                                    const std::vector<GeneratedKernel>& kernels,
                                    const std::map<Value, ValueLife>& lives, const std::set<Value>& in_arena,
                                    const SymbolBindings& bindings);

// Between the host and the device.
struct HostCopies {
  std::vector<Copy> loads;   // to buffers that kernels read
  std::vector<Copy> stores;  // of what kernels have written
  std::vector<Copy> last;    // any others, in an order in which they may run when all kernels have
};

// A load, queued before instruction `before` of the program.
struct PlacedLoad {
  int before = 0;
  // Those of a batch come together: a batch begins when the one before it begins to be used, so that one is used while
  // the next one comes and the one before goes.
  int batch = 0;
  Copy copy;
};

// In the order in which they are queued. `work` are the other instructions, in their order; loads are of what is on the
// host before all of them, or of what one of the stores has put there. `batch_bytes`: what a batch has at least, where
// there is so much; 0: each load comes right where it is read.
std::vector<PlacedLoad> place_loads(std::span<const Instruction> work, const HostCopies& copies, int64_t batch_bytes);
// By position in `work`, the stores that follow it.
std::map<int, std::vector<Copy>> place_stores(std::span<const Instruction> work, const std::vector<Copy>& stores);

}  // namespace causeway::program
