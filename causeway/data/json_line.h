// A document as a line of JSON, or as an element of a list: the text under one of its keys. Beside JSON (RFC 8259) it
// takes what Python's json writes and reads: NaN, Infinity and -Infinity as values, and in strings escaped halves of a
// surrogate pair
// ("\ud800"), which are no characters; of these each becomes U+FFFD.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::data {

// A document where it lies in its block: a line, or an element of a list over any number of lines.
struct JsonLine {
  std::string_view bytes;
  uint64_t number = 0;  // of the line, of an element its first one, from 1
  uint64_t sample = 0;  // of an element its number in the list, from 1; 0: of a line
  uint64_t column = 1;  // where it begins in its line
  // "chats.jsonl, line 3", "chats.json, sample 2, line 7".
  std::string place(const std::string& input) const;
};

struct JsonText {
  std::optional<std::string> text;   // nothing where it is null
  bool replaced_surrogates = false;  // U+FFFD stands in it for halves of surrogate pairs
  bool operator==(const JsonText&) const = default;
};

// The value of `key` in one line. Throws Error naming input and line when the line is not a JSON object in UTF-8, lacks
// the key (naming the nearest key it has), or the value is not a string. `key_option`: how its user names the key;
// empty where nobody can.
JsonText parse_json_line(const JsonLine& line, const std::string& key, const std::string& input,
                         std::string_view key_option = "--text-key");

// An object in one line, whatever its keys, in their order. Throws Error(kCorrupt) naming input and line when the line
// is not a JSON object in UTF-8.
struct JsonRecord {
  nlohmann::ordered_json object;
  bool replaced_surrogates = false;  // U+FFFD stands in it for halves of surrogate pairs
};
JsonRecord parse_json_record(const JsonLine& line, const std::string& input);

// Whether the text is one JSON value, of those that parse_json_line() takes.
bool is_json(std::string_view text);

}  // namespace causeway::data
