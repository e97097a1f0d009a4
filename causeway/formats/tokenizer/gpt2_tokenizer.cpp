#include "causeway/formats/tokenizer/gpt2_tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/tokenizer/added_tokens.h"
#include "causeway/formats/tokenizer/byte_characters.h"
#include "causeway/formats/tokenizer/byte_pair_merges.h"
#include "causeway/formats/tokenizer/encoding_budget.h"
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
  TokenizerSettingsFiles settings_files;
  std::vector<std::string> tokens;                      // bytes, by id
  std::unordered_map<std::string, int32_t> id_of_name;  // as the vocabulary writes them
  std::array<int32_t, 256> byte_ids{};
  MergeTable merges{0};
  AddedTokens added;
  std::vector<bool> special;  // by id
  bool adds_prefix_space = false;
  AroundText around;
  std::optional<int32_t> begin_of_text, end_of_text;
  std::string fingerprint;
  PieceCachePool caches;

  void read_vocabulary(const std::string& where);
  void read_merges(const std::string& where);
  void read_settings(const std::string& directory);
  void encode_segment(std::string_view text, PieceCache& cache, std::vector<int32_t>& ids) const;
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
    id_of_name.emplace(written, static_cast<int32_t>(id));
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

void Gpt2Tokenizer::State::read_settings(const std::string& directory) {
  TokenizerSettings settings = read_tokenizer_settings(settings_files, directory);
  const std::string config = (std::filesystem::path(directory) / kTokenizerConfigName).string();
  if (const std::string& name = settings.tokenizer_class;
      !name.empty() && name != "GPT2Tokenizer" && name != "GPT2TokenizerFast") {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("tokenizer_class is \"{}\": of a vocabulary and its merges, GPT2Tokenizer's splitting of "
                            "text alone is known",
                            name),
                config,
                "Write the tokenizer as a tokenizer.json: save_pretrained of transformers' fast tokenizers does.");
  }
  adds_prefix_space = settings.add_prefix_space.value_or(false);
  const auto id_of = [&](const std::string& name) -> std::optional<int32_t> {
    const auto found = id_of_name.find(name);
    return found == id_of_name.end() ? std::nullopt : std::optional(found->second);
  };
  const std::string end_name(kEndOfText);
  // Where the files name no other, it is the token that begins, ends and is unknown.
  bool is_named = false;
  if (id_of(end_name))
    for (std::optional<std::string>* name : {&settings.begin_of_text, &settings.end_of_text, &settings.unknown}) {
      if (!*name) *name = end_name;
      is_named = is_named || *name == end_name;
    }
  if (is_named) {
    AddedToken end;
    end.content = end_name;
    end.normalized = false;
    end.special = true;
    settings.tokens.push_back({end, std::nullopt, ""});
  }
  std::vector<AddedToken> list;
  const std::string changes = add_settings_tokens(settings, static_cast<int32_t>(tokens.size()), id_of, list);
  for (const AddedToken& token : list) {
    if (static_cast<size_t>(token.id) < tokens.size()) continue;
    tokens.push_back(token.content);
    id_of_name.emplace(token.content, token.id);
  }
  special.assign(tokens.size(), false);
  for (const AddedToken& token : list)
    if (token.special) special[static_cast<size_t>(token.id)] = true;
  if (settings.begin_of_text) begin_of_text = id_of(*settings.begin_of_text);
  if (settings.end_of_text) end_of_text = id_of(*settings.end_of_text);
  if (settings.add_bos_token && begin_of_text) around.before = {*begin_of_text};
  if (settings.add_eos_token && end_of_text) around.after = {*end_of_text};
  added = AddedTokens(std::move(list), nullptr, directory);
  // What was there before there were settings keeps its fingerprint.
  std::string further = changes;
  if (adds_prefix_space) further += " add_prefix_space";
  if (end_of_text != id_of(end_name)) further += fmt::format(" ends with {}", end_of_text.value_or(-1));
  if (!further.empty()) fingerprint = hash_text(fingerprint + further).hex();
}

