// The `model` of a tokenizer.json: one piece of text to token ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {

constexpr int32_t kNoToken = -1;

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of `piece`, which is UTF-8 and not empty. Throws Error where a character has no token and there is
  // none for the unknown. May be called from many threads at once.
  virtual void encode(std::string_view piece, std::vector<int32_t>& ids) const = 0;
  // By id.
  const std::vector<std::string>& tokens() const { return tokens_; }

 protected:
  explicit TokenModel(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

 private:
  std::vector<std::string> tokens_;
};

// BPE and Unigram. Throws Error(kUnsupported) naming any other (WordPiece, WordLevel), and Error(kCorrupt) for ids that
// collide or leave holes, merges of unknown tokens and the like.
std::unique_ptr<TokenModel> read_token_model(const TokenizerPart& part);
std::unique_ptr<TokenModel> read_bpe_model(const TokenizerPart& part);
std::unique_ptr<TokenModel> read_unigram_model(const TokenizerPart& part);

// Throws Error(kCorrupt) for a token that is longer than any that is text (AddedTokens::kLongestToken).
void require_token_size(const TokenizerPart& part, std::string_view token, size_t id);

}  // namespace causeway::formats
