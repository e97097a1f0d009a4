// Values that are written over the memory of one that nobody reads any more, so that no copy and no second buffer is
// needed: the new content of an input over its old one, a result over an operand.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "causeway/program/fusion.h"
#include "causeway/program/liveness.h"

namespace causeway::program {

// Whether `result` may be written over `source`: the kernel that writes it reads each element of `source` only to
// compute the same element of its results, in a loop over rows in no later pass than the one that writes it, or reads
// all of it before it writes. Of loops that share a launch, only the one that writes `result` reads `source`.
bool may_overwrite(const Graph& graph, const FusionResult& fusion, size_t kernel, Value source, Value result);

// By value, the input that it is assigned to and whose memory it is written over: where no kernel and no assignment
// reads the input's old content afterwards.
std::map<Value, Value> donate_inputs(const Graph& graph, const FusionResult& fusion,
                                     const std::map<Value, ValueLife>& lives);

// By value, the value of the arena whose memory it is written over: one of as many bytes, read for the last time by the
// kernel that writes the new one. `in_arena` are the values that live there.
std::map<Value, Value> donate_operands(const Graph& graph, const FusionResult& fusion,
                                       const std::vector<GeneratedKernel>& kernels,
                                       const std::map<Value, ValueLife>& lives, const std::set<Value>& in_arena,
                                       const SymbolBindings& bindings);

}  // namespace causeway::program
