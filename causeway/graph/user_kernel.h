// An op whose computation is C++ text of the user's: what the graph has to know of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::graph {

// The function `name` in `source` is called by every thread of `tasks` blocks of threads, as
//   NAME(block, inputs..., outputs..., sizes...)
// with `const Block& block` (causeway/kernels/block.h), pointers to the elements of inputs and outputs, row-major, in
// their storage types (float, bf16, int32_t, ...), and the sizes as int64_t. Every element of every output has to be
// written.
struct UserKernelSpec {
  std::string name;
  std::string source;
  std::vector<TensorType> outputs;
  std::vector<Dim> sizes;
  Dim tasks = 1;
  // Of a block on a GPU: a multiple of 64, at most 1024. On a CPU a block is one thread.
  int threads = 256;
  // For Block::shared().
  int shared_bytes = 0;
  // Appends the gradients of the inputs that are needed, given those of the outputs (invalid where none flows); null
  // when the op has none.
  std::function<std::vector<Value>(Graph& graph, const Node& node, const std::vector<Value>& outputs,
                                   const std::vector<Value>& output_gradients)>
      gradient;
};

// Two specifications compute the same; gradients are not compared.
bool same_computation(const UserKernelSpec& a, const UserKernelSpec& b);

}  // namespace causeway::graph
