// Unigram language model (Kudo 2018): of all ways to cut a piece into tokens the one of highest summed score.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/byte_fallback.h"
#include "causeway/formats/tokenizer/byte_trie.h"
#include "causeway/formats/tokenizer/encoding_budget.h"
#include "causeway/formats/tokenizer/token_model.h"

namespace causeway::formats {
namespace {

// How far below the lowest score that of an unknown character is (SentencePiece's kUnkPenalty).
constexpr double kUnknownPenalty = 10.0;

class UnigramModel final : public TokenModel {
 public:
  UnigramModel(const TokenizerPart& part, std::vector<std::string> by_id, std::vector<double> scores)
      : TokenModel(std::move(by_id)), where_(part.where()), scores_(std::move(scores)) {
    for (size_t id = 0; id < tokens().size(); ++id)
      if (!tokens()[id].empty()) trie_.insert(tokens()[id], static_cast<int32_t>(id));
    if (part.has("unk_id")) {
      unknown_ = part.number("unk_id");
      if (static_cast<size_t>(unknown_) >= tokens().size())
        part.fail(fmt::format("unk_id is {}, and there are {} tokens", unknown_, tokens().size()));
    }
    unknown_score_ = *std::ranges::min_element(scores_) - kUnknownPenalty;
    byte_ids_.fill(kNoToken);
    if (part.flag("byte_fallback", false)) {
      for (size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = find(byte_token(static_cast<unsigned char>(byte)));
    }
  }

  void encode(std::string_view piece, std::vector<int32_t>& ids) const override {
    thread_local std::vector<Node> best;
    find_best(piece, best);
    // Backwards along the best path; unknown characters beside each other are one.
    thread_local std::vector<std::pair<size_t, size_t>> parts;
    parts.clear();
    bool in_unknown = false;
    for (size_t end = piece.size(); end > 0; end = best[end].begin) {
      const bool is_unknown = best[end].id == unknown_;
      if (is_unknown && in_unknown) {
        parts.back().first = best[end].begin;
      } else {
        parts.emplace_back(best[end].begin, end);
      }
      in_unknown = is_unknown;
    }
    for (size_t i = parts.size(); i-- > 0;) add(piece.substr(parts[i].first, parts[i].second - parts[i].first), ids);
  }

 private:
  struct Node {
    double score = 0;
    size_t begin = kUnreached;
    int32_t id = kNoToken;
  };
  static constexpr size_t kUnreached = std::numeric_limits<size_t>::max();

  int32_t find(std::string_view token) const {
    int32_t node = ByteTrie::kRoot;
    for (size_t i = 0; i < token.size() && node != ByteTrie::kNone; ++i)
      node = trie_.next(node, static_cast<unsigned char>(token[i]));
    return node == ByteTrie::kNone ? kNoToken : trie_.value(node);
  }

  // For every end of a token, the best path there. Of equal paths the one whose last token is longer stays.
  void find_best(std::string_view piece, std::vector<Node>& best) const {
    best.assign(piece.size() + 1, Node{});
    EncodingBudget& budget = EncodingBudget::current();
    for (size_t begin = 0; begin < piece.size();) {
      const double score_here = best[begin].score;
      const size_t character_size = decode_utf8(piece, begin).size;
      const auto offer = [&](size_t end, double score, int32_t id) {
        if (best[end].begin == kUnreached || score > best[end].score) best[end] = {score, begin, id};
      };
      bool character_has_token = false;
      int32_t node = ByteTrie::kRoot;
      size_t end = begin;
      while (end < piece.size()) {
        node = trie_.next(node, static_cast<unsigned char>(piece[end++]));
        if (node == ByteTrie::kNone) break;
        const int32_t id = trie_.value(node);
        if (id == ByteTrie::kNone) continue;
        offer(end, scores_[static_cast<size_t>(id)] + score_here, id);
        character_has_token = character_has_token || end - begin == character_size;
      }
      budget.spend(end - begin, where_);
      if (!character_has_token) {
        if (unknown_ == kNoToken) {
          throw Error(ErrorKind::kCorrupt, "the text has a character without a token, and unk_id names none for it",
                      where_, "Use the tokenizer with the vocabulary that it was published with.");
        }
        offer(begin + character_size, unknown_score_ + score_here, unknown_);
      }
      begin += character_size;
    }
  }

  void add(std::string_view part, std::vector<int32_t>& ids) const {
    if (const int32_t id = find(part); id != kNoToken) {
      ids.push_back(id);
      return;
    }
    if (std::ranges::all_of(part, [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)] != kNoToken; })) {
      for (const char byte : part) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
    } else {
      ids.push_back(unknown_);
    }
  }

  std::string where_;
  std::vector<double> scores_;
  ByteTrie trie_;
  std::array<int32_t, 256> byte_ids_{};
  int32_t unknown_ = kNoToken;
  double unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<TokenModel> read_unigram_model(const TokenizerPart& part) {
  part.require_known_keys({"type", "unk_id", "vocab", "byte_fallback"});
  const nlohmann::json& list = part.list("vocab");
  if (list.empty()) part.fail("\"vocab\" is empty");
  std::vector<std::string> tokens;
  std::vector<double> scores;
  std::unordered_map<std::string, size_t> ids;
  for (const nlohmann::json& entry : list) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      part.fail(fmt::format("vocab[{}] is not a token and its score", tokens.size()));
    tokens.push_back(entry[0].get<std::string>());
    require_token_size(part, tokens.back(), tokens.size() - 1);
    scores.push_back(entry[1].get<double>());
    if (const auto [first, is_new] = ids.emplace(tokens.back(), tokens.size() - 1); !is_new)
      part.fail(fmt::format("vocab[{}] is \"{}\", as vocab[{}] is", tokens.size() - 1, tokens.back(), first->second));
  }
  return std::make_unique<UnigramModel>(part, std::move(tokens), std::move(scores));
}

}  // namespace causeway::formats
