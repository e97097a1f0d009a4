#include "causeway/evaluation/token_requests.h"

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/evaluation/python_text.h"

namespace causeway::evaluation {

RequestEncoder::RequestEncoder(const Tokenizer& tokenizer, size_t most_tokens, bool adds_special_tokens)
    : tokenizer_(tokenizer), most_tokens_(most_tokens), adds_special_tokens_(adds_special_tokens) {
  prefix_ = tokenizer.begin_of_text();
  if (!prefix_) prefix_ = tokenizer.end_of_text();
}

std::vector<int32_t> RequestEncoder::encode_part(std::string_view text, bool add_special_tokens) const {
  // A text that begins with the prefix's name has it already.
  if (prefix_ && text.starts_with(tokenizer_.decode(std::vector<int32_t>{*prefix_}))) add_special_tokens = false;
  return tokenizer_.encode(
      text, {.read_special_tokens = true, .add_special_tokens = add_special_tokens && adds_special_tokens_});
}

TokenRequest RequestEncoder::encode(const TextRequest& request, const std::string& where) const {
  TokenRequest result;
  size_t before = 1;
  if (request.context.empty()) {
    result.tokens = encode_part(request.continuation, false);
    if (prefix_ && (result.tokens.empty() || result.tokens.front() != *prefix_))
      result.tokens.insert(result.tokens.begin(), *prefix_);
  } else {
    const size_t context_bytes = request.context.size() - trailing_space(request.context);
    result.tokens = encode_part(request.context + request.continuation, true);
    before = encode_part(std::string_view(request.context).substr(0, context_bytes), true).size();
  }
  if (before == 0 || result.tokens.size() <= before)
    throw Error(ErrorKind::kInvalidArgument,
                before == 0 ? "of the text before the answer no token is left"
                            : "the answer's tokens cannot be told from those before it",
                where, "Mend the document, or leave it out.");
  result.scored = result.tokens.size() - before;
  if (result.scored > most_tokens_)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the answer has {} tokens, and the model takes {} at once", result.scored, most_tokens_),
                where, "Shorten the answer, or leave the document out.");
  // The last token is scored and never read.
  if (result.tokens.size() > most_tokens_ + 1) {
    result.cut_tokens = result.tokens.size() - most_tokens_ - 1;
    result.tokens.erase(result.tokens.begin(), result.tokens.begin() + static_cast<ptrdiff_t>(result.cut_tokens));
  }
  return result;
}

std::vector<TokenRequest> RequestEncoder::encode_text(std::string_view text) const {
  const std::vector<int32_t> tokens = encode_part(text, true);
  if (prefix_) return rolling_windows(tokens, *prefix_, most_tokens_);
  if (tokens.empty()) return {};
  return rolling_windows(std::span(tokens).subspan(1), tokens.front(), most_tokens_);
}

std::vector<TokenRequest> rolling_windows(std::span<const int32_t> tokens, int32_t prefix, size_t most_tokens) {
  std::vector<int32_t> all = {prefix};
  all.insert(all.end(), tokens.begin(), tokens.end());
  std::vector<TokenRequest> windows;
  for (size_t done = 0; done < tokens.size();) {
    const size_t scored = std::min(most_tokens, tokens.size() - done);
    const size_t end = done + scored + 1;  // of `all`
    const size_t length = std::min(end, most_tokens + 1);
    windows.push_back(
        {{all.begin() + static_cast<ptrdiff_t>(end - length), all.begin() + static_cast<ptrdiff_t>(end)}, scored, 0});
    done += scored;
  }
  return windows;
}

}  // namespace causeway::evaluation
