// Byte-pair encoding (Sennrich et al. 2016) over characters, with the options of tokenizer.json: bytes for characters
// that have no token, a prefix of what continues a word and a suffix of what ends it, pieces that are tokens whole.
#include <array>
#include <limits>
#include <optional>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/added_tokens.h"
#include "causeway/formats/tokenizer/byte_fallback.h"
#include "causeway/formats/tokenizer/byte_pair_merges.h"
#include "causeway/formats/tokenizer/token_model.h"

namespace causeway::formats {
namespace {

class BpeModel final : public TokenModel {
 public:
  BpeModel(const TokenizerPart& part, std::vector<std::string> by_id)
      : TokenModel(std::move(by_id)),
        where_(part.where()),
        unknown_(part.optional_text("unk_token")),
        prefix_(part.optional_text("continuing_subword_prefix").value_or("")),
        suffix_(part.optional_text("end_of_word_suffix").value_or("")),
        fuses_unknown_(part.flag("fuse_unk", false)),
        whole_pieces_first_(part.flag("ignore_merges", false)) {
    ids_.reserve(tokens().size());
    for (size_t id = 0; id < tokens().size(); ++id) ids_.emplace(tokens()[id], static_cast<int32_t>(id));
    for (const std::string* affix : {&prefix_, &suffix_})
      if (affix->size() > AddedTokens::kLongestToken)
        part.fail(fmt::format("a prefix or suffix of {} bytes; at most {} are read", affix->size(),
                              AddedTokens::kLongestToken));
    if (unknown_) unknown_id_ = find(*unknown_);
    character_ids_.assign(kDirectCharacters, kNoToken);
    for (const auto& [token, id] : ids_) {
      if (token.empty()) continue;
      const Utf8Character character = decode_utf8(token, 0);
      if (character.size == token.size() && character.code_point < kDirectCharacters)
        character_ids_[character.code_point] = id;
    }
    byte_ids_.fill(kNoToken);
    if (part.flag("byte_fallback", false))
      for (size_t byte = 0; byte < 256; ++byte) byte_ids_[byte] = find(byte_token(static_cast<unsigned char>(byte)));
    read_merges(part);
  }

  void encode(std::string_view piece, std::vector<int32_t>& ids) const override {
    if (piece.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("a run of {} bytes without a break cannot be tokenized", piece.size()), where_,
                  "Check that the input is text.");
    }
    if (whole_pieces_first_) {
      if (const int32_t id = find(piece); id != kNoToken) {
        ids.push_back(id);
        return;
      }
    }
    thread_local std::vector<int32_t> symbols;
    symbols.clear();
    read_symbols(piece, symbols);
    apply_merges(merges_, symbols, ids);
  }

 private:
  static constexpr uint32_t kDirectCharacters = 0x3000;

  int32_t find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? kNoToken : found->second;
  }

  int32_t character_id(std::string_view piece, size_t begin, const Utf8Character& character) const {
    const bool is_last = begin + character.size == piece.size();
    const bool changes = (begin > 0 && !prefix_.empty()) || (is_last && !suffix_.empty());
    if (changes) {
      return find((begin > 0 ? prefix_ : "") + std::string(piece.substr(begin, character.size)) +
                  (is_last ? suffix_ : ""));
    }
    return character.code_point < kDirectCharacters ? character_ids_[character.code_point]
                                                    : find(piece.substr(begin, character.size));
  }

  void read_symbols(std::string_view piece, std::vector<int32_t>& symbols) const {
    bool unknown_waits = false;
    for (size_t position = 0; position < piece.size();) {
      const Utf8Character character = decode_utf8(piece, position);
      const size_t begin = position;
      position += character.size;
      if (const int32_t id = character_id(piece, begin, character); id != kNoToken) {
        if (unknown_waits) symbols.push_back(unknown_id_);
        unknown_waits = false;
        symbols.push_back(id);
        continue;
      }
      // An unknown character before is written behind these bytes: so does the implementation that files are made for.
      if (add_bytes(piece, begin, character.size, symbols)) continue;
      if (!unknown_) continue;
      if (unknown_id_ == kNoToken) {
        throw Error(
            ErrorKind::kCorrupt,
            fmt::format("the text has a character without a token, and the vocabulary has no \"{}\" for it", *unknown_),
            where_, "Use the tokenizer with the vocabulary that it was published with.");
      }
      if (unknown_waits && !fuses_unknown_) symbols.push_back(unknown_id_);
      unknown_waits = true;
    }
    if (unknown_waits) symbols.push_back(unknown_id_);
  }

