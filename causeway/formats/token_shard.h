// Token shards: files of token ids. Five formats are read, one is written.
//
// Causeway's own (.tokens), little-endian throughout:
//   offset  0  char[8]  "CAUSETOK"
//           8  u32      version: 1, 2 with targets, 3 with targets that have weights
//          12  u32      bytes per token: 1, 2 or 4 (unsigned)
//          16  u64      tokens
//          24  u64      documents that start in this shard
//          32  u64      bytes of metadata
//          40  u64      flags; bit 0: the first tokens continue the previous shard's last document; bit 1: the shard
//          says
//                       of each token whether it is a target; bit 2: and what it weighs in the loss
//          48  u64[2]   hash of the target section (XXH3-128, high half first); zero without one
//          64  u64[2]   hash of the token section (XXH3-128, high half first)
//          80  u64[2]   hash of bytes 0..79 of this header, the document section and the metadata, concatenated
//          96  u64[4]   zero
//         128  tokens, then zeros up to a multiple of 8
//              with targets: u8 for each token, 1 where it is a target of training and 0 where it is only read, then
//              zeros up to a multiple of 8; without them all tokens are targets. With weights the byte is the place
//              in "target_weights" of the metadata, a list of f32 that begins with 0 and 1
//              u64 for each document: the index in this shard of its first token, increasing
//              metadata, JSON (dataset_manifest.h)
// llm.c (.bin, karpathy/llm.c, dev/data/data_common.py): 256 i32 {20240520, 1, tokens} then u16 (GPT-2), or
//   {20240801, 7, tokens} then u32 (Llama 3). A document starts at each token 50256, or 128000.
// Megatron (.bin with an .idx of the same name beside it, megatron_index.h): u8, u16 or i32 without a header; the .idx
//   says which, and where documents start.
// nanoGPT (.bin, karpathy/nanoGPT, data/*/prepare.py): u16 without a header. A document ends with each token 50256.
//   Ids of 8 or 32 bits without a header are read so too where the caller says how wide they are; nothing tells where
//   their documents are.
// MDS (mds_index.h): shards of StreamingDataset whose samples have a column of token ids. A sample is a document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/hash.h"
#include "causeway/base/positioned_file.h"
#include "causeway/formats/dataset_manifest.h"
#include "causeway/formats/mds_index.h"

namespace causeway::formats {

enum class ShardFormat { kCauseway, kLlmC, kNanoGpt, kMegatron, kMds };

// "causeway", "llm.c", "nanoGPT", "Megatron", "MDS".
std::string_view shard_format_name(ShardFormat format);

class TokenShard {
 public:
  // Opens the file and checks everything but the tokens themselves; the format is told by the first bytes, then by an
  // .idx beside the file, then by the extension .bin: nanoGPT's, whose content must look like 16-bit ids
  // (headerless_tokens.h). `token_bytes` says how wide the ids of a file without a header are (1, 2 or 4), which is
  // then believed; 0 leaves it to the file. Throws Error naming the path when the file is missing, empty, cut short or
  // damaged, of no known format, or says itself that its ids have another width than `token_bytes`.
  static TokenShard open(const std::filesystem::path& path, int token_bytes = 0);
  // A shard of an MDS dataset in `file`, uncompressed; messages name `path`. The ids are arrays of integers (ndarray)
  // in `column`, or bytes, of which `token_bytes` says how wide each id is (1, 2, 4 or 8). What the file says of its
  // samples is read, and the ids are not. Throws Error naming the path: kCorrupt where the file is not the shard that
  // the index describes, kInvalidArgument where samples have no such column, kUnsupported where that holds no token ids
  // ("pkl" is never decoded) or arrays of different types.
  static TokenShard open_mds(PositionedFile file, const std::filesystem::path& path, const MdsShard& shard,
                             const std::string& column, int token_bytes = 0);

  const std::filesystem::path& path() const { return path_; }
  ShardFormat format() const { return format_; }
  uint64_t token_count() const { return token_count_; }
  int token_bytes() const { return token_bytes_; }
  // The tokens [position, position + ids.size()), which must lie inside the shard. This and all other reading throws
  // Error(kCorrupt) naming the file when it was changed since it was opened, and of MDS Error(kInvalidArgument) naming
  // the sample where an id is negative or beyond 2^31 - 1.
  void read(uint64_t position, std::span<int32_t> ids) const;
  int32_t token(uint64_t position) const;

  // Whether the shard says which of its tokens are targets; otherwise all are.
  bool has_targets() const { return targets_offset_ > 0; }
  // For each token of [position, position + targets.size()): 1 where it is a target, else 0. Throws Error(kCorrupt)
  // naming the token where the shard says something else.
  void read_targets(uint64_t position, std::span<uint8_t> targets) const;
  // Whether targets have weights other than 1.
  bool has_target_weights() const { return !metadata_.target_weights.empty(); }
  // The same: what each weighs in the loss, 0 where it is no target.
  void read_target_weights(uint64_t position, std::span<float> weights) const;

