#include "causeway/formats/tokenizer/added_tokens.h"

#include <algorithm>
#include <unordered_set>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/encoding_budget.h"
#include "causeway/formats/tokenizer/tokenizer_part.h"
#include "causeway/formats/tokenizer/unicode_classes.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: added_tokens";

size_t last_character(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && text.size() - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  // Bytes that are not UTF-8 are characters by themselves.
  return start + decode_utf8(text, start).size == text.size() ? start : text.size() - 1;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(decode_utf8(text, last_character(text)).code_point);
}
bool starts_with_word(std::string_view text) { return !text.empty() && is_word(decode_utf8(text, 0).code_point); }

// Where the spaces at the end of `text` begin.
size_t spaces_at_end(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t start = last_character(text.substr(0, begin));
    if (character_class(decode_utf8(text, start).code_point) != CharacterClass::kSpace) break;
    begin = start;
  }
  return begin;
}

size_t spaces_at_start(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Utf8Character character = decode_utf8(text, end);
    if (character_class(character.code_point) != CharacterClass::kSpace) break;
    end += character.size;
  }
  return end;
}

// The longest text in the trie that begins at `begin`: its value and end.
std::pair<int32_t, size_t> longest_at(const ByteTrie& trie, std::string_view text, size_t begin,
                                      EncodingBudget& budget) {
  std::pair<int32_t, size_t> longest{ByteTrie::kNone, begin};
  int32_t node = ByteTrie::kRoot;
  size_t end = begin;
  while (end < text.size()) {
    node = trie.next(node, static_cast<unsigned char>(text[end++]));
    if (node == ByteTrie::kNone) break;
    if (const int32_t value = trie.value(node); value != ByteTrie::kNone) longest = {value, end};
  }
  budget.spend(end - begin, kWhere);
  return longest;
}

// Where tokenizers cut text.
bool has_space_behind_other(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i)
    if ((text[i] == ' ' || text[i] == '\n') && spaces_at_start(text.substr(i - 1, 1)) == 0) return true;
  return false;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const TextNormalizer* normalizer, const std::string& where)
    : tokens_(std::move(tokens)) {
  std::unordered_set<std::string> contents, written, normalized;
  // Special tokens come first: of two that normalize to the same text the first counts.
  std::vector<size_t> order;
  for (const bool special : {true, false})
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (tokens_[i].special == special) order.push_back(i);
  for (const size_t i : order) {
    const AddedToken& token = tokens_[i];
    const auto fail = [&](const std::string& what) {
      throw Error(ErrorKind::kCorrupt, fmt::format("the added token \"{}\" (id {}) {}", token.content, token.id, what),
                  where, kTokenizerHint);
    };
    if (token.content.empty()) fail("has no content");
    if (token.content.size() > kLongestToken)
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("the added token with the id {} has {} bytes; at most {} are read", token.id,
                              token.content.size(), kLongestToken),
                  where, kTokenizerHint);
    if (!contents.insert(token.content).second) fail("is there twice");
    const std::string sought =
        token.normalized && normalizer != nullptr ? normalizer->apply(token.content) : token.content;
    if (sought.empty()) fail("is nothing once it is normalized");
    if ((token.normalized ? normalized : written).insert(sought).second)
      (token.normalized ? normalized_ : as_written_).insert(sought, static_cast<int32_t>(i));
    Kinds& kinds = token.normalized ? normalized_kinds_ : written_kinds_;
    kinds.any = true;
    kinds.any_text = kinds.any_text || !token.special;
    // A special token that is read as text still hides others that begin within it.
    const bool crosses = has_space_behind_other(sought) || has_space_behind_other(token.content);
    const bool takes_along = token.single_word || token.lstrip || token.rstrip;
    cross_spaces_ = cross_spaces_ || crosses || (!token.special && takes_along);
    special_cross_spaces_ = special_cross_spaces_ || crosses || takes_along;
  }
}

std::vector<AddedTokens::Span> AddedTokens::find(std::string_view text, bool normalized, bool special) const {
  if (text.empty()) return {};
  const Kinds& kinds = normalized ? normalized_kinds_ : written_kinds_;
  // Those that are passed over hide one another alone.
  if (!(special ? kinds.any : kinds.any_text)) return {{0, text.size(), std::nullopt}};
  std::vector<Span> spans;
  EncodingBudget& budget = EncodingBudget::current();
  size_t done = 0;
  // Spaces that were looked through: tokens that take the same ones along follow one another.
  Span spaces;
  const ByteTrie& trie = normalized ? normalized_ : as_written_;
  for (size_t at = 0; at < text.size();) {
    const auto [index, match_end] = longest_at(trie, text, at, budget);
    if (index == ByteTrie::kNone) {
      ++at;
      continue;
    }
    size_t begin = at, end = match_end;
    at = match_end;
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    if (token.special && !special) continue;
    if (token.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    if (token.lstrip) {
      begin = begin <= done ? done : done + spaces_at_end(text.substr(done, begin - done));
      if (begin < end) budget.spend(end - begin, kWhere);
    }
    if (token.rstrip) {
      if (end < spaces.begin || end > spaces.end) spaces = {end, end + spaces_at_start(text.substr(end)), {}};
      end = spaces.end;
    }
    if (done < begin) spans.push_back({done, begin, std::nullopt});
    spans.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) spans.push_back({done, text.size(), std::nullopt});
  return spans;
}

}  // namespace causeway::formats
