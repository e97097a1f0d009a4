#include "causeway/data/inspect.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/data/token_dataset.h"

namespace causeway::data {
namespace {

uint64_t count_targets(const TokenShard& shard) {
  if (!shard.has_targets()) return shard.token_count();
  uint64_t count = 0;
  std::vector<uint8_t> targets(1 << 16);
  for (uint64_t position = 0; position < shard.token_count(); position += targets.size()) {
    targets.resize(std::min<uint64_t>(targets.size(), shard.token_count() - position));
    shard.read_targets(position, targets);
    count += static_cast<uint64_t>(std::ranges::count(targets, uint8_t{1}));
  }
  return count;
}

ShardInspection inspect_shard(const TokenShard& shard, int64_t vocabulary_size) {
  shard.verify();
  ShardInspection result;
  result.path = shard.path();
  result.format = shard.format();
  result.token_bytes = shard.token_bytes();
  result.tokens = shard.token_count();
  result.documents = shard.document_count();
  result.targets = count_targets(shard);
  result.hash = shard.hash_tokens().hex();
  result.hash_checked = shard.format() == ShardFormat::kCauseway || shard.has_checked_hashes();
  std::vector<int32_t> ids(1 << 16);
  for (uint64_t position = 0; position < shard.token_count(); position += ids.size()) {
    ids.resize(std::min<uint64_t>(ids.size(), shard.token_count() - position));
    shard.read(position, ids);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (vocabulary_size > 0 && static_cast<int64_t>(static_cast<uint32_t>(ids[i])) >= vocabulary_size) {
        throw Error(ErrorKind::kCorrupt,
                    fmt::format("token id {} is beyond the tokenizer's vocabulary of {}", static_cast<uint32_t>(ids[i]),
                                vocabulary_size),
                    fmt::format("{}, token {}", shard.path().string(), position + i), "Prepare the dataset again.");
      }
      result.largest_token = std::max(result.largest_token, ids[i]);
    }
  }
  return result;
}

void add_sources(const TokenShard& shard, std::vector<SourceFile>& sources) {
  if (shard.metadata() == nullptr) return;
  for (const SourceFile& source : shard.metadata()->sources) {
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
  }
}

// The splits that a directory has; one without a name for a file.
std::vector<std::string> split_names(const std::filesystem::path& path, const TokenDatasetOptions& options) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code)) return {""};
  std::vector<std::string> names;
  if (std::filesystem::exists(path / kManifestFileName, code)) {
    const std::filesystem::path manifest = path / kManifestFileName;
    for (const auto& [name, split] : parse_manifest(read_text_file(manifest), manifest.string()).splits) {
      names.push_back(name);
    }
    return names;
  }
  for (const std::string_view split : {kTrainSplit, kValidationSplit}) {
    try {
      TokenDataset::open(path, split, options);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kNotFound) continue;
      throw;
    }
    names.emplace_back(split);
  }
  if (names.empty()) TokenDataset::open(path, kTrainSplit, options);  // throws, saying what is missing
  return names;
}

struct Window {
  uint64_t position = 0;
  uint64_t tokens = 0;
};

// Number `i` of `count` that lie evenly over `size`. In this order the product cannot overflow.
uint64_t even_place(uint64_t size, uint64_t count, uint64_t i) { return size / count * i + size % count * i / count; }

std::vector<Window> windows_of_tokens(const TokenDataset& dataset, uint64_t count, uint64_t tokens) {
  std::vector<Window> windows;
  count = std::min(count, dataset.token_count());
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t position = even_place(dataset.token_count(), count, i);
    windows.push_back({position, std::min(tokens, dataset.token_count() - position)});
  }
  return windows;
}

std::vector<Window> windows_of_documents(const TokenDataset& dataset, uint64_t count) {
  std::vector<Window> documents;
  for (const TokenDataset::Source& source : dataset.sources())
    dataset.visit_documents(source, [&](uint64_t offset, uint64_t tokens) {
      documents.push_back({offset, std::min(tokens, kMostSampleTokens)});
    });
  std::vector<Window> windows;
  const uint64_t sides = dataset.holds_pairs() ? 2 : 1, groups = documents.size() / sides;
  count = std::min<uint64_t>(count, groups);
  for (uint64_t i = 0; i < count; ++i)
    for (uint64_t side = 0; side < sides; ++side)
      windows.push_back(documents[even_place(groups, count, i) * sides + side]);
  return windows;
}

// A piece is what decoding its tokens adds to what stands before them: a decoder may treat the first token unlike the
// others.
void add_pieces(const TokenDataset& dataset, const Tokenizer& tokenizer, TextSample& sample) {
  std::vector<float> weights(sample.ids.size());
  dataset.read_target_weights(sample.position, weights);
  size_t shown = 0;
  for (size_t begin = 0; begin < weights.size();) {
    size_t end = begin;
    while (end < weights.size() && weights[end] == weights[begin]) ++end;
    const std::string before = tokenizer.decode(std::span(sample.ids).first(end));
    const size_t from = std::min(shown, before.size());
    sample.pieces.push_back({weights[begin] > 0, before.substr(from), weights[begin]});
    shown = before.size();
    begin = end;
  }
}

}  // namespace

std::vector<TextSample> sample_texts(const TokenDataset& dataset, const Tokenizer& tokenizer, uint64_t count,
                                     uint64_t tokens) {
  dataset.check_vocabulary(tokenizer.vocabulary_size());
  std::vector<TextSample> samples;
  for (const Window& window :
       dataset.has_targets() ? windows_of_documents(dataset, count) : windows_of_tokens(dataset, count, tokens)) {
    TextSample& sample = samples.emplace_back();
    sample.position = window.position;
    sample.ids.resize(window.tokens);
    dataset.read(sample.position, sample.ids);
    for (const int32_t id : sample.ids) {
      if (static_cast<int64_t>(static_cast<uint32_t>(id)) < tokenizer.vocabulary_size()) continue;
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("token id {} is beyond the vocabulary of the tokenizer \"{}\", {}",
                              static_cast<uint32_t>(id), tokenizer.name(), tokenizer.vocabulary_size()),
                  dataset.path().string(), "Name the tokenizer that made the tokens with --tokenizer.");
    }
    sample.text = tokenizer.decode(sample.ids);
    if (dataset.has_targets()) add_pieces(dataset, tokenizer, sample);
    if (dataset.holds_pairs()) sample.side = samples.size() % 2 == 1 ? "chosen" : "rejected";
  }
  return samples;
}

DatasetInspection inspect_dataset(const std::filesystem::path& path,
                                  const std::function<void(const ShardInspection&)>& on_shard,
                                  const TokenDatasetOptions& options) {
  DatasetInspection result;
  for (const std::string& name : split_names(path, options)) {
    const TokenDataset dataset = TokenDataset::open(path, name, options);
    result.tokenizer = dataset.tokenizer_identity();
    result.left_out = dataset.left_out();
    result.documents = dataset.documents();
    result.targets = dataset.targets();
    result.holds_pairs = dataset.holds_pairs();
    result.holds_prompts = dataset.holds_prompts();
    SplitInspection split;
    split.name = name;
    for (const TokenShard& shard : dataset.shards()) {
      split.shards.push_back(inspect_shard(shard, result.tokenizer ? result.tokenizer->vocabulary_size : 0));
      split.tokens += shard.token_count();
      split.documents += split.shards.back().documents;
      split.targets += split.shards.back().targets;
      add_sources(shard, result.sources);
      if (on_shard) on_shard(split.shards.back());
    }
    result.splits.push_back(std::move(split));
  }
  return result;
}

}  // namespace causeway::data
