#include "causeway/data/split_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::data {

SplitWriter::SplitWriter(std::filesystem::path directory, std::string name, uint64_t tokens_per_shard,
                         TokenizerIdentity tokenizer, const std::optional<DocumentTokens>& documents,
                         const std::vector<SourceFile>& sources, bool has_targets, const bool& holds_pairs,
                         bool holds_prompts)
    : directory_(std::move(directory)),
      name_(std::move(name)),
      tokens_per_shard_(tokens_per_shard),
      tokenizer_(std::move(tokenizer)),
      documents_(documents),
      sources_(sources),
      has_targets_(has_targets),
      holds_pairs_(holds_pairs),
      holds_prompts_(holds_prompts) {}

uint8_t SplitWriter::byte_of(float weight) {
  const auto known = std::ranges::find(weights_, weight);
  if (known == weights_.end() && weights_.size() == kMostTargetWeights)
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the conversations have more than {} different weights of turns", kMostTargetWeights - 1),
                "weight", "Round them, to hundredths for example.");
  if (known == weights_.end()) {
    weights_.push_back(weight);
    return static_cast<uint8_t>(weights_.size() - 1);
  }
  return static_cast<uint8_t>(known - weights_.begin());
}

void SplitWriter::append(std::span<const int32_t> ids, std::span<const float> weights, bool starts_document,
                         size_t source) {
  target_bytes_.clear();
  for (const float weight : weights) target_bytes_.push_back(byte_of(weight));
  std::span<const uint8_t> targets = target_bytes_;
  entry_.targets += targets.size() - static_cast<uint64_t>(std::ranges::count(targets, uint8_t{0}));
  while (!ids.empty()) {
    if (!builder_) {
      builder_.emplace(TokenShardBuilder::token_bytes_for(tokenizer_.vocabulary_size), !starts_document, has_targets_);
      shard_sources_.clear();
    }
    if (starts_document) {
      builder_->start_document();
      ++entry_.documents;
      starts_document = false;
    }
    if (shard_sources_.empty() || shard_sources_.back() != source) shard_sources_.push_back(source);
    const size_t count = std::min<size_t>(ids.size(), tokens_per_shard_ - builder_->token_count());
    builder_->append(ids.first(count), has_targets_ ? targets.first(count) : targets);
    entry_.tokens += count;
    ids = ids.subspan(count);
    if (has_targets_) targets = targets.subspan(count);
    if (builder_->token_count() == tokens_per_shard_) flush();
  }
}

void SplitWriter::flush() {
  if (!builder_) return;
  // A source's size and hash are known when it has been read to its end; the dataset's description has them.
  ShardMetadata metadata{tokenizer_, {}, documents_, holds_pairs_, holds_prompts_};
  if (weights_.size() > 2) metadata.target_weights = weights_;
  for (const size_t source : shard_sources_) metadata.sources.push_back({sources_[source].path, 0, {}});
  const std::string file = fmt::format("{}-{:05}.tokens", name_, entry_.shards.size());
  const TokenShardBuilder::Written hashes = builder_->write(directory_ / file, metadata);
  entry_.shards.push_back(
      {file, builder_->token_count(), hashes.tokens.hex(), has_targets_ ? hashes.targets.hex() : std::string()});
  builder_.reset();
}

}  // namespace causeway::data
