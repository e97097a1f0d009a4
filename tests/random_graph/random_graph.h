// Random, well-typed, numerically tame graphs for testing passes, fusion and devices.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/graph/graph.h"
#include "causeway/graph/host_tensor.h"

namespace causeway::graph {

struct RandomGraphOptions {
  int minimum_nodes = 5;
  int maximum_nodes = 40;            // the last construct may exceed it by about ten
  int64_t maximum_elements = 20000;  // of any one tensor
  bool symbolic = false;             // some sizes are symbols, with values in `bindings`
  bool bf16 = true;
  bool attention = false;  // may hold attention with a score and a mask
};

// What is needed to run a graph and to judge the result.
struct RandomGraph {
  Graph graph;
  SymbolBindings bindings;
  std::vector<HostTensor> inputs;  // in the order of graph.inputs(), representable in their dtypes
  // For each output, then each assignment: an absolute error against interpret(kExact) that an execution stays within
  // when it computes in f32 or wider and rounds any or all nodes to their dtypes; 0 where the values are exact. A first
  // order worst-case bound; reductions may be summed in any order.
  std::vector<double> tolerances;
};

// The same seed and options give the same graph and inputs. Values stay below about 1e3 in magnitude and away from
// poles; comparisons, argmax, topk, floor and float to integer casts are applied only to values that every correct
// execution computes exactly, so that no result hangs on a rounding error. Graphs hold row and column reductions whose
// result is used elementwise, merges and splits of dimensions, diamonds, values with several consumers, some dead
// nodes, several outputs and sometimes an assignment.
RandomGraph make_random_graph(uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace causeway::graph
