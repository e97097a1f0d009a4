// A tokenizer as one tokenizer.json describes it (Hugging Face's `tokenizers`): normalizer, pre-tokenizer, model,
// post-processor, decoder and added tokens. All of a file is interpreted, or it is refused by the name of the part that
// is not (docs/tokenizers.md).
#pragma once

#include <filesystem>
#include <memory>

#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/formats/tokenizer/tokenizer_settings.h"

namespace causeway::formats {

inline constexpr std::string_view kTokenizerJsonName = "tokenizer.json";

class JsonTokenizer final : public Tokenizer {
 public:
  // Reads tokenizer.json from a directory, and what stands beside it (tokenizer_settings.h): further tokens, those that
  // begin and end a text, and whether a space comes first.
  // Throws Error naming file and part: kUnsupported for what is not interpreted, kCorrupt for what is not a tokenizer.
  static JsonTokenizer load(const std::filesystem::path& directory);
  // The same from the files' content. `name` is used in errors.
  static JsonTokenizer parse(std::string json, TokenizerSettingsFiles settings = {},
                             const std::string& name = std::string(kTokenizerJsonName));
  JsonTokenizer(JsonTokenizer&&) noexcept;
  ~JsonTokenizer() override;

  // Throws Error(kInvalidArgument) for text that is not UTF-8, Error(kResource) for one that takes more work than an
  // EncodingBudget has.
  void encode_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids) const override;
  void encode_spans_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids,
                       std::vector<TextSpan>& spans) const override;
  using Tokenizer::encode_to;
  // What the file's post_processor says.
  AroundText around_text() const override;
  // What the file's decoder gives; bytes that are not UTF-8 come as they are.
  std::string decode(std::span<const int32_t> ids) const override;
  bool is_special(int32_t id) const override;
  size_t cut_position(std::string_view text, size_t from, bool read_special_tokens) const override;
  using Tokenizer::cut_position;
  int64_t vocabulary_size() const override;
  std::string name() const override { return std::string(kTokenizerJsonName); }
  // What the files beside tokenizer.json name as eos_token; without it the first that there is of <|endoftext|>,
  // <|end_of_text|>, </s> and <eos> among the special tokens.
  std::optional<int32_t> end_of_text() const override;
  std::optional<int32_t> begin_of_text() const override;
  std::string fingerprint() const override;
  std::map<std::string, std::string> files() const override;

 private:
  struct State;
  explicit JsonTokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace causeway::formats
