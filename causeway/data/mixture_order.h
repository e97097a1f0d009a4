// Training on several datasets at once, each with a weight: which source a sample is from, and which sample of that
// source, as a pure function of (seed, sample number). The position in all of them is one integer.
#pragma once

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "causeway/data/document_packing.h"
#include "causeway/data/document_pairs.h"
#include "causeway/data/document_prompts.h"
#include "causeway/data/packing.h"
#include "causeway/data/sample_order.h"
#include "causeway/data/token_dataset.h"

namespace causeway::data {

// Deals samples out to sources by their weights. After any number of samples each source has had its share of them
// rounded up or down, give or take one. No memory of the samples dealt, O(log sources) time.
//
// The sources are the leaves of a Huffman tree of their weights (Huffman 1952). At a node, the first n samples that
// come there go to its heavier child as often as round(n * share of the child) says, which grows by 0 or 1 with n. The
// rounding is at most 1/2 from the share, and is scaled by the shares further down: a child that is no leaf has at most
// 2/3 of its parent, so that all of them together stay below 1/2 + 1/3 + 2/9 + ... and a last 1/2, that is below 2.
class SourceShares {
 public:
  // Weights are positive and finite; only their ratios count.
  explicit SourceShares(std::span<const double> weights);

  size_t source_count() const { return (nodes_.size() + 1) / 2; }
  struct Turn {
    size_t source = 0;
    uint64_t number = 0;  // of the source's samples, from 0
  };
  Turn turn(uint64_t sample) const;
  // How many of the first `samples` samples each source has.
  std::vector<uint64_t> counts(uint64_t samples) const;

 private:
  struct Node {
    uint64_t heavier_share = 0;  // of the node's samples that go to its heavier child, in 2^-64
    // Leaves come first, in the order of the sources, and have neither.
    size_t heavier = 0, lighter = 0;
  };
  bool is_leaf(size_t node) const { return node < source_count(); }
  static uint64_t of_heavier(const Node& node, uint64_t samples);

  std::vector<Node> nodes_;  // the root last
};

// How samples of preference pairs and of prompts are made of a dataset's documents.
struct GroupedSamples {
  bool all_are_inputs = false;    // of a side of a pair: BatchOptions::all_are_inputs
  uint64_t completions = 1;       // of a prompt, each a sample
  int64_t completion_tokens = 0;  // of each at most, for which a row has room behind the prompt
};

// The endless training order over the sources of a joined dataset: each has an order of its own, with its own
// permutation for each of its epochs, and is taken from as SourceShares says. The first source has the order that it
// would have alone. Of preference pairs a sample is one side (PairOrder), of prompts one of a prompt's completions
// (PromptOrder); pairs and the completions of a prompt are dealt out whole, and nothing is packed.
class MixtureOrder {
 public:
  // A weight for each of dataset.sources(). Throws Error(kInvalidArgument) when sequence_length is not positive or a
  // source does not fill one window, cannot be packed (DocumentPacking) or has pairs or prompts that do not fit
  // (DocumentPairs, DocumentPrompts), naming it.
  MixtureOrder(const TokenDataset& dataset, std::span<const double> weights, int64_t sequence_length, uint64_t seed,
               Packing packing = Packing::kWindows, const GroupedSamples& grouped = {});

  const SourceShares& shares() const { return shares_; }
  uint64_t samples_per_epoch(size_t source) const;
  // Of all sources together.
  uint64_t samples_per_epoch() const { return samples_per_epoch_; }
  // Sample number `sample` of the run, from 0: a window of the joined dataset, or several, that lie within one source,
  // and the epoch of that source.
  std::vector<SampleWindow> windows(uint64_t sample) const;
  // How a source's documents are packed; nullptr where they are not.
  const DocumentPacking* packing(size_t source) const;
  // Its pairs; nullptr where it has none.
  const DocumentPairs* pairs(size_t source) const;
  // Its prompts; nullptr where it has none.
  const DocumentPrompts* prompts(size_t source) const;

 private:
  SourceShares shares_;
  std::vector<std::variant<SampleOrder, PackedOrder, PairOrder, PromptOrder>> orders_;
  std::vector<uint64_t> offsets_;  // by which the windows of each order are shifted
  uint64_t samples_per_epoch_ = 0;
  uint64_t samples_of_turn_ = 1;  // 2 of pairs, of prompts as many as a prompt has completions
};

}  // namespace causeway::data
