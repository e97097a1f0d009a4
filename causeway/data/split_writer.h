// One split of a dataset as it is written, shard by shard.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/formats/dataset_manifest.h"
#include "causeway/formats/token_shard.h"

namespace causeway::data {

class SplitWriter {
 public:
  // Writes `directory`/`name`-00000.tokens and so on. `sources` are those that append() counts; it may grow, and
  // `documents` and `holds_pairs` change before the first shard is written. `has_targets`: the shards say which tokens
  // are targets; `holds_prompts`: as of a dataset.
  SplitWriter(std::filesystem::path directory, std::string name, uint64_t tokens_per_shard, TokenizerIdentity tokenizer,
              const std::optional<DocumentTokens>& documents, const std::vector<SourceFile>& sources, bool has_targets,
              const bool& holds_pairs, bool holds_prompts = false);

  const SplitEntry& entry() const { return entry_; }

  // What targets weigh beside 1, in the order in which they came.
  std::span<const float> other_weights() const { return std::span(weights_).subspan(2); }

  // Tokens of one document, or the next of them; `weights` says what each weighs in the loss, 0 where it is no target,
  // where the shards say which are. Throws Error(kUnsupported) for more different weights than a shard can tell apart.
  void append(std::span<const int32_t> ids, std::span<const float> weights, bool starts_document, size_t source);
  // Writes the last shard.
  void flush();

 private:
  // What stands for a weight in the shards.
  uint8_t byte_of(float weight);

  std::filesystem::path directory_;
  std::string name_;
  uint64_t tokens_per_shard_;
  TokenizerIdentity tokenizer_;
  const std::optional<DocumentTokens>& documents_;
  const std::vector<SourceFile>& sources_;
  bool has_targets_;
  const bool& holds_pairs_;
  bool holds_prompts_;
  SplitEntry entry_;
  std::optional<TokenShardBuilder> builder_;
  std::vector<size_t> shard_sources_;
  std::vector<float> weights_ = {0, 1};
  std::vector<uint8_t> target_bytes_;
};

}  // namespace causeway::data
