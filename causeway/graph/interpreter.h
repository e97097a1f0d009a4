// The reference interpreter: every op in double precision with plain loops, the oracle that kernels, passes and
// gradients are tested against. It is slow on purpose; tensors of a million elements take well under a second an op.
//
// Where graph.h leaves a case open, this is what the interpreter does:
//   max, reduce_max, argmax and topk take a NaN as larger than every number (the first one wins)
//   integer division by zero gives 0; a shift count is taken modulo the width of the type
//   integer arithmetic and iota wrap as their dtype does; a cast to an integer saturates, as write_element() does
//   reduce_max over no element gives -infinity, or the smallest integer
//   random_bits reads its seed and step exactly up to 2^53 only, as every i64
//   a block map given to attention is not read: the mask alone decides
//   a target of linear_cross_entropy beyond the vocabulary is an error
#pragma once

#include <vector>

#include "causeway/graph/graph.h"
#include "causeway/graph/host_tensor.h"

namespace causeway::graph {

enum class Rounding {
  kExact,  // floats stay double whatever their dtype (a float to float cast keeps the value): the base of error bounds
  kRounded,  // the result of each node is rounded to its dtype once
};

// The values of the outputs, then of the assignments, in order. `inputs` are in the order of graph.inputs(). Throws
// Error(kInvalidArgument) when an input does not fit its declaration or a symbolic size turns out impossible.
std::vector<HostTensor> interpret(const Graph& graph, const std::vector<HostTensor>& inputs,
                                  const SymbolBindings& bindings = {}, Rounding rounding = Rounding::kExact);

// The same graph on every rank of `mesh`, which may hold collectives: `inputs` and results by rank. Sums over ranks add
// up in the order of the group.
std::vector<std::vector<HostTensor>> interpret_ranks(const Graph& graph, const Mesh& mesh,
                                                     const std::vector<std::vector<HostTensor>>& inputs,
                                                     Rounding rounding = Rounding::kExact);

// What a rank holds of a value that lies over the mesh as `sharding` says, and the value that all ranks' parts make up
// (partial ones are added up).
HostTensor shard_of(const HostTensor& whole, const Sharding& sharding, const Mesh& mesh, int64_t rank);
HostTensor assemble(const std::vector<HostTensor>& parts, const Sharding& sharding, const Mesh& mesh);

}  // namespace causeway::graph
