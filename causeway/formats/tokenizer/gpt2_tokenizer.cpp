#include "causeway/formats/tokenizer/gpt2_tokenizer.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/tokenizer/byte_characters.h"
#include "causeway/formats/tokenizer/byte_pair_merges.h"
#include "causeway/formats/tokenizer/gpt2_scanner.h"
#include "causeway/formats/tokenizer/piece_cache.h"

namespace causeway::formats {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr const char* kVocabularyHint = "Fetch the vocabulary again, or use the files it was published with.";

std::filesystem::path find_file(const std::filesystem::path& directory, std::string_view first,
                                std::string_view second) {
  for (const std::string_view name : {first, second}) {
    std::error_code code;
    if (std::filesystem::exists(directory / name, code)) return directory / name;
  }
  throw Error(ErrorKind::kNotFound, fmt::format("the tokenizer directory holds neither {} nor {}", first, second),
              directory.string(),
              "Give a directory with vocab.json and merges.txt, or with encoder.json and vocab.bpe.");
}

[[noreturn]] void fail_vocabulary(const std::string& what, const std::string& where) {
  throw Error(ErrorKind::kCorrupt, what, where, kVocabularyHint);
}

}  // namespace

struct Gpt2Tokenizer::State {
  std::string vocabulary_json;
  std::string merges_text;
  std::vector<std::string> tokens;  // bytes, by id
  std::array<int32_t, 256> byte_ids{};
  MergeTable merges{0};
  std::optional<int32_t> end_of_text;
  std::string fingerprint;
  PieceCachePool caches;

  void read_vocabulary(const std::string& where);
  void read_merges(const std::string& where);
  void encode_piece(std::string_view piece, std::vector<int32_t>& ids) const;
};

void Gpt2Tokenizer::State::read_vocabulary(const std::string& where) {
  const nlohmann::json json =
      parse_json(vocabulary_json, {.name = "the vocabulary", .where = where, .hint = kVocabularyHint});
  if (!json.is_object() || json.empty()) fail_vocabulary("the vocabulary is not a JSON object of token to id", where);
  tokens.resize(json.size());
  std::vector<bool> seen(json.size(), false);
  for (const auto& [written, value] : json.items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= tokens.size()) {
      fail_vocabulary(fmt::format("token \"{}\" has the id {}; the {} tokens must have the ids 0 to {}", written,
                                  value.dump(), tokens.size(), tokens.size() - 1),
                      where);
    }
    const auto id = value.get<size_t>();
    if (seen[id]) fail_vocabulary(fmt::format("two tokens have the id {}, one of them \"{}\"", id, written), where);
    seen[id] = true;
    std::optional<std::string> bytes = bytes_of_characters(written);
    if (!bytes || bytes->empty()) {
      fail_vocabulary(fmt::format("token \"{}\" (id {}) is not in GPT-2's writing of bytes", written, id), where);
    }
    tokens[id] = std::move(*bytes);
    if (written == kEndOfText) end_of_text = static_cast<int32_t>(id);
  }
}

void Gpt2Tokenizer::State::read_merges(const std::string& where) {
  std::unordered_map<std::string_view, int32_t> id_of_token;
  for (size_t id = 0; id < tokens.size(); ++id) id_of_token.emplace(tokens[id], static_cast<int32_t>(id));
  std::vector<bool> reachable(tokens.size(), false);
  for (size_t byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const auto found = id_of_token.find(std::string_view(&text, 1));
    if (found == id_of_token.end())
      fail_vocabulary(fmt::format("the vocabulary has no token for byte {}", byte), where);
    byte_ids[byte] = found->second;
    reachable[static_cast<size_t>(found->second)] = true;
  }
  struct Line {
    size_t number;
    std::string_view text;
  };
  std::vector<Line> lines;
  size_t number = 0;
  for (std::string_view rest = merges_text; !rest.empty();) {
    const size_t end = rest.find('\n');
    std::string_view text = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    ++number;
    if (text.empty() || (number == 1 && text.starts_with("#version"))) continue;
    lines.push_back({number, text});
  }
  merges = MergeTable(lines.size());
  for (size_t rank = 0; rank < lines.size(); ++rank) {
    const std::string_view text = lines[rank].text;
    const std::string line = fmt::format("{}, line {}", where, lines[rank].number);
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      fail_vocabulary(fmt::format("\"{}\" is not a merge: two tokens with one space between them", text), line);
    }
    const std::string_view written[2] = {text.substr(0, space), text.substr(space + 1)};
    int32_t parts[2] = {};
    std::string merged;
    for (int side = 0; side < 2; ++side) {
      const std::optional<std::string> bytes = bytes_of_characters(written[side]);
      const auto found = bytes ? id_of_token.find(*bytes) : id_of_token.end();
      if (found == id_of_token.end()) {
        fail_vocabulary(fmt::format("\"{}\" is not in the vocabulary", written[side]), line);
      }
      if (!reachable[static_cast<size_t>(found->second)]) {
        fail_vocabulary(fmt::format("\"{}\" is merged before any line makes it", written[side]), line);
      }
      parts[side] = found->second;
      merged += *bytes;
    }
    const auto result = id_of_token.find(merged);
    if (result == id_of_token.end()) {
      fail_vocabulary(fmt::format("\"{}\" makes a token that is not in the vocabulary", text), line);
    }
    if (!merges.insert(parts[0], parts[1], {static_cast<int32_t>(rank), result->second})) {
      fail_vocabulary(fmt::format("\"{}\" is merged twice", text), line);
    }
    reachable[static_cast<size_t>(result->second)] = true;
  }
  std::string identity = "gpt2";
  for (const std::string& token : tokens) identity += fmt::format(" {}:{}", token.size(), token);
  for (const Line& line : lines) identity.append("\n").append(line.text);
  fingerprint = hash_text(identity).hex();
}

