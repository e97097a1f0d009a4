// Tokenizers: text to token ids and back. Bytes and GPT-2's vocabulary are lossless: decode(encode(text)) == text for
// any bytes, valid UTF-8 or not. What a tokenizer.json describes takes UTF-8 and need not be. Encoding is const and may
// be called from many threads at once.
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

#include "causeway/formats/tokenizer/text_origins.h"
#include "causeway/namespaces.h"

namespace causeway::formats {

struct EncodeOptions {
  bool read_special_tokens = false;  // text that spells a special token becomes that token
  bool add_special_tokens = false;   // around the text, as the tokenizer's files say
};

// Tokens before and behind a text.
struct AroundText {
  std::vector<int32_t> before, after;
  bool operator==(const AroundText&) const = default;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` to `ids`. Text that spells a special token, such as "<|endoftext|>", becomes that token
  // where `read_special_tokens` says so, and is ordinary text otherwise.
  virtual void encode_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids) const = 0;
  void encode_to(std::string_view text, std::vector<int32_t>& ids) const { encode_to(text, false, ids); }
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The same ids, and for each the bytes of `text` that it covers, appended to `spans`. Neither their begins nor their
  // ends go back. A space that the tokenizer puts in front of a text is of the character that it stands in front of.
  virtual void encode_spans_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids,
                               std::vector<TextSpan>& spans) const = 0;
  // What EncodeOptions::add_special_tokens puts around a text.
  virtual AroundText around_text() const { return {}; }

  // The bytes that `ids` stand for; a special token gives its name. Throws Error for an id outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // Whether the token marks something and is no text.
  virtual bool is_special(int32_t id) const { return id == end_of_text(); }

  // The smallest position >= `from` where `text` may be cut in two so that the ids of both parts, encoded with this
  // `read_special_tokens`, are those of the whole; text.size() when there is none.
  virtual size_t cut_position(std::string_view text, size_t from, bool read_special_tokens) const = 0;
  size_t cut_position(std::string_view text, size_t from) const { return cut_position(text, from, false); }

  // Ids are 0 .. vocabulary_size() - 1.
  virtual int64_t vocabulary_size() const = 0;
  // "bytes", "gpt2" or "tokenizer.json": the kind of tokenizer, as recipes and datasets name it.
  virtual std::string name() const = 0;
  // The token that separates documents, where the vocabulary has one.
  virtual std::optional<int32_t> end_of_text() const = 0;
  // The token that the tokenizer's files call the first one of a text (bos_token), whether or not they put it there.
  virtual std::optional<int32_t> begin_of_text() const { return std::nullopt; }
  // Equal only for two tokenizers that give the same ids (up to hash collision). One tokenizer in two kinds of files
  // has two fingerprints.
  virtual std::string fingerprint() const = 0;
  // The files that load_tokenizer reads this tokenizer back from, content by name; none for one without files.
  virtual std::map<std::string, std::string> files() const = 0;
  // Writes them into an existing directory.
  void save(const std::filesystem::path& directory) const;
};

// Raw bytes: 256 ids, each the byte's value; no special tokens.
class ByteTokenizer final : public Tokenizer {
 public:
  using Tokenizer::cut_position;
  using Tokenizer::encode_to;
  void encode_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids) const override;
  void encode_spans_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids,
                       std::vector<TextSpan>& spans) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  size_t cut_position(std::string_view text, size_t from, bool read_special_tokens) const override;
  int64_t vocabulary_size() const override { return 256; }
  std::string name() const override { return "bytes"; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
  std::string fingerprint() const override;
  std::map<std::string, std::string> files() const override { return {}; }
};

// "bytes", or a directory: of a tokenizer.json (json_tokenizer.h; bytes where it is that of byte_level_json.h for bytes
// and nothing beside it adds tokens), or else of a GPT-2 vocabulary (gpt2_tokenizer.h). Throws Error when it is
// neither.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_directory);

}  // namespace causeway::formats
