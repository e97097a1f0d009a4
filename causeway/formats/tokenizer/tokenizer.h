// Tokenizers: text to token ids and back. Every tokenizer here is lossless: decode(encode(text)) == text for any bytes,
// valid UTF-8 or not. Encoding is const and may be called from many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` to `ids`. Text that spells a special token, such as "<|endoftext|>", is encoded as
  // ordinary text.
  virtual void encode_to(std::string_view text, std::vector<int32_t>& ids) const = 0;
  std::vector<int32_t> encode(std::string_view text) const;

  // The bytes that `ids` stand for; a special token gives its name. Throws Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  // The smallest position >= `from` where `text` may be cut in two with encode(left) + encode(right) == encode(text);
  // text.size() when there is none.
  virtual size_t cut_position(std::string_view text, size_t from) const = 0;

  // Ids are 0 .. vocabulary_size() - 1.
  virtual int64_t vocabulary_size() const = 0;
  // "bytes" or "gpt2": the kind of tokenizer, as recipes and datasets name it.
  virtual std::string name() const = 0;
  // The token that separates documents, where the vocabulary has one.
  virtual std::optional<int32_t> end_of_text() const = 0;
  // Equal for two tokenizers exactly when they give the same ids (up to hash collision), whatever files they came from.
  virtual std::string fingerprint() const = 0;
  // The files that load_tokenizer reads this tokenizer back from, content by name; none for one without files.
  virtual std::map<std::string, std::string> files() const = 0;
  // Writes them into an existing directory.
  void save(const std::filesystem::path& directory) const;
};

// Raw bytes: 256 ids, each the byte's value; no special tokens.
class ByteTokenizer final : public Tokenizer {
 public:
  void encode_to(std::string_view text, std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  size_t cut_position(std::string_view text, size_t from) const override;
  int64_t vocabulary_size() const override { return 256; }
  std::string name() const override { return "bytes"; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  std::string fingerprint() const override;
  std::map<std::string, std::string> files() const override { return {}; }
};

// "bytes", or the directory of a GPT-2 vocabulary (see gpt2_tokenizer.h). Throws Error when it is neither.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_directory);

}  // namespace causeway::formats
