// The preference pairs of a dataset, each two neighbouring documents, and the order in which training visits them. A
// sample is one side of a pair: sample 2k is the chosen one and sample 2k + 1 the rejected one of the same pair, each
// in a row of its own, so that a pair stands in neighbouring rows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "causeway/data/sample_order.h"
#include "causeway/data/token_dataset.h"

namespace causeway::data {

// Takes 24 bytes for each pair.
class DocumentPairs {
 public:
  // Of one source of the dataset, which is not kept. Throws Error(kInvalidArgument) naming the source when it holds no
  // pairs, when a document has no partner, and when a document has more than sequence_length + 1 tokens (with how many
  // have), or more than sequence_length where `all_are_inputs`, its last token too (BatchOptions::all_are_inputs).
  DocumentPairs(const TokenDataset& dataset, size_t source, int64_t sequence_length, bool all_are_inputs = false);

  uint64_t count() const { return offsets_.size() / 2; }
  uint64_t samples() const { return offsets_.size(); }
  SampleWindow window(uint64_t sample) const;

 private:
  std::vector<uint64_t> offsets_;  // of each document's first token
  std::vector<uint32_t> tokens_;
};

// The endless training order over the pairs of a source: in each epoch by a permutation of its own, keyed by (seed,
// source, epoch).
class PairOrder {
 public:
  // Throws what DocumentPairs throws.
  PairOrder(const TokenDataset& dataset, size_t source, int64_t sequence_length, uint64_t seed,
            bool all_are_inputs = false)
      : pairs_(std::make_shared<const DocumentPairs>(dataset, source, sequence_length, all_are_inputs)),
        epochs_(pairs_->count(), seed, source) {}

  uint64_t samples_per_epoch() const { return pairs_->samples(); }
  std::vector<SampleWindow> windows(uint64_t sample) const;
  const DocumentPairs& pairs() const { return *pairs_; }

 private:
  std::shared_ptr<const DocumentPairs> pairs_;  // shared by copies
  EpochOrder epochs_;
};

}  // namespace causeway::data
