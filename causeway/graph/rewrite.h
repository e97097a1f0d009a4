// Rebuilding a graph node by node: what most passes are made of.
#pragma once

#include <functional>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::graph {

// Builds a new graph from `source`. For each node that needed_nodes() names, in order,
// `transform(target, node, inputs)` gets the node and its inputs in the new graph and returns the values that replace
// its outputs (one for each output; an invalid Value for one that is never used). What it adds carries the node's scope
// and backward mark. Graph inputs are always kept, in order, and are not passed to `transform`. Outputs and assignments
// are mapped.
using NodeTransform =
    std::function<std::vector<Value>(Graph& target, const Node& node, const std::vector<Value>& inputs)>;
Graph rebuild_graph(const Graph& source, const NodeTransform& transform);

// Appends an input with all that the source's one says of itself.
Value copy_input(Graph& target, const Graph& source, Value input);

// Copies `node` into `target` with new inputs, keeping its scope and backward mark; returns all its outputs.
std::vector<Value> copy_node(Graph& target, const Node& node, std::vector<Value> inputs);

// Number of uses of each output of each node, by nodes, graph outputs and assignments.
std::vector<std::vector<int>> count_uses(const Graph& graph);

// Which nodes an output, an assignment or an effect needs, effects included (inputs always count as needed).
std::vector<bool> needed_nodes(const Graph& graph);

}  // namespace causeway::graph
