// GPT-2's byte-level byte-pair encoding (Radford et al. 2019; openai/gpt-2, src/encoder.py), for any vocabulary in its
// file format: a JSON object of token to id, and a text file of merges in order of rank. In both, each byte of a token
// is written as one printable character.
#pragma once

#include <memory>

#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/formats/tokenizer/tokenizer_settings.h"

namespace causeway::formats {

class Gpt2Tokenizer final : public Tokenizer {
 public:
  // Reads vocab.json and merges.txt (Hugging Face's names) or encoder.json and vocab.bpe (OpenAI's) from a directory,
  // and what stands beside them (tokenizer_settings.h), as transformers' GPT2Tokenizer does: further tokens, a space in
  // front, tokens around a text.
  // Throws Error naming the file, and the line or token, when a file is missing, is not in the format, leaves ids out,
  // lacks one of the 256 bytes, or merges tokens that no earlier line made; kUnsupported where tokenizer_config.json
  // names another class, which splits text in another way.
  static Gpt2Tokenizer load(const std::filesystem::path& directory);
  // The same from the files' content; the names are used in errors only.
  static Gpt2Tokenizer parse(std::string vocabulary_json, std::string merges_text,
                             const std::string& vocabulary_name = "vocab.json",
                             const std::string& merges_name = "merges.txt", TokenizerSettingsFiles settings = {});
  Gpt2Tokenizer(Gpt2Tokenizer&&) noexcept;
  ~Gpt2Tokenizer() override;

  using Tokenizer::cut_position;
  using Tokenizer::encode_to;
  void encode_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids) const override;
  void encode_spans_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids,
                       std::vector<TextSpan>& spans) const override;
  // What add_bos_token and add_eos_token of tokenizer_config.json say.
  AroundText around_text() const override;
  bool is_special(int32_t id) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  size_t cut_position(std::string_view text, size_t from, bool read_special_tokens) const override;
  int64_t vocabulary_size() const override;
  std::string name() const override { return "gpt2"; }
  // What the files name as eos_token and bos_token; without that "<|endoftext|>", where the vocabulary has it.
  std::optional<int32_t> end_of_text() const override;
  std::optional<int32_t> begin_of_text() const override;
  std::string fingerprint() const override;
  // The files as they were read, under Hugging Face's names.
  std::map<std::string, std::string> files() const override;

 private:
  struct State;
  explicit Gpt2Tokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace causeway::formats
