// How parameters, optimizer state and activations of language models lie over a mesh of the axes dp, fsdp, cp and tp
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
  kFfn,
  kPositions,
};

struct ParameterDim {
  int64_t size = 0;
  LogicalDim logical = LogicalDim::kWidth;
};

// Which dimension of a weight each axis cuts: tp the one that the table in the source gives it, where it divides; fsdp
// the first that divides after that. What does not divide stays whole.
Sharding weight_sharding(const std::vector<ParameterDim>& dims, const Mesh& mesh);

// Of a moment, or a sum of gradients, of a weight that lies so: cut over dp too, along the first dimension that divides
// and that fsdp does not cut, so that each rank updates a part of what it holds of the weight.
Sharding optimizer_sharding(const Shape& shape, const Sharding& weight, const Mesh& mesh);

// Of the tokens of a batch [rows, sequence]: rows over dp and fsdp, positions over cp.
Sharding batch_sharding(const Mesh& mesh);

// Of the residual stream [rows, sequence, width]: as the batch, and positions over tp too (sequence parallelism), as
// far as the sizes divide.
Sharding stream_sharding(const Shape& shape, const Mesh& mesh);

}  // namespace causeway::model
