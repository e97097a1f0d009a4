// Values that are written over the memory of one that nobody reads any more, so that no copy and no second buffer is
// needed: the new content of an input over its old one, a result over an operand.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "causeway/program/fusion.h"
#include "causeway/program/liveness.h"

namespace causeway::program {

// Which results of kernels may be written over what they read. It keeps what it has found out of a kernel.
class Overwriting {
 public:
  Overwriting(const Graph& graph, const FusionResult& fusion) : graph_(graph), fusion_(fusion) {}

  // Whether `result` may be written over `source`: the kernel that writes it reads each element of `source` only to
  // compute the same element of its results, in a loop over rows in no later pass than the one that writes it, or reads
  // all of it before it writes. Of loops that share a launch, only the one that writes `result` reads `source`.
  bool is_allowed(size_t kernel, Value source, Value result);

 private:
  bool beside_others(const KernelRequest& request, Value source, Value result);
  // What the members of a request's loop are computed from, but for what is behind values in memory.
  const std::set<Value>& read_by(const std::vector<Value>& members);

  const Graph& graph_;
  const FusionResult& fusion_;
  std::map<const std::vector<Value>*, std::set<Value>> read_by_;  // lists of members are the fusion's
};

// By value, the input that it is assigned to and whose memory it is written over: where no kernel and no assignment
// reads the input's old content afterwards.
std::map<Value, Value> donate_inputs(const Graph& graph, Overwriting& overwriting,
                                     const std::map<Value, ValueLife>& lives);

// By value, the value of the arena whose memory it is written over: one of as many bytes, read for the last time by the
// kernel that writes the new one. `in_arena` are the values that live there.
std::map<Value, Value> donate_operands(const Graph& graph, Overwriting& overwriting,
                                       const std::vector<GeneratedKernel>& kernels,
                                       const std::map<Value, ValueLife>& lives, const std::set<Value>& in_arena,
                                       const SymbolBindings& bindings);

}  // namespace causeway::program
