// Activation checkpointing: forward values that the backward pass needs are computed again just before it needs them,
// instead of being kept from the forward pass. Values do not change (random numbers are a function of seed and step).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "causeway/base/fields.h"
#include "causeway/graph/graph.h"

namespace causeway::passes {

enum class RecomputePolicy {
  kNone,       // everything the backward pass needs is kept
  kSelective,  // kept: results of dots, attention and indexing, reductions of 8 elements or more (norm statistics) and
               // the residual stream, or what they lead to in as few bytes; elementwise chains and movements between
               // them are computed again
  kBlock,      // kept: what a block (nodes whose scope starts with the same "name.N") hands to other blocks, and what
               // lies outside all blocks; the whole inside of a block is computed again, but for gathers of weights
               // that are kept (find_weight_gathers())
};

struct Recomputation {
  RecomputePolicy policy = RecomputePolicy::kNone;
  // So many blocks, the first ones, whose activations would be kept longest. Of kBlock the others are as kSelective has
  // them, of kSelective all of what the others and what lies outside compute is kept. 0: all.
  int64_t blocks = 0;
  bool operator==(const Recomputation&) const = default;

  static constexpr auto fields() {
    return std::tuple{ListedField{"policy", &Recomputation::policy}, ListedField{"blocks", &Recomputation::blocks}};
  }
};

static_assert(lists_every_field<Recomputation>);

// "none", "selective", "block".
std::optional<RecomputePolicy> parse_recompute_policy(std::string_view name);
std::string_view recompute_policy_name(RecomputePolicy policy);

// Backward nodes are those marked Node::backward. The graph order is the order of execution: each clone stands right
// before its first backward use, is marked backward and shared by later ones. eliminate_common_subexpressions must not
// run afterwards. `mesh`: of the graph's collectives.
Graph recompute(const Graph& graph, const Recomputation& recomputation, const Mesh& mesh = {});

// The part of a scope up to its first number, e.g. "layers.3" of "layers.3.mlp.up"; empty when there is none.
std::string_view block_of_scope(std::string_view scope);

}  // namespace causeway::passes
