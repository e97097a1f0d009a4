// Sums over ranks that are used rounded to bf16 alone, as gradients of matrices are (train.gradients): what ranks add
// up is rounded before it is exchanged, so that half as many bytes go over the links, and whoever keeps a part of the
// sum adds it up in f32, in the order of the ranks. A reduce_scatter of f32 becomes an all_to_all of bf16 and
// additions, of groups whose axes gather weights: what is summed over those are gradients. Changes values by a rounding
// of each term. What is exchanged in bf16 anyway, gradients of keys and values over positions, is added up in the same
// way, not in bf16 from rank to rank. Method: Megatron-LM's reduce-scatter with fp32 accumulation; DeepSeek-V3, arXiv
// 2412.19437.
#pragma once

#include "causeway/graph/graph.h"
#include "causeway/graph/sharding.h"

namespace causeway::passes {

// `graph` is of one rank's parts.
Graph narrow_reductions(const Graph& graph, const Mesh& mesh);

}  // namespace causeway::passes
