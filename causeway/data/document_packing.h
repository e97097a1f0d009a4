// Whole documents in samples: each document is in one sample, with as many others as fit beside it, and what is left of
// the sample is padding. Best-fit decreasing (Johnson 1973), as sequence packing of language models has it (Krell et
// al., arXiv 2107.02027; Ding et al., arXiv 2404.10830).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "causeway/data/sample_order.h"
#include "causeway/data/token_dataset.h"

namespace causeway::data {

// Which documents share a sample follows from the documents' lengths alone: they do not attend to each other, so that
// it makes no difference to what a model learns from each of them, and only the samples are visited in another order in
// each epoch. A document of n tokens has n - 1 targets and takes as many positions of a sample. One that is longer than
// a sequence is cut into pieces of sequence_length positions, the last one shorter; one of a single token has no target
// and is left out, and so is a piece of which the dataset says that nothing is a target. Documents are packed in groups
// of neighbours, of kLeastGroupPieces pieces and kLeastGroupSamples samples' positions at least.
//
// Takes 12 bytes for each piece and 8 for each sample.
class DocumentPacking {
 public:
  static constexpr uint64_t kLeastGroupPieces = uint64_t{1} << 16;
  static constexpr uint64_t kLeastGroupSamples = 256;

  // Of one source of the dataset, which is not kept. Reads all tokens of files that have no table of documents. Throws
  // Error(kInvalidArgument) naming the source when its files do not tell where documents begin, when no document has
  // two tokens, and when sequence_length is not from 1 to 2^31 - 1.
  DocumentPacking(const TokenDataset& dataset, size_t source, int64_t sequence_length);

  uint64_t sample_count() const { return first_pieces_.size() - 1; }
  // The documents of a sample, or pieces of them, as windows of the dataset; together they have at most sequence_length
  // targets.
  std::vector<SampleWindow> windows(uint64_t sample) const;

  uint64_t documents() const { return documents_; }          // that have a target
  uint64_t cut_documents() const { return cut_documents_; }  // of them, those that are longer than a sequence
  // Pieces that were left out for want of a target.
  uint64_t pieces_without_target() const { return pieces_without_target_; }
  // The share of all samples' positions that hold no token.
  double padding() const;

 private:
  struct Piece {
    uint64_t offset = 0;     // of the first token
    uint32_t positions = 0;  // one less than tokens
  };
  void add_sample(const std::vector<Piece>& pieces);
  void pack(std::vector<Piece>& group);

  uint32_t sequence_length_;
  // Of the pieces, those of a sample one after another.
  std::vector<uint64_t> offsets_;
  std::vector<uint32_t> positions_;
  std::vector<uint64_t> first_pieces_ = {0};  // of each sample, and the number of pieces
  uint64_t filled_positions_ = 0;
  uint64_t documents_ = 0;
  uint64_t cut_documents_ = 0;
  uint64_t pieces_without_target_ = 0;
};

// The endless training order over the packed documents of a source; see SampleOrder.
class PackedOrder {
 public:
  // Throws what DocumentPacking throws.
  PackedOrder(const TokenDataset& dataset, size_t source, int64_t sequence_length, uint64_t seed)
      : packing_(std::make_shared<const DocumentPacking>(dataset, source, sequence_length)),
        epochs_(packing_->sample_count(), seed, source) {}

  uint64_t samples_per_epoch() const { return epochs_.samples_per_epoch(); }
  // Sample number `sample` of the run, from 0, in windows of the dataset.
  std::vector<SampleWindow> windows(uint64_t sample) const;
  const DocumentPacking& packing() const { return *packing_; }

 private:
  std::shared_ptr<const DocumentPacking> packing_;  // shared by copies
  EpochOrder epochs_;
};

}  // namespace causeway::data
