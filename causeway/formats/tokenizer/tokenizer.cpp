#include "causeway/formats/tokenizer/tokenizer.h"

#include <algorithm>
#include <iterator>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/formats/tokenizer/byte_level_json.h"
#include "causeway/formats/tokenizer/gpt2_tokenizer.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"

namespace causeway::formats {

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const AroundText around = options.add_special_tokens ? around_text() : AroundText();
  std::vector<int32_t> ids = around.before;
  encode_to(text, options.read_special_tokens, ids);
  ids.insert(ids.end(), around.after.begin(), around.after.end());
  return ids;
}

void Tokenizer::save(const std::filesystem::path& directory) const {
  for (const auto& [name, content] : files()) write_file_atomically(directory / name, content);
}

void ByteTokenizer::encode_to(std::string_view text, bool /*read_special_tokens*/, std::vector<int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
}

void ByteTokenizer::encode_spans_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids,
                                    std::vector<TextSpan>& spans) const {
  encode_to(text, read_special_tokens, ids);
  std::ranges::copy(own_origins(text.size()), std::back_inserter(spans));
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

size_t ByteTokenizer::cut_position(std::string_view text, size_t from, bool /*read_special_tokens*/) const {
  return std::min(from, text.size());
}

std::string ByteTokenizer::fingerprint() const { return hash_text("bytes").hex(); }

namespace {

// Whatever wrote it: transformers writes a tokenizer.json that it has read in its own layout.
std::unique_ptr<Tokenizer> load_json_tokenizer(const std::string& directory) {
  auto tokenizer = std::make_unique<JsonTokenizer>(JsonTokenizer::load(directory));
  static const std::string bytes = JsonTokenizer::parse(byte_tokenizer_json()).fingerprint();
  if (tokenizer->fingerprint() == bytes) return std::make_unique<ByteTokenizer>();
  return tokenizer;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_directory) {
  if (name_or_directory == "bytes") return std::make_unique<ByteTokenizer>();
  std::error_code code;
  if (std::filesystem::is_directory(name_or_directory, code)) {
    if (std::filesystem::exists(std::filesystem::path(name_or_directory) / kTokenizerJsonName, code))
      return load_json_tokenizer(name_or_directory);
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
