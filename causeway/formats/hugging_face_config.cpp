#include "causeway/formats/hugging_face_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

using Json = nlohmann::json;

constexpr char kFile[] = "config.json";

[[noreturn]] void fail_kind(const std::string& key) {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' has an unexpected kind of value", key), kFile);
}

[[noreturn]] void fail_value(const std::string& key, const Json& value, const std::string& hint) {
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} = {}", key, value.dump(-1, ' ', false, Json::error_handler_t::replace)), kFile, hint);
}

void merge_into(Json& target, const Json& carried) {
  for (const auto& [key, value] : carried.items()) {
    const auto there = target.find(key);
    if (there != target.end() && there->is_object() && value.is_object())
      merge_into(*there, value);
    else
      target[key] = value;
  }
}

}  // namespace

HuggingFaceConfig::HuggingFaceConfig()
    : is_reading_(false),
      json_(std::make_unique<Json>(Json::object())),
      carried_(std::make_unique<Json>(Json::object())) {}

HuggingFaceConfig::HuggingFaceConfig(const Json& json)
    : is_reading_(true), json_(std::make_unique<Json>(json)), carried_(std::make_unique<Json>(Json::object())) {
  if (!json.is_object()) throw Error(ErrorKind::kInvalidArgument, "is not a JSON object", kFile);
}

HuggingFaceConfig::~HuggingFaceConfig() = default;

HuggingFaceConfig::Usual::Usual(const char* name, const Json& usual)
    : key(name), value(std::make_unique<Json>(usual)) {}
HuggingFaceConfig::Usual::Usual(const Usual& other) : Usual(other.key, *other.value) {}
HuggingFaceConfig::Usual::~Usual() = default;

const Json* HuggingFaceConfig::find(const std::string& key) {
  listed_.insert(key);
  const auto entry = json_->find(key);
  return entry == json_->end() ? nullptr : &*entry;
}

bool HuggingFaceConfig::is_null(const std::string& key) {
  const Json* entry = find(key);
  return entry != nullptr && entry->is_null();
}

void HuggingFaceConfig::need(const std::string& key) {
  const Json* entry = find(key);
  if (entry == nullptr) throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is missing", key), kFile);
}

void HuggingFaceConfig::get(const std::string& key, int64_t& value) {
  const Json* entry = find(key);
  if (entry == nullptr) return;
  // Not by conversion: of a fraction, or of a number beyond 64 bits, it would make another number.
  if (entry->is_number_float()) {
    constexpr double kMostExact = 9007199254740992;  // 2^53: beyond it a double stands for several integers
    const auto number = entry->get<double>();
    if (!(std::abs(number) <= kMostExact) || number != std::trunc(number)) fail_kind(key);
    value = static_cast<int64_t>(number);
    return;
  }
  if (!entry->is_number_integer()) fail_kind(key);
  if (entry->is_number_unsigned() && entry->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) fail_kind(key);
  value = entry->get<int64_t>();
}

void HuggingFaceConfig::get(const std::string& key, double& value) {
  const Json* entry = find(key);
  if (entry == nullptr) return;
  if (!entry->is_number()) fail_kind(key);
  value = entry->get<double>();
}

void HuggingFaceConfig::get(const std::string& key, bool& value) {
  const Json* entry = find(key);
  if (entry == nullptr) return;
  if (!entry->is_boolean()) fail_kind(key);
  value = entry->get<bool>();
}

void HuggingFaceConfig::get(const std::string& key, std::string& value) {
  const Json* entry = find(key);
  if (entry == nullptr) return;
  if (!entry->is_string()) fail_kind(key);
  value = entry->get<std::string>();
}

void HuggingFaceConfig::set(const std::string& key, int64_t value) { written(key, value); }
void HuggingFaceConfig::set(const std::string& key, double value) { written(key, value); }
void HuggingFaceConfig::set(const std::string& key, bool value) { written(key, value); }
void HuggingFaceConfig::set(const std::string& key, const std::string& value) { written(key, value); }
void HuggingFaceConfig::written_null(const std::string& key) { written(key, nullptr); }

void HuggingFaceConfig::fail_zero(const std::string& key) {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is 0", key), kFile, "Null stands for none.");
}

void HuggingFaceConfig::fixed(const std::string& key, const Json& value) {
  expected(key, value);
  written(key, value);
}

