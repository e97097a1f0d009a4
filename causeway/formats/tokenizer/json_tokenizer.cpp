#include "causeway/formats/tokenizer/json_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/hash.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/tokenizer/added_tokens.h"
#include "causeway/formats/tokenizer/gpt2_scanner.h"
#include "causeway/formats/tokenizer/piece_cache.h"
#include "causeway/formats/tokenizer/post_processor.h"
#include "causeway/formats/tokenizer/pre_tokenizer.h"
#include "causeway/formats/tokenizer/text_normalizer.h"
#include "causeway/formats/tokenizer/token_decoder.h"
#include "causeway/formats/tokenizer/token_model.h"
#include "causeway/formats/tokenizer/unicode_classes.h"
#include "causeway/formats/tokenizer/unicode_text.h"

namespace causeway::formats {
namespace {

constexpr const char* kHint = "Fetch the tokenizer again, or write it with the program that made it.";
constexpr std::string_view kEndings[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

// What eos_token says: a text, or an object with its content.
std::optional<std::string> ending_in_config(const std::string& config, const std::string& name) {
  const nlohmann::json json =
      parse_json(config, {.name = "the tokenizer's configuration", .where = name, .hint = kHint});
  const TokenizerPart part(json, "", name);
  if (!part.has("eos_token")) return std::nullopt;
  if (part.value("eos_token").is_object()) return part.part("eos_token").text("content");
  return part.text("eos_token");
}

}  // namespace

struct JsonTokenizer::State {
  std::string json, config, name;
  std::unique_ptr<TextNormalizer> normalizer;   // may be null
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // may be null
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<PostProcessor> post_processor;  // may be null
  std::unique_ptr<TokenDecoder> decoder;          // may be null
  AddedTokens added;
  std::vector<std::string> tokens;  // by id, as they are decoded
  std::vector<bool> special;        // by id
  bool may_cut = false;
  std::optional<int32_t> end_of_text;
  std::string fingerprint;
  PieceCachePool caches;

  void read(const TokenizerPart& root);
  void read_added_tokens(const TokenizerPart& root);
  void read_end_of_text(const std::string& config_name);
  void encode(std::string_view text, bool special_tokens, std::vector<int32_t>& ids);
  void encode_segment(std::string_view text, bool starts_input, PieceCache& cache, std::vector<int32_t>& ids) const;
};

void JsonTokenizer::State::read(const TokenizerPart& root) {
  root.require_known_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                           "post_processor", "decoder", "model"});
  if (root.has("version") && root.value("version") != "1.0")
    root.refuse(fmt::format("the version {}",
                            root.value("version").dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)));
  for (const char* key : {"truncation", "padding"}) {
    if (!root.has(key)) continue;
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the {} is not interpreted: it would change what texts become", key), root.where(key),
                fmt::format("Set \"{}\" to null.", key));
  }
  if (root.has("normalizer")) normalizer = read_normalizer(root.part("normalizer"));
  if (root.has("pre_tokenizer")) pre_tokenizer = read_pre_tokenizer(root.part("pre_tokenizer"));
  if (pre_tokenizer != nullptr && pre_tokenizer->marks_first_piece() && normalizer != nullptr &&
      !normalizer->keeps_start())
    root.part("pre_tokenizer")
        .refuse("prepend_scheme \"first\" behind a normalizer that may change where a text begins");
  model = read_token_model(root.part("model"));
  tokens = model->tokens();
  read_added_tokens(root);
  if (root.has("post_processor"))
    post_processor = read_post_processor(root.part("post_processor"), static_cast<int64_t>(tokens.size()));
  if (root.has("decoder")) decoder = read_decoder(root.part("decoder"));
  // Of the normalizers only none is known to change nothing across a cut.
  may_cut = normalizer == nullptr && pre_tokenizer != nullptr && pre_tokenizer->may_cut_before_spaces() &&
            !added.cross_spaces();
}

void JsonTokenizer::State::read_added_tokens(const TokenizerPart& root) {
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
  special.assign(tokens.size(), false);
  for (const AddedToken& token : list)
    if (token.special) special[static_cast<size_t>(token.id)] = true;
  // What is looked for in normalized text is decoded as it stands there.
  for (const AddedToken& token : list)
    if (token.normalized && normalizer != nullptr)
      tokens[static_cast<size_t>(token.id)] = normalizer->apply(token.content);
  added = AddedTokens(std::move(list), normalizer.get(), root.where("added_tokens"));
}

void JsonTokenizer::State::read_end_of_text(const std::string& config_name) {
  const std::optional<std::string> said = config.empty() ? std::nullopt : ending_in_config(config, config_name);
  if (!said) {
    for (const std::string_view ending : kEndings) {
      const auto found = std::ranges::find_if(
          added.tokens(), [&](const AddedToken& token) { return token.special && token.content == ending; });
      if (found == added.tokens().end()) continue;
      end_of_text = found->id;
      return;
    }
    return;
  }
  const auto in_added = std::ranges::find(added.tokens(), *said, &AddedToken::content);
  const auto in_model = std::ranges::find(model->tokens(), *said);
  if (in_added != added.tokens().end()) {
    end_of_text = in_added->id;
  } else if (in_model != model->tokens().end()) {
    end_of_text = static_cast<int32_t>(in_model - model->tokens().begin());
  } else {
    throw Error(ErrorKind::kCorrupt, fmt::format("eos_token is \"{}\", which is no token of the vocabulary", *said),
                config_name, kHint);
  }
}

