// The text form of a graph, for people, tests and golden files; parser.h reads it back exactly.
//
//   %0 = input "x" : f32[B, 64]
//   %1 = constant 0.5 : f32[B, 64]
//   %2 = mul(%0, %1) : f32[B, 64]  # layers.0.mlp
//   %3:2 = topk(%2) {count=4} : f32[B, 4], i32[B, 4]
//   %4 = reduce_sum(%3) {axes=[1]} : f32[B]
//   assign %0 = %2
//   return %4, %3.1
//
// One node a line: `%index[:outputs] = op["name" or value](inputs) {attributes} : types  # scope`. The attributes are
// those that differ from their default, and `backward` for a node so marked; what the types already say (the shape of a
// reshape, the dtype of a cast) is left out. Names, and line breaks in scopes, are escaped as in C. An attention node
// carries its functions in braces:
//
//   %5:2 = attention(%2, %3, %4) {
//     scale=0.125,
//     mask={
//       %0 = input "b" : i32[]
//       ...
//       return %9
//     }
//   } : bf16[B, T, 8, 64], f32[B, 8, T]
#pragma once

#include <string>

#include "causeway/graph/graph.h"

namespace causeway::graph {

std::string print_graph(const Graph& graph);

// One node as it stands in the graph, without a line break; functions of attention are shown by name only.
std::string print_node(const Graph& graph, int32_t index);

// The attributes that the output types of a node imply, as the printer leaves them out and the parser restores them.
Attributes implied_attributes(Op op, const std::vector<TensorType>& outputs);

}  // namespace causeway::graph
