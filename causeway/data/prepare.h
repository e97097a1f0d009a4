// Text in, token dataset out: what "causeway data prepare" does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "causeway/data/chat_options.h"
#include "causeway/data/text_source.h"
#include "causeway/formats/dataset_manifest.h"
#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::data {

constexpr size_t kHashedForSplit = size_t{1} << 16;

struct PrepareProgress {
  uint64_t bytes_done = 0;   // of the inputs as they are stored
  uint64_t bytes_total = 0;  // 0 where not all inputs tell their size
  uint64_t tokens = 0;
  uint64_t documents = 0;
};

struct PrepareOptions {
  // Files, directories and "-" for standard input (text_source.h). A plain text is one document, a line of JSON Lines
  // is one, a record of CSV is one.
  std::vector<std::filesystem::path> inputs;
  // Where the split "validation" comes from: other inputs, or a fraction in [0, 1) of `inputs`, or neither. Of one
  // plain text the fraction is its end, from the next line break on. Of more documents it is those whose text has a
  // hash (XXH3) in that fraction of all hashes: a document is on the same side whatever inputs it comes in, in which
  // order and beside what, and equal ones are never on both sides. Of a long document the first kHashedForSplit bytes
  // count.
  std::vector<std::filesystem::path> validation_inputs;
  double validation_fraction = 0;
  // A directory of its own, created if need be. Must not be inside an input directory, and hold nothing but a dataset.
  std::filesystem::path output;
  // Replaces the dataset that `output` already holds; otherwise that is an error.
  bool overwrite = false;
  // What the inputs are, whatever they are called.
  std::optional<TextFormat> format;
  // The key of the text in JSON Lines, its column in CSV and MDS; that of MDS that may also hold token ids, which are
  // taken as they are.
  std::string text_key = "text";
  // What is no document or has no text is an error: lines that are not JSON objects with a string under the key,
  // records of another number of fields than the header, samples that are not text, empty files, "", null. Otherwise
  // all of it is counted and left out (skipped_lines.h), and escaped halves of surrogate pairs are taken (json_line.h).
  bool strict = false;
  // Takes plain text that is not UTF-8, and even no text, byte for byte.
  bool any_bytes = false;
  // A document may be in both splits; otherwise that is an error.
  bool allow_shared_documents = false;
  // Puts around every document what the tokenizer's files say (Tokenizer::around_text).
  bool add_special_tokens = true;
  // Ends every document with the tokenizer's end-of-text token, where it has one and the document has not ended with
  // it.
  bool append_end_of_text = true;
  // Text that spells a special token becomes that token.
  bool read_special_tokens = false;
  // Lines of JSON are conversations (chat_record.h), each a document; the dataset says which tokens are targets.
  std::optional<ChatOptions> chat;
  uint64_t tokens_per_shard = uint64_t{1} << 26;
  // That encode; 0: as many as the process may use processors. The result does not depend on it.
  int threads = 0;
  // Called a few times a second from the calling thread, and once at the end. It may throw: the preparation then ends
  // and changes nothing.
  std::function<void(const PrepareProgress&)> progress;
};

struct PrepareSummary {
  DatasetManifest manifest;
  uint64_t text_bytes = 0;                 // encoded; for JSON Lines, of the texts alone
  uint64_t empty_documents = 0;            // left out: empty files, and documents whose text is "" or null
  uint64_t null_documents = 0;             // of these, those whose text is null
  uint64_t skipped_lines = 0;              // that are no document
  std::vector<std::string> skipped_named;  // the first of them, each as "PATH, line N: what is wrong"
  uint64_t replaced_surrogates = 0;        // documents in which U+FFFD stands for halves of surrogate pairs
  ChatCounts chat;
  uint64_t shared_documents = 0;                   // of training that are held out, too
  std::map<std::string, uint64_t> files_left_out;  // in directories, by extension
  uint64_t unverified_shards = 0;                  // of MDS, whose hashes are all of kinds that are not computed here
  double seconds = 0;
};

// What stands around each document is recorded in dataset.json; of MDS's token ids, which are as they are, it is not
// known. Writes `output`/train-00000.tokens, ..., validation-00000.tokens, ..., the tokenizer's files under tokenizer/,
// and dataset.json. All of it is written beside `output` and takes its place when it is whole
// (directory_replacement.h): until then, and after any error, `output` is as it was. Throws Error for inputs that are
// missing, not text or hold no document under the key (naming input and line), for options that contradict each other,
// when a split would be empty, when a document is in both splits, when another process prepares the same output, and
// when the disk is full.
PrepareSummary prepare_dataset(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace causeway::data
