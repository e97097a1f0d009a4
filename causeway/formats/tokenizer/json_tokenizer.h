// A tokenizer as one tokenizer.json describes it (Hugging Face's `tokenizers`): normalizer, pre-tokenizer, model,
// post-processor, decoder and added tokens. All of a file is interpreted, or it is refused by the name of the part that
// is not (docs/tokenizers.md).
#pragma once

#include <filesystem>
#include <memory>

#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::formats {

inline constexpr std::string_view kTokenizerJsonName = "tokenizer.json";
inline constexpr std::string_view kTokenizerConfigName = "tokenizer_config.json";

class JsonTokenizer final : public Tokenizer {
 public:
  // Reads tokenizer.json from a directory, and from tokenizer_config.json, where there is one, which token ends a text.
  // Throws Error naming file and part: kUnsupported for what is not interpreted, kCorrupt for what is not a tokenizer.
  static JsonTokenizer load(const std::filesystem::path& directory);
  // The same from the files' content; `config` is empty when there is none. `name` is used in errors.
  static JsonTokenizer parse(std::string json, std::string config = "",
                             const std::string& name = std::string(kTokenizerJsonName));
  JsonTokenizer(JsonTokenizer&&) noexcept;
  ~JsonTokenizer() override;

  // Throws Error(kInvalidArgument) for text that is not UTF-8.
  void encode_to(std::string_view text, std::vector<int32_t>& ids) const override;
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override;
  using Tokenizer::encode;
  // What the file's decoder gives; bytes that are not UTF-8 come as they are.
  std::string decode(std::span<const int32_t> ids) const override;
  bool is_special(int32_t id) const override;
  size_t cut_position(std::string_view text, size_t from) const override;
  int64_t vocabulary_size() const override;
  std::string name() const override { return std::string(kTokenizerJsonName); }
  // What tokenizer_config.json names as eos_token; without it the first that there is of <|endoftext|>,
  // <|end_of_text|>, </s> and <eos> among the special tokens.
  std::optional<int32_t> end_of_text() const override;
  std::string fingerprint() const override;
  std::map<std::string, std::string> files() const override;

 private:
  struct State;
  explicit JsonTokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace causeway::formats
