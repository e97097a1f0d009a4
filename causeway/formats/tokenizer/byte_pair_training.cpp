#include "causeway/formats/tokenizer/byte_pair_training.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& pair) const {
    return (static_cast<size_t>(static_cast<uint32_t>(pair.first)) << 32 | static_cast<uint32_t>(pair.second)) *
           0x9E3779B97F4A7C15;
  }
};

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

struct PairUse {
  int64_t count = 0;
  std::vector<uint32_t> words;  // those that hold or held it, some more than once
};

struct PairCandidate {
  int64_t count;
  Pair pair;
  bool operator<(const PairCandidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  explicit Trainer(const std::map<std::string, int64_t>& words) {
    for (int byte = 0; byte < 256; ++byte) token_id(std::string(1, static_cast<char>(byte)));
    for (const auto& [text, count] : words) {
      Word word{{}, count};
      for (const char byte : text) word.symbols.push_back(static_cast<unsigned char>(byte));
      if (word.symbols.size() < 2) continue;
      words_.push_back(std::move(word));
      const Word& added = words_.back();
      for (size_t i = 0; i + 1 < added.symbols.size(); ++i)
        change({added.symbols[i], added.symbols[i + 1]}, count, static_cast<uint32_t>(words_.size() - 1));
    }
    offer_changed();
  }

  TrainedBytePairs run(size_t tokens) {
    while (trained_.tokens.size() < tokens && !candidates_.empty()) {
      const PairCandidate best = candidates_.top();
      candidates_.pop();
      // Counts have changed since; the pair was offered anew with the one that it has.
      if (const auto found = uses_.find(best.pair); found == uses_.end() || found->second.count != best.count) continue;
      if (best.count < 2) break;
      merge(best.pair);
    }
    return std::move(trained_);
  }

 private:
  int32_t token_id(const std::string& bytes) {
    const auto [found, is_new] = ids_.emplace(bytes, static_cast<int32_t>(trained_.tokens.size()));
    if (is_new) trained_.tokens.push_back(bytes);
    return found->second;
  }

  void change(const Pair& pair, int64_t by, uint32_t word) {
    PairUse& use = uses_[pair];
    use.count += by;
    if (by > 0 && (use.words.empty() || use.words.back() != word)) use.words.push_back(word);
    changed_.push_back(pair);
  }

  void offer_changed() {
    for (const Pair& pair : changed_) {
      const auto found = uses_.find(pair);
      if (found != uses_.end() && found->second.count > 0) candidates_.push({found->second.count, pair});
      if (found != uses_.end() && found->second.count == 0) uses_.erase(found);
    }
    changed_.clear();
  }

  void merge(const Pair& pair) {
    const int32_t merged =
        token_id(trained_.tokens[static_cast<size_t>(pair.first)] + trained_.tokens[static_cast<size_t>(pair.second)]);
    trained_.merges.push_back(pair);
    std::vector<uint32_t> words = std::move(uses_[pair].words);
    std::ranges::sort(words);
    words.erase(std::ranges::unique(words).begin(), words.end());
    for (const uint32_t word : words) merge_in(word, pair, merged);
    std::ranges::sort(changed_);
    changed_.erase(std::ranges::unique(changed_).begin(), changed_.end());
    offer_changed();
  }

  void merge_in(uint32_t index, const Pair& pair, int32_t merged) {
    Word& word = words_[index];
    std::vector<int32_t>& symbols = word.symbols;
    const auto is_pair_at = [&](size_t i) {
      return i + 1 < symbols.size() && symbols[i] == pair.first && symbols[i + 1] == pair.second;
    };
    size_t first = 0;
    while (first < symbols.size() && !is_pair_at(first)) ++first;
    if (first == symbols.size()) return;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) change({symbols[i], symbols[i + 1]}, -word.count, index);
    size_t to = first;
    for (size_t i = first; i < symbols.size(); ++to) {
      const bool merges = is_pair_at(i);
      symbols[to] = merges ? merged : symbols[i];
      i += merges ? 2 : 1;
    }
    symbols.resize(to);
    for (size_t i = 0; i + 1 < symbols.size(); ++i) change({symbols[i], symbols[i + 1]}, word.count, index);
  }

  TrainedBytePairs trained_;
  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairUse, PairHash> uses_;
  std::vector<Pair> changed_;
  std::priority_queue<PairCandidate> candidates_;
};

}  // namespace

TrainedBytePairs train_byte_pairs(const std::map<std::string, int64_t>& words, size_t tokens) {
  CAUSEWAY_CHECK(tokens >= 256);
  return Trainer(words).run(tokens);
}

}  // namespace causeway::formats