void Gpt2Tokenizer::State::encode_piece(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("a run of {} bytes without a break cannot be tokenized", piece.size()), "gpt2 tokenizer",
                "Check that the input is text.");
  }
  thread_local std::vector<int32_t> symbols;
  symbols.clear();
  for (const char byte : piece) symbols.push_back(byte_ids[static_cast<unsigned char>(byte)]);
  apply_merges(merges, symbols, ids);
}

Gpt2Tokenizer::Gpt2Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Gpt2Tokenizer::Gpt2Tokenizer(Gpt2Tokenizer&&) noexcept = default;
Gpt2Tokenizer::~Gpt2Tokenizer() = default;

Gpt2Tokenizer Gpt2Tokenizer::load(const std::filesystem::path& directory) {
  const std::filesystem::path vocabulary = find_file(directory, "vocab.json", "encoder.json");
  const std::filesystem::path merges = find_file(directory, "merges.txt", "vocab.bpe");
  return parse(read_text_file(vocabulary, kMostJsonBytes), read_text_file(merges, kMostJsonBytes), vocabulary.string(),
               merges.string());
}

Gpt2Tokenizer Gpt2Tokenizer::parse(std::string vocabulary_json, std::string merges_text,
                                   const std::string& vocabulary_name, const std::string& merges_name) {
  auto state = std::make_unique<State>();
  state->vocabulary_json = std::move(vocabulary_json);
  state->merges_text = std::move(merges_text);
  state->read_vocabulary(vocabulary_name);
  state->read_merges(merges_name);
  return Gpt2Tokenizer(std::move(state));
}

void Gpt2Tokenizer::encode_to(std::string_view text, std::vector<int32_t>& ids) const {
  const PieceCachePool::Lease cache(state_->caches);
  for (size_t position = 0; position < text.size();) {
    const std::string_view piece = text.substr(position, gpt2_piece_size(text, position));
    position += piece.size();
    (*cache).encode(piece, ids, [&](std::string_view one, std::vector<int32_t>& to) { state_->encode_piece(one, to); });
  }
}

std::string Gpt2Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= state_->tokens.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("token id {} is outside the vocabulary of {} tokens", id, state_->tokens.size()),
                  "gpt2 tokenizer", "Decode with the tokenizer that made the ids.");
    }
    text += state_->tokens[static_cast<size_t>(id)];
  }
  return text;
}

size_t Gpt2Tokenizer::cut_position(std::string_view text, size_t from) const { return gpt2_cut_position(text, from); }

int64_t Gpt2Tokenizer::vocabulary_size() const { return static_cast<int64_t>(state_->tokens.size()); }

std::optional<int32_t> Gpt2Tokenizer::end_of_text() const { return state_->end_of_text; }

std::string Gpt2Tokenizer::fingerprint() const { return state_->fingerprint; }

std::map<std::string, std::string> Gpt2Tokenizer::files() const {
  return {{"vocab.json", state_->vocabulary_json}, {"merges.txt", state_->merges_text}};
}

}  // namespace causeway::formats