void Gpt2Tokenizer::State::encode_segment(std::string_view text, PieceCache& cache, std::vector<int32_t>& ids) const {
  std::string with_space;
  if (adds_prefix_space && !text.starts_with(' ')) text = with_space = " " + std::string(text);
  for (size_t position = 0; position < text.size();) {
    const std::string_view piece = text.substr(position, gpt2_piece_size(text, position));
    position += piece.size();
    cache.encode(piece, ids, [&](std::string_view one, std::vector<int32_t>& to) { encode_piece(one, to); });
  }
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
               merges.string(), read_tokenizer_settings_files(directory.string()));
}

Gpt2Tokenizer Gpt2Tokenizer::parse(std::string vocabulary_json, std::string merges_text,
                                   const std::string& vocabulary_name, const std::string& merges_name,
                                   TokenizerSettingsFiles settings) {
  auto state = std::make_unique<State>();
  state->vocabulary_json = std::move(vocabulary_json);
  state->merges_text = std::move(merges_text);
  state->settings_files = std::move(settings);
  state->read_vocabulary(vocabulary_name);
  state->read_merges(merges_name);
  state->read_settings(std::filesystem::path(vocabulary_name).parent_path().string());
  return Gpt2Tokenizer(std::move(state));
}

void Gpt2Tokenizer::encode_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids) const {
  const EncodingBudget::Scope budget(text.size());
  const PieceCachePool::Lease cache(state_->caches);
  state_->added.for_each_segment(
      text, nullptr, read_special_tokens, [&](int32_t id) { ids.push_back(id); },
      [&](std::string_view segment, bool /*starts_input*/) { state_->encode_segment(segment, *cache, ids); });
}

void Gpt2Tokenizer::encode_spans_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids,
                                    std::vector<TextSpan>& spans) const {
  const EncodingBudget::Scope budget(text.size());
  const PieceCachePool::Lease cache(state_->caches);
  state_->added.for_each_tracked_segment(
      text, nullptr, read_special_tokens,
      [&](int32_t id, TextSpan span) {
        ids.push_back(id);
        spans.push_back(span);
      },
      [&](std::string_view segment, std::span<const TextSpan> origins, bool /*starts_input*/) {
        size_t begin = origins.front().begin;
        size_t added = state_->adds_prefix_space && !segment.starts_with(' ') ? 1 : 0;
        const size_t before = ids.size();
        state_->encode_segment(segment, *cache, ids);
        for (size_t i = before; i < ids.size(); ++i) {
          const size_t end = begin + state_->tokens[static_cast<size_t>(ids[i])].size() - std::exchange(added, 0);
          // A space that was put in front, alone, is of what it stands in front of.
          spans.push_back({begin, std::max(end, begin + 1)});
          begin = end;
        }
      });
}

AroundText Gpt2Tokenizer::around_text() const { return state_->around; }

bool Gpt2Tokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < state_->special.size() && state_->special[static_cast<size_t>(id)];
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

size_t Gpt2Tokenizer::cut_position(std::string_view text, size_t from, bool read_special_tokens) const {
  if (state_->added.cross_spaces(read_special_tokens)) return text.size();
  size_t position = gpt2_cut_position(text, from);
  // Behind a cut in front of a line break a space would be put.
  while (state_->adds_prefix_space && position < text.size() && text[position] != ' ')
    position = gpt2_cut_position(text, position + 1);
  return position;
}

int64_t Gpt2Tokenizer::vocabulary_size() const { return static_cast<int64_t>(state_->tokens.size()); }

std::optional<int32_t> Gpt2Tokenizer::end_of_text() const { return state_->end_of_text; }
std::optional<int32_t> Gpt2Tokenizer::begin_of_text() const { return state_->begin_of_text; }

std::string Gpt2Tokenizer::fingerprint() const { return state_->fingerprint; }

std::map<std::string, std::string> Gpt2Tokenizer::files() const {
  std::map<std::string, std::string> files = state_->settings_files;
  files["vocab.json"] = state_->vocabulary_json;
  files["merges.txt"] = state_->merges_text;
  return files;
}

}  // namespace causeway::formats
