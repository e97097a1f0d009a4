#include "causeway/formats/tokenizer/tokenizer.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"

namespace causeway::formats {

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_to(text, ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (options.read_special_tokens || options.add_special_tokens) {
    throw Error(ErrorKind::kUnsupported, "special tokens are read in text and put around it by a tokenizer.json only",
                fmt::format("{} tokenizer", name()),
                "Use the tokenizer.json of this vocabulary, or leave the option out.");
  }
  return encode(text);
}

void Tokenizer::save(const std::filesystem::path& directory) const {
  for (const auto& [name, content] : files()) write_file_atomically(directory / name, content);
}

void ByteTokenizer::encode_to(std::string_view text, std::vector<int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
}

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || id >= 256) {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("token id {} is outside the vocabulary of 256 bytes", id),
                  "byte tokenizer", "Decode with the tokenizer that made the ids.");
    }
    text.push_back(static_cast<char>(id));
  }
  return text;
}

size_t ByteTokenizer::cut_position(std::string_view text, size_t from) const { return std::min(from, text.size()); }

std::string ByteTokenizer::fingerprint() const { return hash_text("bytes").hex(); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_directory) {
  if (name_or_directory == "bytes") return std::make_unique<ByteTokenizer>();
  std::error_code code;
  if (std::filesystem::is_directory(name_or_directory, code)) {
    if (std::filesystem::exists(std::filesystem::path(name_or_directory) / kTokenizerJsonName, code))
      return std::make_unique<JsonTokenizer>(JsonTokenizer::load(name_or_directory));
    return std::make_unique<Gpt2Tokenizer>(Gpt2Tokenizer::load(name_or_directory));
  }
  const std::string nearest = nearest_name(name_or_directory, {"bytes"});
  throw Error(
      ErrorKind::kNotFound,
      fmt::format("no tokenizer is called \"{}\" and no directory has that name", name_or_directory), "tokenizer",
      nearest.empty() ? "Give \"bytes\", or a directory that holds tokenizer.json, or vocab.json and merges.txt (or "
                        "encoder.json and vocab.bpe)."
                      : fmt::format("Did you mean \"{}\"?", nearest));
}

}  // namespace causeway::formats
