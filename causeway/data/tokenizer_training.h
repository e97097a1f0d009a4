// Text in, tokenizer out: what "causeway tokenizer train" does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "causeway/data/text_source.h"

namespace causeway::data {

struct TokenizerTrainingOptions {
  // Files, directories and "-" for standard input (text_source.h).
  std::vector<std::filesystem::path> inputs;
  std::optional<TextFormat> format;
  std::string text_key = "text";
  // Tokens, the 256 bytes and "<|endoftext|>" included.
  int64_t vocabulary = 0;
  // A directory, created if need be, in which tokenizer.json is written.
  std::filesystem::path output;
  bool overwrite = false;
  // That count words; 0: as many as the process may use processors. The result does not depend on it.
  int threads = 0;
};

struct TokenizerTrainingSummary {
  int64_t vocabulary = 0;
  uint64_t text_bytes = 0;
  int64_t words = 0;
  uint64_t different_words = 0;
  double seconds = 0;
  // What is no document, as PrepareSummary has it.
  uint64_t skipped_lines = 0;
  std::vector<std::string> skipped_named;
};

inline constexpr int64_t kLeastVocabulary = 257, kMostVocabulary = int64_t{1} << 20;

// Trains byte-level BPE on words as GPT-2 splits them (gpt2_scanner.h). Lines and records that
// are no document are left out (skipped_lines.h). Throws Error for inputs that are missing or not text, a vocabulary
// outside kLeastVocabulary to kMostVocabulary, text in which too few pairs occur twice to make so many tokens, and a
// tokenizer.json that is there, unless `overwrite`.
TokenizerTrainingSummary train_tokenizer(const TokenizerTrainingOptions& options);

}  // namespace causeway::data
