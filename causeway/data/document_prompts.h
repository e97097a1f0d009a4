// The prompts of a dataset (prepare with --prompts), each a document: the tokens of the prompt, and behind them, as
// targets, its record as a line of JSON. A prompt is answered several times; a sample is one of these completions, and
// those of one prompt are neighbours.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "causeway/data/sample_order.h"
#include "causeway/data/token_dataset.h"

namespace causeway::data {

// Takes 16 bytes for each prompt.
class DocumentPrompts {
 public:
  // Of one source of the dataset, which is not kept. Throws Error(kInvalidArgument) naming the source when it holds no
  // prompts, and when a prompt has more than `longest` tokens (with how many have); Error(kCorrupt) for a document that
  // is no prompt with a record.
  DocumentPrompts(const TokenDataset& dataset, size_t source, int64_t longest);

  uint64_t count() const { return offsets_.size(); }
  // The tokens of a prompt, without its record.
  SampleWindow window(uint64_t number) const;
  // The prompt whose first token is there.
  std::optional<uint64_t> number_at(uint64_t offset) const;

  // The record that prompt was prepared from. Throws Error(kCorrupt) naming the prompt where its text is no JSON
  // object.
  nlohmann::ordered_json record(const TokenDataset& dataset, const Tokenizer& tokenizer, uint64_t number) const;
  // For messages: "prompt 3 of data/prompts", counted from 1.
  std::string name(uint64_t number) const;

 private:
  std::string source_;
  std::vector<uint64_t> offsets_;  // of each document's first token
  std::vector<uint32_t> prompt_tokens_, record_tokens_;
};

// The endless training order over the prompts of a source: in each epoch by a permutation of its own, keyed by (seed,
// source, epoch). Samples n k to n k + n - 1 are the n completions of one prompt.
class PromptOrder {
 public:
  // Throws what DocumentPrompts throws.
  PromptOrder(const TokenDataset& dataset, size_t source, int64_t longest, uint64_t completions, uint64_t seed)
      : prompts_(std::make_shared<const DocumentPrompts>(dataset, source, longest)),
        completions_(completions),
        epochs_(prompts_->count(), seed, source) {}

  uint64_t samples_per_epoch() const { return prompts_->count() * completions_; }
  std::vector<SampleWindow> windows(uint64_t sample) const;
  const DocumentPrompts& prompts() const { return *prompts_; }

 private:
  std::shared_ptr<const DocumentPrompts> prompts_;  // shared by copies
  uint64_t completions_;
  EpochOrder epochs_;
};

}  // namespace causeway::data
