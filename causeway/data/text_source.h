// The text that a dataset is prepared from: documents in plain text files and JSON Lines files, memory-mapped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/file.h"

namespace causeway {

enum class TextFormat { kPlainText, kJsonLines };

struct TextFile {
  std::filesystem::path path;
  TextFormat format = TextFormat::kPlainText;
};

// The files that `inputs` name: files as they are (.jsonl is JSON Lines, all else plain text), directories as all .txt
// and .jsonl files beneath them, in order of name. Throws Error when an input does not exist, is empty, holds no such
// file, or is of a known format that is not text (.gz, .parquet, ...).
std::vector<TextFile> find_text_files(const std::vector<std::filesystem::path>& inputs);

// A document where it lies in its file: the whole of a plain text file, or one line of JSON.
struct RawDocument {
  std::string_view bytes;
  uint64_t line = 0;  // from 1; 0 for plain text
};

// A mapped input file and its documents, one after another.
class TextFileReader {
 public:
  explicit TextFileReader(TextFile file);

  const TextFile& file() const { return file_; }
  std::string_view content() const;
  // The next document; nothing at the end. Blank lines of JSON Lines are passed over.
  std::optional<RawDocument> next();

 private:
  TextFile file_;
  MappedFile mapped_;
  size_t position_ = 0;
  uint64_t line_ = 0;
};

// The value of `key` in one line of JSON. Throws Error naming file and line when the line is not a JSON object, lacks
// the key (naming the nearest key it has), or the value is not a string.
std::string parse_json_line(const RawDocument& document, const std::string& key, const std::filesystem::path& path);

}  // namespace causeway
