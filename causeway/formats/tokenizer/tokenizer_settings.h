// What stands beside a vocabulary and changes it: tokenizer_config.json, special_tokens_map.json and added_tokens.json,
// read as Hugging Face transformers 5 does. With `added_tokens_decoder` in the first the other two say nothing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/formats/tokenizer/added_tokens.h"

namespace causeway::formats {

inline constexpr std::string_view kTokenizerConfigName = "tokenizer_config.json";
inline constexpr std::string_view kSpecialTokensMapName = "special_tokens_map.json";
inline constexpr std::string_view kAddedTokensName = "added_tokens.json";
inline constexpr std::array kTokenizerSettingsNames = {kTokenizerConfigName, kSpecialTokensMapName, kAddedTokensName};

// Content by name; of those above what there is.
using TokenizerSettingsFiles = std::map<std::string, std::string>;
TokenizerSettingsFiles read_tokenizer_settings_files(const std::string& directory);

struct TokenizerSettings {
  // A token that the vocabulary is to have: `id` where a file gives one.
  struct Token {
    AddedToken token;
    std::optional<int32_t> id;
    std::string file;
    // Given with its flags (added_tokens_decoder): they count where the token is there already.
    bool sets_flags = false;
    // One of several whose order in the file is not known here.
    bool lacks_order = false;
  };

  std::string tokenizer_class;  // empty where none is named
  std::optional<bool> add_prefix_space;
  bool add_bos_token = false, add_eos_token = false;
  std::optional<std::string> begin_of_text, end_of_text, unknown;  // what bos_token, eos_token and unk_token name
  // Content by key of all tokens that have a name: bos_token, eos_token, unk_token, sep_token, pad_token, ...
  std::map<std::string, std::string> named;
  std::vector<Token> tokens;  // in the order in which they get free ids
};

// `directory` is for errors. Throws Error(kCorrupt) naming file and key for what is not of the format.
TokenizerSettings read_tokenizer_settings(const TokenizerSettingsFiles& files, const std::string& directory);

// Adds the settings' tokens to those that a vocabulary has (`added`), as far as they are not there or have other flags.
// `id_in_vocabulary` looks a content up; new ones get ids from `next_id` on. Throws Error(kUnsupported) for an id that
// is another one than the token would have, and where it depends on an order that is not known. What changes which ids
// a text becomes is described, for fingerprints; empty where nothing does.
std::string add_settings_tokens(const TokenizerSettings& settings, int32_t next_id,
                                const std::function<std::optional<int32_t>(const std::string&)>& id_in_vocabulary,
                                std::vector<AddedToken>& added);

}  // namespace causeway::formats
