// The `added_tokens` of a tokenizer.json: tokens that are found in text before the model sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/tokenizer/byte_trie.h"
#include "causeway/formats/tokenizer/encoding_budget.h"
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
  // passed over, with what lies under them, unless `special`. Throws Error(kResource) as EncodingBudget does.
  std::vector<Span> find(std::string_view text, bool normalized, bool special) const;

  // Whether one could be found across a cut in front of a space between two letters, where special tokens are read or
  // are not.
  bool cross_spaces(bool special) const { return special ? special_cross_spaces_ : cross_spaces_; }

  // Calls take(span) for what is found in `text` as it is, and, in what lies between, in what the normalizer (which may
  // be null) makes of that; take(text, begins) for the rest, in order: `begins` where the text's beginning is its.
  template <class Take, class TakeText>
  void for_each_segment(std::string_view text, const TextNormalizer* normalizer, bool special, const Take& take,
                        const TakeText& take_text) const {
    for (const Span& span : find(text, false, special)) {
      if (span.id) {
        take(*span.id);
        continue;
      }
      std::string_view segment = text.substr(span.begin, span.end - span.begin);
      std::string normalized;
      if (normalizer != nullptr) {
        segment = normalized = normalizer->apply(std::string(segment));
        EncodingBudget::current().spend(normalized.size(), "tokenizer.json: normalizer");
      }
      for (const Span& inner : find(segment, true, special)) {
        if (inner.id) {
          take(*inner.id);
        } else {
          take_text(segment.substr(inner.begin, inner.end - inner.begin), span.begin == 0 && inner.begin == 0);
        }
      }
    }
  }

  static constexpr size_t kLongestToken = 4096;

  // The same with where each stretch came from: take(id, span of `text`), and take_text(text, the origins of its bytes
  // in `text`, begins).
  template <class Take, class TakeText>
  void for_each_tracked_segment(std::string_view text, const TextNormalizer* normalizer, bool special, const Take& take,
                                const TakeText& take_text) const {
    for (const Span& span : find(text, false, special)) {
      if (span.id) {
        take(*span.id, TextSpan{span.begin, span.end});
        continue;
      }
      std::string segment(text.substr(span.begin, span.end - span.begin));
      TextOrigins origins = own_origins(segment.size(), span.begin);
      if (normalizer != nullptr) {
        segment = normalizer->apply_tracked(std::move(segment), origins);
        EncodingBudget::current().spend(segment.size(), "tokenizer.json: normalizer");
      }
      for (const Span& inner : find(segment, true, special)) {
        const std::span<const TextSpan> of_inner = std::span(origins).subspan(inner.begin, inner.end - inner.begin);
        if (inner.id) {
          take(*inner.id, joined_origin(of_inner, of_inner.front().begin));
        } else {
          take_text(std::string_view(segment).substr(inner.begin, inner.end - inner.begin), of_inner,
                    span.begin == 0 && inner.begin == 0);
        }
      }
    }
  }

 private:
  std::vector<AddedToken> tokens_;
  ByteTrie as_written_;  // values are indices into tokens_
  ByteTrie normalized_;
  // Whether there are any of each kind, and any that are not special.
  struct Kinds {
    bool any = false;
    bool any_text = false;
  };
  Kinds written_kinds_, normalized_kinds_;
  bool cross_spaces_ = false;
  bool special_cross_spaces_ = false;
};

}  // namespace causeway::formats
