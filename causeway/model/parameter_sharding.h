// How parameters, optimizer state and activations of language models lie over a mesh of the axes cp, tp, fsdp and dp
// (any of them may be missing). Methods: tensor parallelism, Shoeybi et al., arXiv 1909.08053; sequence parallelism,
// Korthikanti et al., 2205.05198; cut weights and optimizer state, Rajbhandari et al., 1910.02054.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/graph/sharding.h"
#include "causeway/namespaces.h"

namespace causeway::model {

// What a dimension of a parameter counts.
enum class LogicalDim {
  kVocabulary,
  kLookup,    // the vocabulary of an embedding that is no output layer: rows are found there, and nothing is multiplied
  kWidth,     // the residual stream
  kHeads,     // query heads x their size
  kKeyHeads,  // key and value heads x their size
  kHeadsOfThree,  // queries, keys and values one after another, each heads x their size
  kHead,          // the channels of one head
  kFfn,
  kPositions,
  kRank,     // of an adapter
  kExperts,  // of a layer
};

struct ParameterDim {
  int64_t size = 0;
  LogicalDim logical = LogicalDim::kWidth;
};

// Which dimension of a weight each axis cuts: tp the one that the table in the source gives it, where it divides; fsdp
// the first that divides after that, then cp and dp the first that divides after those. What does not divide stays
// whole, and so do vectors along these three: they are next to nothing to hold, and a collective of its own for each
// costs time.
// Optimizer state and sums of gradients lie as their weight.
Sharding weight_sharding(const std::vector<ParameterDim>& dims, const Mesh& mesh);

// The share of its stage's weights, moments and sums of gradients that a rank holds at least: that of a weight of which
// all dimensions divide, cut as weight_sharding() cuts it. Above 0 and at most 1.
double held_share(const Mesh& mesh);

// Of the tokens of a batch [rows, sequence]: rows over fsdp and dp, positions over cp.
Sharding batch_sharding(const Mesh& mesh);

// Of tokens [rows, sequence, ...] whose positions tp does not cut: as the batch, as far as the sizes divide.
Sharding token_sharding(const Shape& shape, const Mesh& mesh);

// Of the residual stream [rows, sequence, width]: as the batch, and positions over tp too (sequence parallelism), as
// far as the sizes divide.
Sharding stream_sharding(const Shape& shape, const Mesh& mesh);

}  // namespace causeway::model
