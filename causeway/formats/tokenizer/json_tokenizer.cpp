#include "causeway/formats/tokenizer/json_tokenizer.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/json_document.h"
#include "causeway/base/utf8.h"
#include "causeway/formats/tokenizer/added_tokens.h"
#include "causeway/formats/tokenizer/byte_fallback.h"
#include "causeway/formats/tokenizer/encoding_budget.h"
#include "causeway/formats/tokenizer/gpt2_scanner.h"
#include "causeway/formats/tokenizer/piece_cache.h"
#include "causeway/formats/tokenizer/post_processor.h"
#include "causeway/formats/tokenizer/pre_tokenizer.h"
#include "causeway/formats/tokenizer/text_normalizer.h"
#include "causeway/formats/tokenizer/token_decoder.h"
#include "causeway/formats/tokenizer/token_model.h"
#include "causeway/formats/tokenizer/tokenizer_part.h"
#include "causeway/formats/tokenizer/unicode_classes.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

constexpr std::string_view kEndings[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// Classes of transformers that take everything from tokenizer.json; others build their own from its vocabulary, with
// or without a space in front.
constexpr std::string_view kClassesOfTheFile[] = {"PreTrainedTokenizerFast", "TokenizersBackend"};

bool is_of_type(const nlohmann::json& part, std::string_view type) {
  return part.is_object() && part.contains("type") && part["type"] == type;
}

// Calls visit(part) for a normalizer or pre-tokenizer and the steps of a sequence.
void visit_steps(nlohmann::json& part, const char* steps, const std::function<void(nlohmann::json&)>& visit) {
  visit(part);
  if (part.is_object() && part.contains(steps) && part[steps].is_array())
    for (nlohmann::json& one : part[steps]) visit_steps(one, steps, visit);
}

// What tokenizer_config.json says of a space in front of a text, put into tokenizer.json's own words.
void set_prefix_space(nlohmann::json& root, const TokenizerSettings& settings, const std::string& config) {
  const std::string& name = settings.tokenizer_class;
  if (!root.is_object() || std::ranges::find(kClassesOfTheFile, name) != std::end(kClassesOfTheFile)) return;
  std::optional<bool> wanted = settings.add_prefix_space;
  if (!wanted && name.starts_with("GPT2Tokenizer")) wanted = false;
  if (!wanted) return;
  bool has_byte_level = false, adds_space = false;
  if (root.contains("pre_tokenizer"))
    visit_steps(root["pre_tokenizer"], "pretokenizers", [&](nlohmann::json& step) {
      if (is_of_type(step, "ByteLevel")) {
        has_byte_level = true;
        step["add_prefix_space"] = *wanted;
      } else if (is_of_type(step, "Metaspace")) {
        adds_space = adds_space || (step.value("prepend_scheme", nlohmann::json("always")) != "never" &&
                                    step.value("add_prefix_space", nlohmann::json(true)) != false);
      }
    });
  if (has_byte_level || !settings.add_prefix_space) return;
  if (root.contains("normalizer"))
    visit_steps(root["normalizer"], "normalizers",
                [&](nlohmann::json& step) { adds_space = adds_space || is_of_type(step, "Prepend"); });
  if (adds_space == *wanted) return;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("add_prefix_space is {}, and tokenizer.json {} a space in front of a text", *wanted,
                          adds_space ? "puts" : "does not put"),
              config, "Write the tokenizer again with the program that made it, or take add_prefix_space out.");
}

}  // namespace

struct JsonTokenizer::State {
  std::string json, name;
  TokenizerSettingsFiles settings_files;
  std::unique_ptr<TextNormalizer> normalizer;   // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<TokenDecoder> decoder;  // may be null
  AroundText around;
  AddedTokens added;
  std::vector<std::string> tokens;                // by id, as they are decoded
  std::vector<bool> special;                      // by id
  bool may_cut = false, may_cut_special = false;  // where special tokens are text, and where they are read
  std::optional<int32_t> begin_of_text, end_of_text;
  std::string fingerprint;
  PieceCachePool caches;