  // The tokens of a character's bytes, with prefix and suffix; false when one of them has none.
  bool add_bytes(std::string_view piece, size_t begin, size_t size, std::vector<int32_t>& symbols) const {
    const size_t before = symbols.size();
    const auto add = [&](std::string_view bytes) {
      for (const char byte : bytes) {
        const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
        if (id == kNoToken) return false;
        symbols.push_back(id);
      }
      return true;
    };
    if ((begin == 0 || add(prefix_)) && add(piece.substr(begin, size)) && (begin + size < piece.size() || add(suffix_)))
      return true;
    symbols.resize(before);
    return false;
  }

  static std::pair<std::string, std::string> read_merge(const TokenizerPart& part, const nlohmann::json& merge,
                                                        size_t rank) {
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
        return {text.substr(0, space), text.substr(space + 1)};
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    part.fail(fmt::format("merges[{}] is not two tokens", rank));
  }

  void read_merges(const TokenizerPart& part) {
    const nlohmann::json& list = part.list("merges");
    merges_ = MergeTable(list.size());
    for (size_t rank = 0; rank < list.size(); ++rank) {
      const auto [left, right] = read_merge(part, list[rank], rank);
      const auto known = [&](const std::string& token) {
        const int32_t id = find(token);
        if (id == kNoToken) part.fail(fmt::format("merges[{}]: \"{}\" is not in the vocabulary", rank, token));
        return id;
      };
      const int32_t left_id = known(left), right_id = known(right);
      if (right.size() < prefix_.size())
        part.fail(fmt::format("merges[{}]: \"{}\" is shorter than its prefix", rank, right));
      const int32_t merged = known(left + right.substr(prefix_.size()));
      if (!merges_.insert(left_id, right_id, {static_cast<int32_t>(rank), merged}))
        part.fail(fmt::format("merges[{}]: \"{} {}\" is merged twice", rank, left, right));
    }
  }

  std::string where_;
  std::unordered_map<std::string_view, int32_t> ids_;
  std::vector<int32_t> character_ids_;  // of tokens that are one character, by code point
  std::array<int32_t, 256> byte_ids_{};
  MergeTable merges_{0};
  std::optional<std::string> unknown_;
  int32_t unknown_id_ = kNoToken;
  std::string prefix_, suffix_;
  bool fuses_unknown_, whole_pieces_first_;
};

std::vector<std::string> read_vocabulary(const TokenizerPart& part) {
  const nlohmann::json& vocabulary = part.value("vocab");
  if (!vocabulary.is_object() || vocabulary.empty()) part.fail("\"vocab\" is not an object of token to id");
  std::vector<std::string> tokens(vocabulary.size());
  std::vector<bool> seen(tokens.size(), false);
  for (const auto& [token, value] : vocabulary.items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= tokens.size()) {
      part.fail(fmt::format("token \"{}\" has the id {}; the {} tokens must have the ids 0 to {}", token,
                            value.is_number() ? value.dump() : std::string(value.type_name()), tokens.size(),
                            tokens.size() - 1));
    }
    const auto id = value.get<size_t>();
    if (seen[id]) part.fail(fmt::format("two tokens have the id {}, one of them \"{}\"", id, token));
    seen[id] = true;
    require_token_size(part, token, id);
    tokens[id] = token;
  }
  return tokens;
}

}  // namespace

std::unique_ptr<TokenModel> read_bpe_model(const TokenizerPart& part) {
  part.require_known_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                           "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (part.has("dropout") && part.value("dropout") != 0) part.refuse("dropout of merges");
  return std::make_unique<BpeModel>(part, read_vocabulary(part));
}

void require_token_size(const TokenizerPart& part, std::string_view token, size_t id) {
  if (token.size() <= AddedTokens::kLongestToken) return;
  part.fail(fmt::format("the token with the id {} has {} bytes; at most {} are read", id, token.size(),
                        AddedTokens::kLongestToken));
}

std::unique_ptr<TokenModel> read_token_model(const TokenizerPart& part) {
  // Files of before types were written are BPE where they have merges.
  const std::string type = part.has("type") || !part.has("merges") ? part.type() : "BPE";
  if (type == "BPE") return read_bpe_model(part);
  if (type == "Unigram") return read_unigram_model(part);
  part.refuse(fmt::format("the model \"{}\"", type));
}

}  // namespace causeway::formats
