// Activation checkpointing: forward values that the backward pass needs are computed again just before it needs them,
// instead of being kept from the forward pass. Values do not change (random numbers are a function of seed and step).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "causeway/graph/graph.h"
#include "causeway/passes/pipeline_options.h"

namespace causeway::passes {

// "none", "selective", "block".
std::optional<RecomputePolicy> parse_recompute_policy(std::string_view name);
std::string_view recompute_policy_name(RecomputePolicy policy);

// Backward nodes are those marked Node::backward. The graph order is the order of execution: each clone stands right
// before its first backward use, is marked backward and shared by later ones. Decoded weights are left to
// decode_weights_at_use(). eliminate_common_subexpressions must not run afterwards. `mesh`: of the graph's collectives.
Graph recompute(const Graph& graph, const Recomputation& recomputation, const Mesh& mesh = {});

// The part of a scope up to its first number, e.g. "layers.3" of "layers.3.mlp.up"; empty when there is none.
std::string_view block_of_scope(std::string_view scope);

}  // namespace causeway::passes