  // Returns what the settings change, as add_settings_tokens() does.
  std::string read(const TokenizerPart& root, const TokenizerSettings& settings);
  std::string read_added_tokens(const TokenizerPart& root, const TokenizerSettings& settings);
  std::optional<int32_t> id_of(const std::string& content) const;
  void read_end_of_text(const TokenizerSettings& settings);
  void encode(std::string_view text, bool special_tokens, std::vector<int32_t>& ids);
  void encode_segment(std::string_view text, bool starts_input, PieceCache& cache, std::vector<int32_t>& ids) const;
  void encode_piece(std::string_view piece, PieceCache& cache, std::vector<int32_t>& ids) const;
  void encode_spans(std::string_view text, bool special_tokens, std::vector<int32_t>& ids,
                    std::vector<TextSpan>& spans);
  void add_spans(std::string_view piece, std::span<const TextSpan> origins, std::span<const int32_t> ids,
                 std::vector<TextSpan>& spans) const;
  void require_utf8(std::string_view text) const;
};

std::string JsonTokenizer::State::read(const TokenizerPart& root, const TokenizerSettings& settings) {
  root.require_known_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                           "post_processor", "decoder", "model"});
  if (root.has("version") && root.value("version") != "1.0")
    root.refuse(fmt::format("the version {}",
                            root.value("version").dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
  // What training left there; a text is encoded whole, as transformers does unless it is told otherwise.
  for (const char* key : {"truncation", "padding"})
    if (root.has(key) && !root.value(key).is_object()) root.fail(fmt::format("\"{}\" is not an object", key));
  if (root.has("normalizer")) normalizer = read_normalizer(root.part("normalizer"));
  if (root.has("pre_tokenizer")) pre_tokenizer = read_pre_tokenizer(root.part("pre_tokenizer"));
  if (pre_tokenizer != nullptr && pre_tokenizer->marks_first_piece() && normalizer != nullptr &&
      !normalizer->keeps_start())
    root.part("pre_tokenizer")
        .refuse("prepend_scheme \"first\" behind a normalizer that may change where a text begins");
  model = read_token_model(root.part("model"));
  tokens = model->tokens();
  std::string changes = read_added_tokens(root, settings);
  if (root.has("post_processor"))
    around = read_post_processor(root.part("post_processor"), static_cast<int64_t>(tokens.size()));
  if (root.has("decoder")) decoder = read_decoder(root.part("decoder"));
  // Of the normalizers only none is known to change nothing across a cut.
  const bool may = normalizer == nullptr && pre_tokenizer != nullptr && pre_tokenizer->may_cut_before_spaces();
  may_cut = may && !added.cross_spaces(false);
  may_cut_special = may && !added.cross_spaces(true);
  read_end_of_text(settings);
  return changes;
}

std::string JsonTokenizer::State::read_added_tokens(const TokenizerPart& root, const TokenizerSettings& settings) {
  std::unordered_map<std::string, size_t> ids;
  for (size_t id = 0; id < tokens.size(); ++id) ids.emplace(tokens[id], id);
  std::vector<AddedToken> list;
  if (root.has("added_tokens")) {
    for (const TokenizerPart& part : root.parts("added_tokens")) {
      part.require_known_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      const bool special_token = part.flag("special", false);
      AddedToken token{part.number("id"),
                       part.text("content"),
                       part.flag("single_word", false),
                       part.flag("lstrip", false),
                       part.flag("rstrip", false),
                       part.flag("normalized", !special_token),
                       special_token};
      const auto [known, is_new] = ids.emplace(token.content, tokens.size());
      if (is_new) tokens.push_back(token.content);
      if (static_cast<size_t>(token.id) != known->second) {
        part.fail(fmt::format("the added token \"{}\" has the id {} where {} {}", token.content, token.id,
                              known->second, is_new ? "is the next one that is free" : "is its id in the vocabulary"));
      }
      list.push_back(std::move(token));
    }
  }
  std::string changes = add_settings_tokens(
      settings, static_cast<int32_t>(tokens.size()),
      [&](const std::string& content) -> std::optional<int32_t> {
        const auto known = ids.find(content);
        return known == ids.end() ? std::nullopt : std::optional(static_cast<int32_t>(known->second));
      },
      list);
  for (const AddedToken& token : list)
    if (static_cast<size_t>(token.id) >= tokens.size()) tokens.push_back(token.content);
  special.assign(tokens.size(), false);
  for (const AddedToken& token : list)
    if (token.special) special[static_cast<size_t>(token.id)] = true;
  // What is looked for in normalized text is decoded as it stands there.
  for (const AddedToken& token : list)
    if (token.normalized && normalizer != nullptr)
      tokens[static_cast<size_t>(token.id)] = normalizer->apply(token.content);
  added = AddedTokens(std::move(list), normalizer.get(), root.where("added_tokens"));
  return changes;
}

// Named tokens are among the added ones.
std::optional<int32_t> JsonTokenizer::State::id_of(const std::string& content) const {
  const auto found = std::ranges::find(added.tokens(), content, &AddedToken::content);
  return found == added.tokens().end() ? std::nullopt : std::optional(found->id);
}

void JsonTokenizer::State::read_end_of_text(const TokenizerSettings& settings) {
  if (settings.begin_of_text) begin_of_text = id_of(*settings.begin_of_text);
  if (settings.end_of_text) {
    end_of_text = id_of(*settings.end_of_text);
    return;
  }
  for (const std::string_view ending : kEndings) {
    const auto found = std::ranges::find_if(
        added.tokens(), [&](const AddedToken& token) { return token.special && token.content == ending; });
    if (found == added.tokens().end()) continue;
    end_of_text = found->id;
    return;
  }
}

void JsonTokenizer::State::require_utf8(std::string_view text) const {
  if (const size_t invalid = first_invalid_byte(text); invalid < text.size()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the text is not UTF-8 (byte {} of it)", invalid), name,
                "Give text in UTF-8, or use the tokenizer \"bytes\".");
  }
}

