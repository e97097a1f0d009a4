// One stream of tokens over any number of shards: what training and evaluation read. Reading is const and may be done
// from many threads at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "causeway/data/split_name.h"
#include "causeway/formats/token_shard.h"
#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::data {

struct TokenDatasetOptions {
  // How wide the ids of files without a header are (TokenShard::open), and those in bytes of MDS.
  int token_bytes = 0;
  std::string column = "tokens";  // of MDS, with the ids
  // Reads every shard that has a hash, to check it.
  bool check_hashes = false;
  // Leaves shards of MDS out that are missing or damaged; otherwise that is an error.
  bool skip_damaged_shards = false;
};

class TokenDataset {
 public:
  // `path` is one of
  //  - a directory that "causeway data prepare" wrote (it holds dataset.json): the split of that name;
  //  - a directory of .bin files by llm.c, nanoGPT or Megatron: those of the split by the words of their names
  //    (split_name.h), in order of name; those of no split are left out;
  //  - a directory of MosaicML's StreamingDataset (MDS, mds_index.h) whose samples have a column of token ids, which is
  //    the split "train"; or one that holds such a directory for each split, named by one of its words.
  //    Compressed shards are decompressed first (mds_decoding.h), others are read where they are;
  //  - a token file (token_shard.h), or a pattern for the last part of the path such as fineweb_train_*.bin: all that
  //  match, in
  //    order of name, whatever `split` says: a file that is named is what the caller wants.
  // Throws Error when nothing is there, when the split is not (naming those that are), when a name is of several
  // splits, and when a shard is damaged or differs from what dataset.json or index.json says of it.
  static TokenDataset open(const std::filesystem::path& path, std::string_view split = kTrainSplit,
                           const TokenDatasetOptions& options = {});

  // Several datasets, the sources of a mixture, as one: their tokens one after the other. Throws
  // Error(kInvalidArgument) naming two of them that were made with different tokenizers, or of which one holds
  // preference pairs or prompts and the other does not.
  static TokenDataset join(std::vector<TokenDataset> datasets);

  uint64_t token_count() const { return token_count_; }
  const std::vector<TokenShard>& shards() const { return shards_; }
  // What was left out, each as "PATH: why": damaged shards, and files of a directory whose names tell no split.
  const std::vector<std::string>& left_out() const { return left_out_; }
  // Where the dataset was opened, or the first of its sources, for messages.
  const std::filesystem::path& path() const { return path_; }
  // What it was joined from; one for a dataset that was opened.
  struct Source {
    std::filesystem::path path;
    uint64_t offset = 0;  // of its first token
    uint64_t token_count = 0;
    std::optional<DocumentTokens> documents = std::nullopt;  // what stands around each of its own, where files say so
  };
  const std::vector<Source>& sources() const { return sources_; }
  // A hash of the shards' formats, sizes and stored hashes: a resumed run compares it to be sure that a data cursor
  // still means the same samples. Does not read the tokens.
  std::string fingerprint() const;

  // The tokens [offset, offset + ids.size()), which must lie inside the dataset.
  void read(uint64_t offset, std::span<int32_t> ids) const;
  // Whether a shard says which of its tokens are targets; of the others all are.
  bool has_targets() const;
  // For each token of the same window: 1 where it is a target, else 0.
  void read_targets(uint64_t offset, std::span<uint8_t> targets) const;
  // Whether a target of some shard weighs something else than 1.
  bool has_target_weights() const;
  // For each token of the same window: what it weighs in the loss, 0 where it is no target.
  void read_target_weights(uint64_t offset, std::span<float> weights) const;
  // Of the tokens of a source, how many are targets. Reads what its shards say of them.
  uint64_t count_targets(const Source& source) const;
  // For each position of the same window, which document it is in, counted from 0 at the window's start: two positions
  // have the same number exactly when they are in the same document. All 0 where a file has no document boundaries.
  void read_document_numbers(uint64_t offset, std::span<int32_t> documents) const;

  // Calls `visit` with each document of a source, in order: the offset of its first token and how many it has. A source
  // whose files do not tell where documents start is one document.
  void visit_documents(const Source& source, const std::function<void(uint64_t offset, uint64_t tokens)>& visit) const;

  // The tokenizer that made the tokens, when the files say so (Causeway's own do).
  const std::optional<TokenizerIdentity>& tokenizer_identity() const { return tokenizer_identity_; }
  // How the dataset came to say which tokens are targets, when it does; of several sources, the first one's.
  const std::optional<TargetsRecord>& targets() const { return targets_; }
  // Whether its documents are preference pairs: one that was chosen with its prompt, and the rejected one behind it.
  bool holds_pairs() const { return holds_pairs_; }
  // Whether its documents are prompts to be answered, each with its record behind it (DocumentPrompts).
  bool holds_prompts() const { return holds_prompts_; }
  // What stands around each document, when the files say so; of several sources, the first one's.
  const std::optional<DocumentTokens>& documents() const { return documents_; }
  // Whether every shard tells where its documents start.
  bool knows_documents() const;
  // The same of those of one source.
  bool knows_documents(const Source& source) const;
  // Throws Error(kInvalidArgument) naming shard and position where one of the first tokens of a shard is at or beyond
  // the vocabulary's size: what is wrong with a whole file shows here, before a run begins.
  void check_vocabulary(int64_t vocabulary_size) const;
  // Loads that tokenizer from what the dataset carries; throws Error when it carries none, or another than its tokens
  // were made with.
  std::unique_ptr<Tokenizer> load_tokenizer() const;

  struct Place {
    const TokenShard* shard;
    uint64_t position;  // in the shard
  };
  Place locate(uint64_t offset) const;

 private:
  // Piece by piece of the shards that a window lies in: read(shard, position in it, piece).
  template <typename T, typename Read>
  void read_pieces(uint64_t offset, std::span<T> values, const Read& read) const;
  static TokenDataset open_shards(const std::filesystem::path& path, std::string_view split,
                                  const TokenDatasetOptions& options);
  void add_shard(TokenShard shard, const TokenDatasetOptions& options);
  void open_mds(const std::filesystem::path& directory, const TokenDatasetOptions& options);
  // The shards of a source: [first, second).
  std::pair<size_t, size_t> shards_of(const Source& source) const;
  void open_prepared(std::string_view split, const TokenDatasetOptions& options);

  std::filesystem::path path_;
  std::vector<TokenShard> shards_;
  std::vector<uint64_t> shard_offsets_;  // of each shard's first token
  uint64_t token_count_ = 0;
  std::vector<Source> sources_;
  std::vector<std::string> left_out_;
  std::optional<TokenizerIdentity> tokenizer_identity_;
  std::optional<DocumentTokens> documents_;
  std::optional<TargetsRecord> targets_;
  bool holds_pairs_ = false, holds_prompts_ = false;
};

// The tokenizer that the dataset at `path` says it was made with, from its description alone: of a prepared directory
// or a native token file. Nothing where there is none, it says none or it cannot be read.
std::optional<TokenizerIdentity> recorded_tokenizer(const std::filesystem::path& path);
// Whether it says that targets have weights other than 1, likewise.
bool records_target_weights(const std::filesystem::path& path);

}  // namespace causeway::data