  // Whether a document starts at `position`. For a nanoGPT shard's position 0 that depends on the shard before it:
  // `last_token_before`, or -1 where there is none.
  bool starts_document(uint64_t position, int32_t last_token_before) const;
  // The same for each position of [position, position + starts.size()): 1 where a document starts, else 0.
  void read_document_starts(uint64_t position, int32_t last_token_before, std::span<int32_t> starts) const;
  // Calls `visit` with each position at which a document starts, in order: from the table, and where the format has
  // none by reading all.
  void visit_document_starts(int32_t last_token_before, const std::function<void(uint64_t position)>& visit) const;
  // Documents that start in this shard by its table; for the formats without a table, the number found by reading all.
  uint64_t document_count() const;
  // Whether the file tells where documents start.
  bool knows_documents() const { return format_ != ShardFormat::kNanoGpt || delimiter_ >= 0; }

  // Causeway's format only: what the shard says of its origin; nullptr for the others.
  const ShardMetadata* metadata() const { return format_ == ShardFormat::kCauseway ? &metadata_ : nullptr; }
  // The hash of the tokens as they now are, and (Causeway's format) as the header says, or (MDS) of what the index says
  // of the shard. verify() throws Error(kCorrupt) when they differ, or when a hash of the index is not the shard's.
  Hash128 hash_tokens() const;
  Hash128 stored_hash() const { return stored_hash_; }
  // Of the target section, as the header says; zero without one. verify() checks it too.
  Hash128 stored_targets_hash() const { return stored_targets_hash_; }
  // MDS: whether the index has a hash of the file that verify() computes.
  bool has_checked_hashes() const;
  void verify() const;

 private:
  TokenShard() = default;
  void open_causeway(std::span<const std::byte> beginning);
  void open_llm_c(std::span<const std::byte> beginning);
  void open_headerless(int token_bytes);
  bool open_megatron();
  Hash128 hash_section(uint64_t offset, uint64_t bytes) const;
  void read_target_bytes(uint64_t position, std::span<uint8_t> bytes) const;
  void read_mds_samples(const MdsShard& shard, const std::string& column, int token_bytes);
  void read_mds_tokens(uint64_t position, std::span<int32_t> ids) const;
  // Whether the starts of documents are in document_starts_.
  bool has_document_table() const {
    return format_ == ShardFormat::kCauseway || format_ == ShardFormat::kMegatron || format_ == ShardFormat::kMds;
  }

  std::filesystem::path path_;
  PositionedFile file_;
  ShardFormat format_ = ShardFormat::kCauseway;
  uint64_t tokens_offset_ = 0;   // in the file
  uint64_t targets_offset_ = 0;  // 0 without targets
  uint64_t token_count_ = 0;
  int token_bytes_ = 0;
  int32_t delimiter_ = -1;
  std::vector<uint64_t> document_starts_;
  Hash128 stored_hash_;
  Hash128 stored_targets_hash_;
  ShardMetadata metadata_;
  // MDS: where in the file the ids of each document are, what they are, and the hashes of the file by its index.
  std::vector<uint64_t> document_offsets_;
  uint8_t dtype_ = 0;
  std::map<std::string, std::string> named_hashes_;
};

// Collects one shard's tokens in memory and writes it.
class TokenShardBuilder {
 public:
  // The narrowest width that holds the ids of a vocabulary of this size: 1, 2 or 4 bytes.
  static int token_bytes_for(int64_t vocabulary_size);

  // `continues`: the first tokens appended belong to the previous shard's last document. `has_targets`: the shard says
  // of each token whether it is a target.
  TokenShardBuilder(int token_bytes, bool continues, bool has_targets = false);

  // A document starts with the next token appended.
  void start_document();
  // Ids must fit the width. `targets`: for each of them 1 where it is a target, else 0, or a place in the weights of
  // the metadata that write() is given; empty where the shard does not say.
  void append(std::span<const int32_t> ids, std::span<const uint8_t> targets = {});
  uint64_t token_count() const { return token_count_; }
  uint64_t document_count() const { return document_starts_.size(); }

  struct Written {
    Hash128 tokens;
    Hash128 targets;  // zero without them
  };
  // Writes the shard, whole or not at all, and returns the hashes of its sections. Call once; at least one token.
  Written write(const std::filesystem::path& path, const ShardMetadata& metadata);

 private:
  int token_bytes_;
  bool continues_;
  bool has_targets_;
  uint64_t token_count_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<uint8_t> targets_;
  std::vector<uint64_t> document_starts_;
};

}  // namespace causeway::formats
