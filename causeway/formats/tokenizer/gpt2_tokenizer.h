// GPT-2's byte-level byte-pair encoding (Radford et al. 2019; openai/gpt-2, src/encoder.py), for any vocabulary in its
// file format: a JSON object of token to id, and a text file of merges in order of rank. In both, each byte of a token
// is written as one printable character.
#pragma once

#include <memory>

#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::formats {

class Gpt2Tokenizer final : public Tokenizer {
 public:
  // Reads vocab.json and merges.txt (Hugging Face's names) or encoder.json and vocab.bpe (OpenAI's) from a directory.
  // Throws Error naming the file, and the line or token, when a file is missing, is not in the format, leaves ids out,
  // lacks one of the 256 bytes, or merges tokens that no earlier line made.
  static Gpt2Tokenizer load(const std::filesystem::path& directory);
  // The same from the files' content; the names are used in errors only.
  static Gpt2Tokenizer parse(std::string vocabulary_json, std::string merges_text,
                             const std::string& vocabulary_name = "vocab.json",
                             const std::string& merges_name = "merges.txt");
  Gpt2Tokenizer(Gpt2Tokenizer&&) noexcept;
  ~Gpt2Tokenizer() override;

  void encode_to(std::string_view text, std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  size_t cut_position(std::string_view text, size_t from) const override;
  int64_t vocabulary_size() const override;
  std::string name() const override { return "gpt2"; }
  // The id of "<|endoftext|>", where the vocabulary has it.
  std::optional<int32_t> end_of_text() const override;
  std::string fingerprint() const override;
  // The two files as they were read, under Hugging Face's names.
  std::map<std::string, std::string> files() const override;

 private:
  struct State;
  explicit Gpt2Tokenizer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace causeway::formats
