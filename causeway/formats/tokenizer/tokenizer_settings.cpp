#include "causeway/formats/tokenizer/tokenizer_settings.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/json_document.h"
#include "causeway/formats/tokenizer/tokenizer_part.h"

namespace causeway::formats {
namespace {

// In the order in which those that the vocabulary lacks get their ids.
constexpr std::string_view kNamedTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};

class SettingsReader {
 public:
  SettingsReader(const TokenizerSettingsFiles& files, const std::string& directory)
      : directory_(directory),
        config_(parse(files, kTokenizerConfigName)),
        map_(parse(files, kSpecialTokensMapName)),
        added_(parse(files, kAddedTokensName)) {}

  TokenizerSettings run() {
    const TokenizerPart config(config_, "", path(kTokenizerConfigName));
    settings_.tokenizer_class = config.optional_text("tokenizer_class").value_or("");
    if (config.has("add_prefix_space")) settings_.add_prefix_space = config.flag("add_prefix_space");
    settings_.add_bos_token = config.flag("add_bos_token", false);
    settings_.add_eos_token = config.flag("add_eos_token", false);
    collect(config, true);
    if (config.has("added_tokens_decoder")) {
      read_decoder(config.part("added_tokens_decoder"));
    } else {
      collect(TokenizerPart(map_, "", path(kSpecialTokensMapName)), false);
      read_added_tokens(TokenizerPart(added_, "", path(kAddedTokensName)));
    }
    settings_.begin_of_text = content_of("bos_token");
    settings_.end_of_text = content_of("eos_token");
    settings_.unknown = content_of("unk_token");
    for (const auto& [name, one] : named_)
      if (!one.token.content.empty()) settings_.named[name] = one.token.content;
    add_named_tokens();
    return std::move(settings_);
  }

 private:
  std::string path(std::string_view name) const { return (std::filesystem::path(directory_) / name).string(); }

  nlohmann::json parse(const TokenizerSettingsFiles& files, std::string_view name) const {
    const auto file = files.find(std::string(name));
    if (file == files.end() || file->second.empty()) return nlohmann::json::object();
    return parse_json(file->second,
                      {.name = "the tokenizer's configuration", .where = path(name), .hint = kTokenizerHint});
  }

  // A content, or an object around it with flags.
  static AddedToken read_token(const TokenizerPart& part, std::string_view key) {
    AddedToken token;
    token.special = true;
    token.normalized = false;
    if (!part.value(key).is_object()) {
      token.content = part.text(key);
      return token;
    }
    return read_flags(part.part(key), true);
  }

  static AddedToken read_flags(const TokenizerPart& part, bool special_otherwise) {
    AddedToken token;
    token.content = part.text("content");
    token.special = part.flag("special", special_otherwise);
    token.single_word = part.flag("single_word", false);
    token.lstrip = part.flag("lstrip", false);
    token.rstrip = part.flag("rstrip", false);
    token.normalized = part.flag("normalized", !token.special);
    return token;
  }

  // What a file names. Of a key that both have the later file counts.
  void collect(const TokenizerPart& part, bool takes_further_names) {
    for (const auto& [key, value] : part.json().items()) {
      const bool is_named = std::ranges::find(kNamedTokens, key) != std::end(kNamedTokens);
      if (is_named) {
        if (value.is_null()) {
          named_.erase(key);
        } else {
          named_[key] = {read_token(part, key), std::nullopt, part.where(key)};
        }
      } else if (takes_further_names && key.ends_with("_token") && value.is_string()) {
        further_.push_back({read_token(part, key), std::nullopt, part.where(key), false, true});
      }
    }
    // The second under its name of before transformers 5.
    const bool has_extra = part.has("extra_special_tokens") && !part.value("extra_special_tokens").empty();
    const std::string_view key = has_extra ? "extra_special_tokens" : "additional_special_tokens";
    if (!part.has(key)) return;
    if (part.value(key).is_object()) {
      const TokenizerPart names = part.part(key);
      for (const auto& [name, value] : names.json().items())
        further_.push_back({read_token(names, name), std::nullopt, names.where(name), false, true});
      return;
    }
    for (const nlohmann::json& one : part.list(key)) {
      const nlohmann::json wrapped = {{"token", one}};
      extra_.push_back(
          {read_token(TokenizerPart(wrapped, std::string(key), part.where()), "token"), std::nullopt, part.where(key)});
    }
  }

  int32_t read_id(const TokenizerPart& part, const std::string& text) const {
    int32_t id = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (code != std::errc() || end != text.data() + text.size() || id < 0)
      part.fail(fmt::format("\"{}\" is not the id of a token", text));
    return id;
  }

