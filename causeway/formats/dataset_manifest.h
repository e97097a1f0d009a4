// What a token dataset says about itself: the tokenizer that made it, the files it came from, and its shards. Each
// native shard carries the first two; dataset.json in the dataset's directory carries all three.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

struct TokenizerIdentity {
  std::string name;
  std::string fingerprint;
  int64_t vocabulary_size = 0;
  std::optional<int32_t> end_of_text;
  bool operator==(const TokenizerIdentity&) const = default;
};

// What stands around the text of each document, ids in order, and how the text was read.
struct DocumentTokens {
  std::vector<int32_t> before, after;  // `after` ends with the end of a text, where there is one
  bool read_special_tokens = false;
  bool operator==(const DocumentTokens&) const = default;
};

// A file that text was read from; `hash` is hash_bytes of its content, compressed as it lies. A shard names its files
// only, without size and hash: it may be written before they have been read to the end.
struct SourceFile {
  std::string path;
  uint64_t bytes = 0;
  std::string hash;
  bool operator==(const SourceFile&) const = default;
};

struct ShardMetadata {
  TokenizerIdentity tokenizer;
  std::vector<SourceFile> sources;
  // Not known of ids that somebody else's program made. Of text that was prepared before it was recorded, nothing
  // stands before each document.
  std::optional<DocumentTokens> documents = std::nullopt;
  bool holds_pairs = false, holds_prompts = false;  // as of a dataset
  // What targets weigh in the loss, for which their bytes stand: 0, 1 and then others. Empty: none has another weight.
  std::vector<float> target_weights = {};
};
// As many as there are bytes.
constexpr size_t kMostTargetWeights = 256;

struct ShardEntry {
  std::string file;  // a name in the dataset's directory
  uint64_t tokens = 0;
  std::string hash;               // of the tokens, as in the shard's header
  std::string targets_hash = {};  // of which of them are targets, likewise; empty where all are
};

// How a dataset came to say which of its tokens are targets.
struct TargetsRecord {
  std::string rule;  // of the turns of a chat: "all", "last"
  // The chat templates that conversations were rendered with; empty where none was rendered.
  struct Template {
    std::string name, text;
    bool operator==(const Template&) const = default;
  };
  std::vector<Template> templates;
  std::string date;                 // that templates were told; empty where none asked for it
  uint64_t max_length = 0;          // tokens that were kept of a sample; 0: all
  std::string truncation;           // "left" or "right": the side that was cut; empty where none was
  std::vector<float> weights = {};  // of targets, other than 1, increasing
  bool operator==(const TargetsRecord&) const = default;
};

struct SplitEntry {
  uint64_t tokens = 0;
  uint64_t documents = 0;
  std::vector<ShardEntry> shards;
  uint64_t targets = 0;  // of the tokens, where the dataset says which are
};

struct DatasetManifest {
  TokenizerIdentity tokenizer;
  std::vector<SourceFile> sources;
  std::map<std::string, SplitEntry> splits;  // "train", "validation"
  std::optional<DocumentTokens> documents = std::nullopt;
  std::optional<TargetsRecord> targets = std::nullopt;  // nothing where all tokens are
  // Documents are preference pairs: the completion that was chosen with its prompt, then the rejected one.
  bool holds_pairs = false;
  // Documents are prompts that are to be answered, and behind each, as targets, its record as a line of JSON.
  bool holds_prompts = false;
};

constexpr std::string_view kManifestFileName = "dataset.json";
// The directory, inside the dataset's, with the tokenizer's own files (see Tokenizer::save).
constexpr std::string_view kTokenizerDirectoryName = "tokenizer";

// What a manifest says of its targets, as it stands there.
nlohmann::ordered_json targets_to_json(const TargetsRecord& targets);

// JSON text of each, and back. Parsing throws Error(kCorrupt) naming `where` and what is missing or wrong.
std::string print_shard_metadata(const ShardMetadata& metadata);
ShardMetadata parse_shard_metadata(std::string_view text, const std::string& where);
std::string print_manifest(const DatasetManifest& manifest);
DatasetManifest parse_manifest(std::string_view text, const std::string& where);

}  // namespace causeway::formats
