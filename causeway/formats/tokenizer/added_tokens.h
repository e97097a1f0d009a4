// The `added_tokens` of a tokenizer.json: tokens that are found in text before the model sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/tokenizer/byte_trie.h"
#include "causeway/formats/tokenizer/text_normalizer.h"

namespace causeway::formats {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // takes the spaces before it along
  bool rstrip = false;       // and those behind it
  bool normalized = true;    // looked for in the normalized text, itself normalized; otherwise in the text as it is
  bool special = false;
};

class AddedTokens {
 public:
  // A stretch of text that is one token, or none and left to the model.
  struct Span {
    size_t begin = 0;
    size_t end = 0;
    std::optional<int32_t> id;
  };

  AddedTokens() = default;
  // `normalizer` may be null. Throws Error naming `where` when a token is empty, too long or nothing but what the
  // normalizer removes, or when two have the same content.
  AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer* normalizer, const std::string& where);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  // Covers `text`, in order: of the tokens of that kind the leftmost, and of those the longest. Special tokens are
  // passed over, with what lies under them, unless `special`.
  std::vector<Span> find(std::string_view text, bool normalized, bool special) const;

  // Whether one that is not special could be found across a cut in front of a space between two letters.
  bool cross_spaces() const { return cross_spaces_; }

  static constexpr size_t kLongestToken = 4096;

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie as_written_;  // values are indices into tokens_
  ByteTrie normalized_;
  bool has_written_ = false;
  bool has_normalized_ = false;
  bool cross_spaces_ = false;
};

}  // namespace causeway::formats