  void read_decoder(const TokenizerPart& part) {
    for (const auto& [key, value] : part.json().items()) {
      const int32_t id = read_id(part, key);
      settings_.tokens.push_back({read_flags(part.part(key), false), id, part.where(key), true});
    }
    sort_by_id();
  }

  void read_added_tokens(const TokenizerPart& part) {
    std::vector<std::string> special;
    for (const auto& [key, one] : named_) special.push_back(one.token.content);
    for (const TokenizerSettings::Token& one : extra_) special.push_back(one.token.content);
    std::ranges::sort(special);
    for (const auto& [content, value] : part.json().items()) {
      AddedToken token;
      token.content = content;
      token.special = std::ranges::binary_search(special, content);
      token.normalized = !token.special;
      settings_.tokens.push_back({std::move(token), part.number(content), part.where(content)});
    }
    sort_by_id();
  }

  void sort_by_id() { std::ranges::sort(settings_.tokens, {}, &TokenizerSettings::Token::id); }

  std::optional<std::string> content_of(const std::string& key) const {
    const auto found = named_.find(key);
    if (found == named_.end() || found->second.token.content.empty()) return std::nullopt;
    return found->second.token.content;
  }

  void add_named_tokens() {
    const auto add = [&](const TokenizerSettings::Token& one) {
      if (!one.token.content.empty()) settings_.tokens.push_back(one);
    };
    for (const std::string_view key : kNamedTokens)
      if (const auto found = named_.find(std::string(key)); found != named_.end()) add(found->second);
    for (const TokenizerSettings::Token& one : further_) add(one);
    for (const TokenizerSettings::Token& one : extra_) add(one);
  }

  const std::string& directory_;
  nlohmann::json config_, map_, added_;
  TokenizerSettings settings_;
  std::map<std::string, TokenizerSettings::Token> named_;
  std::vector<TokenizerSettings::Token> further_, extra_;
};

bool same_flags(const AddedToken& a, const AddedToken& b) {
  return a.single_word == b.single_word && a.lstrip == b.lstrip && a.rstrip == b.rstrip &&
         a.normalized == b.normalized && a.special == b.special;
}

}  // namespace

TokenizerSettingsFiles read_tokenizer_settings_files(const std::string& directory) {
  TokenizerSettingsFiles files;
  for (const std::string_view name : kTokenizerSettingsNames) {
    const std::filesystem::path path = std::filesystem::path(directory) / name;
    std::error_code code;
    if (std::filesystem::exists(path, code)) files[std::string(name)] = read_text_file(path, kMostJsonBytes);
  }
  return files;
}

TokenizerSettings read_tokenizer_settings(const TokenizerSettingsFiles& files, const std::string& directory) {
  return SettingsReader(files, directory).run();
}

std::string add_settings_tokens(const TokenizerSettings& settings, int32_t next_id,
                                const std::function<std::optional<int32_t>(const std::string&)>& id_in_vocabulary,
                                std::vector<AddedToken>& added) {
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < added.size(); ++i) places.emplace(added[i].content, i);
  std::string changes;
  std::unordered_set<std::string> named;
  bool has_unordered = false;
  for (const TokenizerSettings::Token& one : settings.tokens) {
    const auto [place, is_new] = places.emplace(one.token.content, added.size());
    const std::optional<int32_t> known =
        is_new ? id_in_vocabulary(one.token.content) : std::optional(added[place->second].id);
    const int32_t id = known.value_or(next_id);
    if (one.id && *one.id != id) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the added token \"{}\" has the id {} where {} {}", one.token.content, *one.id, id,
                              known ? "is its id in the vocabulary" : "is the next one that is free"),
                  one.file, "Give every token an id of its own, without holes, in all files of the tokenizer.");
    }
    // Of several names for a token that was not there the last one's flags count.
    if (is_new && !one.id) named.insert(one.token.content);
    const bool counts = is_new || one.sets_flags || (!one.id && named.contains(one.token.content));
    if (!counts || (!is_new && same_flags(one.token, added[place->second]))) continue;
    if (!known && one.lacks_order && std::exchange(has_unordered, true)) {
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("\"{}\" is not the only token without an id: which one each gets depends on the order of "
                              "keys",
                              one.token.content),
                  one.file, "Give the tokens their ids under added_tokens_decoder, or put them into tokenizer.json.");
    }
    AddedToken token = one.token;
    token.id = id;
    if (!known) ++next_id;
    // A special token that the vocabulary has is text like any other, unless it is asked for.
    if (!is_new || !known || !token.special)
      changes += fmt::format(" {}:{}:{}{}{}{}{}", id, token.content, int{token.single_word}, int{token.lstrip},
                             int{token.rstrip}, int{token.normalized}, int{token.special});
    if (is_new) {
      added.push_back(std::move(token));
    } else {
      added[place->second] = std::move(token);
    }
  }
  return changes;
}

}  // namespace causeway::formats
