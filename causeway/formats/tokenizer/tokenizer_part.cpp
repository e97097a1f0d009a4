#include "causeway/formats/tokenizer/tokenizer_part.h"

#include <algorithm>
#include <limits>

#include "causeway/base/error.h"

namespace causeway::formats {

TokenizerPart::TokenizerPart(const nlohmann::json& json, std::string path, std::string file)
    : json_(&json), path_(std::move(path)), file_(std::move(file)) {
  if (!json.is_object()) fail("not an object");
}

std::string TokenizerPart::where() const { return path_.empty() ? file_ : fmt::format("{}: {}", file_, path_); }
std::string TokenizerPart::where(std::string_view key) const { return fmt::format("{}: {}", file_, path_of(key)); }

std::string TokenizerPart::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void TokenizerPart::refuse(const std::string& what) const {
  throw Error(ErrorKind::kUnsupported, fmt::format("{} is not interpreted", what), where(),
              "docs/tokenizers.md lists what is.");
}

void TokenizerPart::fail(const std::string& what) const {
  throw Error(ErrorKind::kCorrupt, what, where(), kTokenizerHint);
}

void TokenizerPart::require_known_keys(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : json_->items())
    if (std::ranges::find(known, key) == known.end()) refuse(fmt::format("the key \"{}\"", key));
}

bool TokenizerPart::has(std::string_view key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

const nlohmann::json& TokenizerPart::value(std::string_view key) const {
  const auto found = json_->find(key);
  if (found == json_->end()) fail(fmt::format("\"{}\" is missing", key));
  return *found;
}

std::string TokenizerPart::text(std::string_view key) const {
  const nlohmann::json& found = value(key);
  if (!found.is_string()) fail(fmt::format("\"{}\" is not a text", key));
  return found.get<std::string>();
}

std::optional<std::string> TokenizerPart::optional_text(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return text(key);
}

bool TokenizerPart::flag(std::string_view key, std::optional<bool> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const nlohmann::json& found = value(key);
  if (!found.is_boolean()) fail(fmt::format("\"{}\" is neither true nor false", key));
  return found.get<bool>();
}

int32_t TokenizerPart::number(std::string_view key) const {
  const nlohmann::json& found = value(key);
  if (!found.is_number_unsigned() || found.get<uint64_t>() > uint64_t{std::numeric_limits<int32_t>::max()})
    fail(fmt::format("\"{}\" is {}, not a number from 0 to {}", key,
                     found.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                     std::numeric_limits<int32_t>::max()));
  return found.get<int32_t>();
}

TokenizerPart TokenizerPart::part(std::string_view key) const { return TokenizerPart(value(key), path_of(key), file_); }

const nlohmann::json& TokenizerPart::list(std::string_view key) const {
  const nlohmann::json& found = value(key);
  if (!found.is_array()) fail(fmt::format("\"{}\" is not a list", key));
  return found;
}

std::vector<TokenizerPart> TokenizerPart::parts(std::string_view key) const {
  std::vector<TokenizerPart> found;
  for (const nlohmann::json& one : list(key))
    found.emplace_back(one, fmt::format("{}[{}]", path_of(key), found.size()), file_);
  return found;
}

}  // namespace causeway::formats
