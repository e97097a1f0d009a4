// One object of a tokenizer.json, read strictly: what is missing, of another type or not known is an Error that names
// the part ("pre_tokenizer.pretokenizers[1]") and the file.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// What to do about a damaged tokenizer.
constexpr const char* kTokenizerHint = "Fetch the tokenizer again, or write it with the program that made it.";

class TokenizerPart {
 public:
  // Refers to `json`. `path` is the place in the file ("" for all of it), `file` the file's name. Throws
  // Error(kCorrupt) when `json` is no object.
  TokenizerPart(const nlohmann::json& json, std::string path, std::string file);

  // "tokenizer.json: decoder.decoders[0]", for errors.
  std::string where() const;
  std::string where(std::string_view key) const;
  const nlohmann::json& json() const { return *json_; }

  // Throws Error(kUnsupported) for a key that is none of these.
  void require_known_keys(std::initializer_list<std::string_view> known) const;
  bool has(std::string_view key) const;  // there, and not null
  const nlohmann::json& value(std::string_view key) const;
  std::string type() const { return text("type"); }
  std::string text(std::string_view key) const;  // UTF-8
  std::optional<std::string> optional_text(std::string_view key) const;
  bool flag(std::string_view key, std::optional<bool> otherwise = std::nullopt) const;
  // An id or a count; 0 to 2^31 - 1.
  int32_t number(std::string_view key) const;
  TokenizerPart part(std::string_view key) const;
  std::vector<TokenizerPart> parts(std::string_view key) const;
  // The key's value, whatever it is, as a list. Throws when it is none.
  const nlohmann::json& list(std::string_view key) const;

  // Throws Error(kUnsupported): this part is valid, and not interpreted here.
  [[noreturn]] void refuse(const std::string& what) const;
  // Throws Error(kCorrupt).
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string path_of(std::string_view key) const;

  const nlohmann::json* json_;
  std::string path_;
  std::string file_;
};

}  // namespace causeway::formats