void HuggingFaceConfig::fixed(const std::string& key, std::initializer_list<const char*> names) {
  written(key, *names.begin());
  if (!is_reading_) return;
  const Json* entry = find(key);
  if (entry == nullptr || entry->is_null()) return;
  if (std::ranges::any_of(names, [&](const char* name) { return *entry == name; })) return;
  fail_value(key, *entry, fmt::format("Only {} is implemented.", Json(*names.begin()).dump()));
}

void HuggingFaceConfig::expected(const std::string& key, const Json& value) {
  if (!is_reading_) return;
  const Json* entry = find(key);
  if (entry == nullptr || entry->is_null() || *entry == value) return;
  fail_value(key, *entry, fmt::format("Only {} is implemented.", value.dump()));
}

void HuggingFaceConfig::written(const std::string& key, const Json& value) {
  listed_.insert(key);
  if (!is_reading_) (*json_)[key] = value;
}

std::optional<std::vector<std::string>> HuggingFaceConfig::names(const std::string& key) {
  const Json* entry = find(key);
  if (entry == nullptr || entry->is_null()) return std::nullopt;
  if (!entry->is_array()) fail_kind(key);
  std::vector<std::string> all;
  for (const Json& name : *entry) {
    if (!name.is_string()) fail_kind(key);
    all.push_back(name.get<std::string>());
  }
  return all;
}

void HuggingFaceConfig::object(const std::string& key, const std::function<void(HuggingFaceConfig&)>& entries) {
  if (!is_reading_) {
    HuggingFaceConfig inner;
    entries(inner);
    return written(key, inner.json());
  }
  const Json* entry = find(key);
  if (entry != nullptr && !entry->is_null() && !entry->is_object()) fail_kind(key);
  HuggingFaceConfig inner(entry != nullptr && entry->is_object() ? *entry : Json::object());
  entries(inner);
  if (const Json carried = inner.carried(); !carried.empty()) (*carried_)[key] = carried;
  for (const std::string& name : inner.unknown()) unknown_in_objects_.push_back(fmt::format("{}.{}", key, name));
  for (const std::string& text : inner.only_in_training_) only_in_training_.push_back(fmt::format("{}.{}", key, text));
}

void HuggingFaceConfig::alias(const std::string& alias, const std::string& key) {
  if (!is_reading_) return;
  if (const Json* entry = find(alias)) (*json_)[key] = Json(*entry);
}

void HuggingFaceConfig::carry(const Usual& usual) {
  if (const Json* entry = find(usual.key); entry != nullptr && *entry != *usual.value) (*carried_)[usual.key] = *entry;
}

void HuggingFaceConfig::without_effect(std::initializer_list<Usual> keys) {
  for (const Usual& usual : keys) carry(usual);
}

void HuggingFaceConfig::training_only(std::initializer_list<Usual> keys) {
  for (const Usual& usual : keys) {
    carry(usual);
    const Json* entry = find(usual.key);
    const Json& value = entry == nullptr ? *usual.value : *entry;
    if (is_reading_ && value.is_number() && value.get<double>() != 0)
      only_in_training_.push_back(fmt::format("{} = {}", usual.key, value.dump()));
  }
}

void HuggingFaceConfig::not_carried(std::initializer_list<const char*> keys) {
  listed_.insert(keys.begin(), keys.end());
}

Json HuggingFaceConfig::carried() const {
  Json all = *carried_;
  for (const auto& [key, value] : json_->items())
    if (!listed_.contains(key)) all[key] = value;
  return all;
}

std::vector<std::string> HuggingFaceConfig::unknown() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : json_->items())
    if (!listed_.contains(key)) names.push_back(key);
  names.insert(names.end(), unknown_in_objects_.begin(), unknown_in_objects_.end());
  return names;
}

void HuggingFaceConfig::refuse_unknown(const std::string& name) const {
  if (!is_reading_) return;
  for (const auto& [key, value] : json_->items())
    if (!listed_.contains(key))
      fail_value(fmt::format("{}.{}", name, key), value,
                 fmt::format("Of {} are implemented {}.", name, fmt::join(listed_, ", ")));
}

void HuggingFaceConfig::merge(const Json& carried) { merge_into(*json_, carried); }

}  // namespace causeway::formats
