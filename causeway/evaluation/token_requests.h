// From texts to what a model is run on: tokens, of which the last ones are to be scored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "causeway/evaluation/task_requests.h"
#include "causeway/formats/tokenizer/tokenizer.h"

namespace causeway::evaluation {

struct TokenRequest {
  std::vector<int32_t> tokens;
  size_t scored = 0;      // of them, at the end; at least one stands before
  size_t cut_tokens = 0;  // that stood before them and did not fit
};

// A tokenizer as lm-evaluation-harness uses it: special tokens are read in texts and put around them where the
// tokenizer's files say so.
class RequestEncoder {
 public:
  // `most_tokens`: that the model reads at once. `adds_special_tokens`: around texts, where the tokenizer's files say
  // so; not for a model that was trained without. The tokenizer outlives it.
  RequestEncoder(const Tokenizer& tokenizer, size_t most_tokens, bool adds_special_tokens = true);

  // Spaces at the context's end count to the continuation, and the texts are encoded together; what does not fit is cut
  // from the front. An empty context is the prefix token, or, where there is none, the continuation's first token.
  // Throws Error(kInvalidArgument), for `where`, when no token of the continuation is left or they do not fit.
  TokenRequest encode(const TextRequest& request, const std::string& where) const;

  // A whole text, each of its tokens scored once, in windows of `most_tokens`: the first follows the prefix token, the
  // last one sees as many of those before it as fit. Without a prefix token the first token is not scored.
  std::vector<TokenRequest> encode_text(std::string_view text) const;

  // What a text begins with: the token that the tokenizer's files call bos_token, or else the end of a text.
  const std::optional<int32_t>& prefix_token() const { return prefix_; }

 private:
  std::vector<int32_t> encode_part(std::string_view text, bool add_special_tokens) const;

  const Tokenizer& tokenizer_;
  size_t most_tokens_;
  bool adds_special_tokens_;
  std::optional<int32_t> prefix_;
};

// Disjoint windows over tokens, whose first token follows `prefix`.
std::vector<TokenRequest> rolling_windows(std::span<const int32_t> tokens, int32_t prefix, size_t most_tokens);

}  // namespace causeway::evaluation
