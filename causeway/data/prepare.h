// Text in, token dataset out: what "causeway data prepare" does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "causeway/data/dataset_manifest.h"
#include "causeway/data/tokenizer.h"

namespace causeway {

struct PrepareProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
  uint64_t tokens = 0;
  uint64_t documents = 0;
};

struct PrepareOptions {
  // Files and directories (text_source.h). A plain text file is one document, a line of JSON Lines is one.
  std::vector<std::filesystem::path> inputs;
  // Where the split "validation" comes from: other inputs, or a fraction in [0, 1) of `inputs`, or neither. Of one
  // plain text file the fraction is its end, from the next line break on. Of more documents it is every n-th whole
  // document: document i (from 0) is taken where floor((i + 1) * fraction) > floor(i * fraction).
  std::vector<std::filesystem::path> validation_inputs;
  double validation_fraction = 0;
  // Created if need be. Must not be inside an input directory.
  std::filesystem::path output;
  // Replaces the dataset that `output` already holds; otherwise that is an error.
  bool overwrite = false;
  // The key of the text in JSON Lines.
  std::string text_key = "text";
  // Ends every document with the tokenizer's end-of-text token, where it has one.
  bool append_end_of_text = true;
  uint64_t tokens_per_shard = uint64_t{1} << 26;
  // 0: as many as the machine has processors. The result does not depend on it.
  int threads = 0;
  // Called now and then from the calling thread. It may throw: the preparation then ends without a dataset.
  std::function<void(const PrepareProgress&)> progress;
};

struct PrepareSummary {
  DatasetManifest manifest;
  uint64_t text_bytes = 0;       // encoded; for JSON Lines, of the texts alone
  uint64_t empty_documents = 0;  // left out
  double seconds = 0;
};

// Writes `output`/train-00000.tokens, ..., validation-00000.tokens, ..., the tokenizer's files under tokenizer/, and
// last dataset.json, without which the directory is not a dataset. Throws Error for inputs that are missing, empty, not
// text or lack the key (naming file and line), for options that contradict each other, and when a split would be empty.
PrepareSummary prepare_dataset(const PrepareOptions& options, const Tokenizer& tokenizer);

}  // namespace causeway