void JsonTokenizer::State::encode(std::string_view text, bool special_tokens, std::vector<int32_t>& ids) {
  if (const size_t invalid = first_invalid_byte(text); invalid < text.size()) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("the text is not UTF-8 (byte {} of it)", invalid), name,
                "Give text in UTF-8, or use the tokenizer \"bytes\".");
  }
  const PieceCachePool::Lease cache(caches);
  for (const AddedTokens::Span& span : added.find(text, false, special_tokens)) {
    if (span.id) {
      ids.push_back(*span.id);
      continue;
    }
    std::string_view segment = text.substr(span.begin, span.end - span.begin);
    std::string normalized;
    if (normalizer != nullptr) segment = normalized = normalizer->apply(std::string(segment));
    for (const AddedTokens::Span& inner : added.find(segment, true, special_tokens)) {
      if (inner.id) {
        ids.push_back(*inner.id);
      } else {
        encode_segment(segment.substr(inner.begin, inner.end - inner.begin), span.begin == 0 && inner.begin == 0,
                       *cache, ids);
      }
    }
  }
}

void JsonTokenizer::State::encode_segment(std::string_view text, bool starts_input, PieceCache& cache,
                                          std::vector<int32_t>& ids) const {
  const auto encode_piece = [&](std::string_view piece) {
    cache.encode(piece, ids, [&](std::string_view one, std::vector<int32_t>& to) { model->encode(one, to); });
  };
  if (pre_tokenizer == nullptr) return encode_piece(text);
  TextPieces pieces{std::string(text), {{0, text.size()}}, starts_input};
  pre_tokenizer->apply(pieces);
  for (const TextPieces::Piece& piece : pieces.pieces) encode_piece(pieces.view(piece));
}

JsonTokenizer::JsonTokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
JsonTokenizer::JsonTokenizer(JsonTokenizer&&) noexcept = default;
JsonTokenizer::~JsonTokenizer() = default;

JsonTokenizer JsonTokenizer::load(const std::filesystem::path& directory) {
  const std::filesystem::path config = directory / kTokenizerConfigName;
  std::error_code code;
  return parse(read_text_file(directory / kTokenizerJsonName, kMostJsonBytes),
               std::filesystem::exists(config, code) ? read_text_file(config, kMostJsonBytes) : "",
               (directory / kTokenizerJsonName).string());
}

JsonTokenizer JsonTokenizer::parse(std::string json, std::string config, const std::string& name) {
  auto state = std::make_unique<State>();
  const nlohmann::json root =
      parse_json(json, {.name = "the tokenizer", .where = name, .hint = kHint, .keys_may_repeat = false});
  state->json = std::move(json);
  state->config = std::move(config);
  state->name = name;
  state->read(TokenizerPart(root, "", name));
  state->read_end_of_text((std::filesystem::path(name).parent_path() / kTokenizerConfigName).string());
  state->fingerprint =
      hash_text(fmt::format("{} {}", root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                            state->end_of_text.value_or(-1)))
          .hex();
  return JsonTokenizer(std::move(state));
}

void JsonTokenizer::encode_to(std::string_view text, std::vector<int32_t>& ids) const {
  state_->encode(text, false, ids);
}

std::vector<int32_t> JsonTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  state_->encode(text, options.read_special_tokens, ids);
  if (!options.add_special_tokens || state_->post_processor == nullptr) return ids;
  return state_->post_processor->apply(std::move(ids));
}

std::string JsonTokenizer::decode(std::span<const int32_t> ids) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<size_t>(id) >= state_->tokens.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("token id {} is outside the vocabulary of {} tokens", id, state_->tokens.size()),
                  state_->name, "Decode with the tokenizer that made the ids.");
    }
    tokens.push_back(state_->tokens[static_cast<size_t>(id)]);
  }
  if (state_->decoder == nullptr) return fmt::format("{}", fmt::join(tokens, " "));
  return fmt::format("{}", fmt::join(state_->decoder->apply(std::move(tokens)), ""));
}

bool JsonTokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < state_->special.size() && state_->special[static_cast<size_t>(id)];
}

size_t JsonTokenizer::cut_position(std::string_view text, size_t from) const {
  if (!state_->may_cut) return text.size();
  // Between two letters of ASCII, so that whichever Unicode the expressions know makes no difference.
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (size_t position = std::max<size_t>(from, 1); position + 1 < text.size(); ++position) {
    if (text[position] == ' ' && is_letter(text[position - 1]) && is_letter(text[position + 1])) return position;
  }
  return text.size();
}

int64_t JsonTokenizer::vocabulary_size() const { return static_cast<int64_t>(state_->tokens.size()); }
std::optional<int32_t> JsonTokenizer::end_of_text() const { return state_->end_of_text; }
std::string JsonTokenizer::fingerprint() const { return state_->fingerprint; }

std::map<std::string, std::string> JsonTokenizer::files() const {
  std::map<std::string, std::string> files{{std::string(kTokenizerJsonName), state_->json}};
  if (!state_->config.empty()) files[std::string(kTokenizerConfigName)] = state_->config;
  return files;
}

}  // namespace causeway::formats
