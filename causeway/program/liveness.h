// Which kernels of a program write and read each value that is in memory.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "causeway/codegen/kernel.h"
#include "causeway/graph/graph.h"

namespace causeway::program {

struct ValueLife {
  static constexpr int kBefore = -1;

  int writer = kBefore;       // the kernel's position; kBefore for the graph's inputs
  int last_reader = kBefore;  // the last kernel that reads it; the writer or kBefore where none does
  // Whether it is read when the kernels have run: it is an output, or an input takes it as its new value.
  bool outlives = false;
};

int64_t byte_count(const TensorType& type, const SymbolBindings& bindings);

// Of the graph's inputs, of every value that a kernel writes, and of what outlives them.
std::map<Value, ValueLife> find_lives(const Graph& graph, const std::vector<GeneratedKernel>& kernels);

}  // namespace causeway::program
