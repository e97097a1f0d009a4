// What is in a token dataset, with every byte of it checked: what "causeway data inspect" shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "causeway/data/token_dataset.h"
#include "causeway/formats/dataset_manifest.h"
#include "causeway/formats/token_shard.h"

namespace causeway::data {

struct ShardInspection {
  std::filesystem::path path;
  ShardFormat format = ShardFormat::kCauseway;
  int token_bytes = 0;
  uint64_t tokens = 0;
  uint64_t documents = 0;  // that start in the shard, 0 where the format cannot tell
  uint64_t targets = 0;    // all tokens, where the shard does not say
  int32_t largest_token = 0;
  std::string hash;           // of the tokens, computed
  bool hash_checked = false;  // against a stored one: only Causeway's format has it
};

struct SplitInspection {
  std::string name;  // empty where a file was named
  uint64_t tokens = 0;
  uint64_t documents = 0;
  uint64_t targets = 0;
  std::vector<ShardInspection> shards;
};

struct DatasetInspection {
  std::optional<TokenizerIdentity> tokenizer;
  std::optional<DocumentTokens> documents;
  std::optional<TargetsRecord> targets;  // nothing where all tokens are
  bool holds_pairs = false, holds_prompts = false;
  std::vector<SourceFile> sources;
  std::vector<SplitInspection> splits;
  std::vector<std::string> left_out;  // files of a directory that are of no split, each as "PATH: why"
};

// Some tokens of a dataset as text.
struct TextSample {
  uint64_t position = 0;  // of the first token, in the dataset
  std::vector<int32_t> ids;
  std::string text;
  // Of a dataset that says which tokens are targets: the text in pieces, those that are and those that are not.
  struct Piece {
    bool is_target = false;
    std::string text;
    float weight = 1;  // of a target in the loss
  };
  std::vector<Piece> pieces;
  std::string side = {};  // of a preference pair: "chosen" or "rejected"
};

// `count` pieces of at most `tokens` tokens, from places that lie evenly over the dataset; where it says which tokens
// are targets, whole documents in place of them (of preference pairs both sides of as many pairs), of which no more
// than kMostSampleTokens are shown. Throws Error(kInvalidArgument) where an id is beyond the tokenizer's vocabulary.
constexpr uint64_t kMostSampleTokens = 8192;
std::vector<TextSample> sample_texts(const TokenDataset& dataset, const Tokenizer& tokenizer, uint64_t count,
                                     uint64_t tokens);

// Reads all of the dataset at `path` (as TokenDataset::open takes it; of a directory, every split).
// Throws Error for the first thing wrong: a damaged shard, or a token beyond the tokenizer's vocabulary, naming its
// shard and position. `on_shard` is called after each shard.
DatasetInspection inspect_dataset(const std::filesystem::path& path,
                                  const std::function<void(const ShardInspection&)>& on_shard = {},
                                  const TokenDatasetOptions& options = {});

}  // namespace causeway::data