void JsonTokenizer::State::encode(std::string_view text, bool special_tokens, std::vector<int32_t>& ids) {
  require_utf8(text);
  const EncodingBudget::Scope budget(text.size());
  const PieceCachePool::Lease cache(caches);
  added.for_each_segment(
      text, normalizer.get(), special_tokens, [&](int32_t id) { ids.push_back(id); },
      [&](std::string_view segment, bool starts_input) { encode_segment(segment, starts_input, *cache, ids); });
}

void JsonTokenizer::State::encode_segment(std::string_view text, bool starts_input, PieceCache& cache,
                                          std::vector<int32_t>& ids) const {
  if (pre_tokenizer == nullptr) return encode_piece(text, cache, ids);
  TextPieces pieces{std::string(text), {{0, text.size()}}, {}, starts_input};
  pre_tokenizer->apply(pieces);
  for (const TextPieces::Piece& piece : pieces.pieces) encode_piece(pieces.view(piece), cache, ids);
}

void JsonTokenizer::State::encode_piece(std::string_view piece, PieceCache& cache, std::vector<int32_t>& ids) const {
  cache.encode(piece, ids, [&](std::string_view one, std::vector<int32_t>& to) { model->encode(one, to); });
}

void JsonTokenizer::State::encode_spans(std::string_view text, bool special_tokens, std::vector<int32_t>& ids,
                                        std::vector<TextSpan>& spans) {
  require_utf8(text);
  const EncodingBudget::Scope budget(text.size());
  const PieceCachePool::Lease cache(caches);
  added.for_each_tracked_segment(
      text, normalizer.get(), special_tokens,
      [&](int32_t id, TextSpan span) {
        ids.push_back(id);
        spans.push_back(span);
      },
      [&](std::string_view segment, std::span<const TextSpan> origins, bool starts_input) {
        TextPieces pieces{std::string(segment), {{0, segment.size()}}, {origins.begin(), origins.end()}, starts_input};
        if (pre_tokenizer != nullptr) pre_tokenizer->apply(pieces);
        for (const TextPieces::Piece& piece : pieces.pieces) {
          const size_t before = ids.size();
          encode_piece(pieces.view(piece), *cache, ids);
          add_spans(pieces.view(piece), std::span(pieces.origins).subspan(piece.begin, piece.end - piece.begin),
                    std::span(ids).subspan(before), spans);
        }
      });
}

// A token covers its own text, or one byte where it stands for a byte by its name. The unknown token covers a
// character, and those behind it up to where the next token begins. Where that does not come out even (pieces with
// prefixes), each token covers the whole piece.
void JsonTokenizer::State::add_spans(std::string_view piece, std::span<const TextSpan> origins,
                                     std::span<const int32_t> ids, std::vector<TextSpan>& spans) const {
  const auto size_of = [&](int32_t id, size_t at) -> size_t {
    const std::string_view token = model->tokens()[static_cast<size_t>(id)], rest = piece.substr(at);
    if (!token.empty() && rest.starts_with(token)) return token.size();
    return !rest.empty() && byte_of_token(token) == static_cast<unsigned char>(rest.front()) ? 1 : 0;
  };
  std::vector<TextSpan> ranges(ids.size());
  size_t begin = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t size = size_of(ids[i], begin);
    if (size == 0 && begin < piece.size()) {
      size = decode_utf8(piece, begin).size;
      // Of two unknown ones in a row each is a character.
      const bool extends = i + 1 == ids.size() || ids[i + 1] != ids[i];
      while (extends && begin + size < piece.size() && (i + 1 == ids.size() || size_of(ids[i + 1], begin + size) == 0))
        size += decode_utf8(piece, begin + size).size;
    }
    ranges[i] = {begin, begin + size};
    begin += size;
  }
  if (begin != piece.size()) std::ranges::fill(ranges, TextSpan{0, piece.size()});
  for (const TextSpan& range : ranges) {
    const size_t at = range.begin < origins.size() ? origins[range.begin].begin : origins.back().end;
    spans.push_back(joined_origin(origins.subspan(range.begin, range.end - range.begin), at));
  }
}

