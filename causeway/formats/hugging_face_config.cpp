#include "causeway/formats/hugging_face_config.h"

#include <nlohmann/json.hpp>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

using Json = nlohmann::json;

constexpr char kFile[] = "config.json";

[[noreturn]] void fail_kind(const char* key) {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' has an unexpected kind of value", key), kFile);
}

// The entry, unless it is absent.
const Json* find(const Json& json, const char* key) {
  const auto entry = json.find(key);
  return entry == json.end() || entry->is_null() ? nullptr : &*entry;
}

}  // namespace

HuggingFaceConfig::HuggingFaceConfig() : is_reading_(false), json_(std::make_unique<Json>(Json::object())) {}

HuggingFaceConfig::HuggingFaceConfig(const Json& json) : is_reading_(true), json_(std::make_unique<Json>(json)) {
  if (!json.is_object()) throw Error(ErrorKind::kInvalidArgument, "is not a JSON object", kFile);
}

HuggingFaceConfig::~HuggingFaceConfig() = default;

void HuggingFaceConfig::need(const char* key) const {
  if (!json_->contains(key)) throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is missing", key), kFile);
  if (find(*json_, key) == nullptr) fail_kind(key);
}

void HuggingFaceConfig::get(const char* key, int64_t& value) const {
  const Json* entry = find(*json_, key);
  if (entry == nullptr) return;
  // Not by conversion: of a fraction, or of a number beyond 64 bits, it would make another number.
  if (!entry->is_number_integer()) fail_kind(key);
  if (entry->is_number_unsigned() && entry->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) fail_kind(key);
  value = entry->get<int64_t>();
}

void HuggingFaceConfig::get(const char* key, double& value) const {
  const Json* entry = find(*json_, key);
  if (entry == nullptr) return;
  if (!entry->is_number()) fail_kind(key);
  value = entry->get<double>();
}

void HuggingFaceConfig::get(const char* key, bool& value) const {
  const Json* entry = find(*json_, key);
  if (entry == nullptr) return;
  if (!entry->is_boolean()) fail_kind(key);
  value = entry->get<bool>();
}

void HuggingFaceConfig::get(const char* key, std::string& value) const {
  const Json* entry = find(*json_, key);
  if (entry == nullptr) return;
  if (!entry->is_string()) fail_kind(key);
  value = entry->get<std::string>();
}

void HuggingFaceConfig::set(const char* key, int64_t value) { (*json_)[key] = value; }
void HuggingFaceConfig::set(const char* key, double value) { (*json_)[key] = value; }
void HuggingFaceConfig::set(const char* key, bool value) { (*json_)[key] = value; }
void HuggingFaceConfig::set(const char* key, const std::string& value) { (*json_)[key] = value; }

void HuggingFaceConfig::optional_or_null(const char* key, int64_t& value) {
  if (is_reading_ || value != 0) return optional(key, value, 0);
  (*json_)[key] = nullptr;
}

void HuggingFaceConfig::optional_or_null(const char* key, double& value, double absent) {
  if (!is_reading_ && value == 0) return written(key, nullptr);
  if (is_reading_ && json_->contains(key) && find(*json_, key) == nullptr) {
    value = 0;
    return;
  }
  optional(key, value, absent);
}

void HuggingFaceConfig::fixed(const char* key, const Json& value) {
  expected(key, value);
  written(key, value);
}

void HuggingFaceConfig::expected(const char* key, const Json& value) {
  if (!is_reading_) return;
  const Json* entry = find(*json_, key);
  if (entry == nullptr || *entry == value) return;
  throw Error(ErrorKind::kUnsupported, fmt::format("{} = {}", key, entry->dump()), kFile,
              fmt::format("Only {} is implemented.", value.dump()));
}

void HuggingFaceConfig::written(const char* key, const Json& value) {
  if (!is_reading_) (*json_)[key] = value;
}

void HuggingFaceConfig::object(const char* key, const std::function<void(HuggingFaceConfig&)>& entries) {
  if (is_reading_) {
    const Json* entry = find(*json_, key);
    HuggingFaceConfig inner(entry != nullptr && entry->is_object() ? *entry : Json::object());
    return entries(inner);
  }
  HuggingFaceConfig inner;
  entries(inner);
  (*json_)[key] = inner.json();
}

}  // namespace causeway::formats