JsonTokenizer::JsonTokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
JsonTokenizer::JsonTokenizer(JsonTokenizer&&) noexcept = default;
JsonTokenizer::~JsonTokenizer() = default;

JsonTokenizer JsonTokenizer::load(const std::filesystem::path& directory) {
  return parse(read_text_file(directory / kTokenizerJsonName, kMostJsonBytes),
               read_tokenizer_settings_files(directory.string()), (directory / kTokenizerJsonName).string());
}

JsonTokenizer JsonTokenizer::parse(std::string json, TokenizerSettingsFiles settings_files, const std::string& name) {
  auto state = std::make_unique<State>();
  nlohmann::json root =
      parse_json(json, {.name = "the tokenizer", .where = name, .hint = kTokenizerHint, .keys_may_repeat = false});
  const std::filesystem::path directory = std::filesystem::path(name).parent_path();
  const TokenizerSettings settings = read_tokenizer_settings(settings_files, directory.string());
  state->json = std::move(json);
  state->settings_files = std::move(settings_files);
  state->name = name;
  set_prefix_space(root, settings, (directory / kTokenizerConfigName).string());
  const std::string changes = state->read(TokenizerPart(root, "", name), settings);
  // Neither says anything of the ids.
  for (const char* key : {"truncation", "padding"})
    if (root.contains(key)) root[key] = nullptr;
  state->fingerprint =
      hash_text(fmt::format("{} {}{}", root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                            state->end_of_text.value_or(-1), changes))
          .hex();
  return JsonTokenizer(std::move(state));
}

void JsonTokenizer::encode_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids) const {
  state_->encode(text, read_special_tokens, ids);
}

void JsonTokenizer::encode_spans_to(std::string_view text, bool read_special_tokens, std::vector<int32_t>& ids,
                                    std::vector<TextSpan>& spans) const {
  state_->encode_spans(text, read_special_tokens, ids, spans);
}

AroundText JsonTokenizer::around_text() const { return state_->around; }

std::string JsonTokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  size_t bytes = 0;
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= state_->tokens.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("token id {} is outside the vocabulary of {} tokens", id, state_->tokens.size()),
                  state_->name, "Decode with the tokenizer that made the ids.");
    }
    tokens.push_back(state_->tokens[static_cast<size_t>(id)]);
    bytes += tokens.back().size();
  }
  const EncodingBudget::Scope budget(bytes);
  if (state_->decoder == nullptr) return fmt::format("{}", fmt::join(tokens, " "));
  return fmt::format("{}", fmt::join(state_->decoder->apply(std::move(tokens)), ""));
}

bool JsonTokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < state_->special.size() && state_->special[static_cast<size_t>(id)];
}

size_t JsonTokenizer::cut_position(std::string_view text, size_t from, bool read_special_tokens) const {
  if (!(read_special_tokens ? state_->may_cut_special : state_->may_cut)) return text.size();
  // Between two letters of ASCII, so that whichever Unicode the expressions know makes no difference.
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (size_t position = std::max<size_t>(from, 1); position + 1 < text.size(); ++position) {
    if (text[position] == ' ' && is_letter(text[position - 1]) && is_letter(text[position + 1])) return position;
  }
  return text.size();
}

int64_t JsonTokenizer::vocabulary_size() const { return static_cast<int64_t>(state_->tokens.size()); }
std::optional<int32_t> JsonTokenizer::end_of_text() const { return state_->end_of_text; }
std::optional<int32_t> JsonTokenizer::begin_of_text() const { return state_->begin_of_text; }
std::string JsonTokenizer::fingerprint() const { return state_->fingerprint; }

std::map<std::string, std::string> JsonTokenizer::files() const {
  std::map<std::string, std::string> files = state_->settings_files;
  files[std::string(kTokenizerJsonName)] = state_->json;
  return files;
}

}  // namespace causeway::formats
