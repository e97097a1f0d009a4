#include "causeway/model/family.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/model/families.h"

namespace causeway::model {
namespace {

using Families = std::vector<std::unique_ptr<const ModelFamily>>;  // pointers, so that a description stays where it is

void add_family(Families& families, ModelFamily added) {
  for (const auto& family : families) {
    CAUSEWAY_CHECK(family->name != added.name, "two model families of the name {}", added.name);
    for (const ModelKey& key : added.keys) {
      const ModelKey* same = family->find_key(key.name);
      CAUSEWAY_CHECK(same == nullptr || (same->default_value == key.default_value && same->meaning == key.meaning),
                     "the key {} of {} is another in {}", key.name, added.name, family->name);
    }
  }
  families.push_back(std::make_unique<const ModelFamily>(std::move(added)));
}

Families& families() {
  static Families all = [] {
    Families own;
    for (ModelFamily& family : own_families()) add_family(own, std::move(family));
    return own;
  }();
  return all;
}

// What to do next, for who wrote `name` where it is none of `names`.
std::string family_hint(std::string_view name, const std::vector<std::string>& names) {
  std::map<std::string, std::string> families_by_word;  // "qwen": "qwen2 qwen3"
  for (const auto& family : families())
    for (const std::string& word : family->other_names) {
      std::string& list = families_by_word[word];
      list += (list.empty() ? "" : " ") + family->name;
    }
  std::vector<FieldWord> words;
  for (const auto& [word, list] : families_by_word)
    words.push_back({.what = NameOf::kModelFamily, .words = word, .names = list, .sentence = {}});
  return name_hint(NameOf::kModelFamily, name, names, {}, words);
}

}  // namespace

std::string size_problem(int64_t size, int64_t least, int64_t most) {
  if (size < least) return least == 0 ? "must not be negative" : fmt::format("must be at least {}", least);
  if (size > most) return fmt::format("{} is more than {}, the largest that can be built", size, most);
  return {};
}

ModelKey size_key(std::string name, int64_t default_value, int64_t least, int64_t most, std::string meaning) {
  const auto problem = [least, most](const ModelValue& value) {
    return size_problem(std::get<int64_t>(value), least, most);
  };
  return {std::move(name), default_value, std::move(meaning), problem};
}

ModelKey positive_key(std::string name, double default_value, std::string meaning) {
  const auto problem = [](const ModelValue& value) -> std::string {
    return std::get<double>(value) > 0 ? "" : "must be above 0";
  };
  return {std::move(name), default_value, std::move(meaning), problem};
}

const ModelKey* ModelFamily::find_key(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &ModelKey::name);
  return found == keys.end() ? nullptr : &*found;
}

const ModelFamily& model_family(std::string_view name) {
  for (const auto& family : families())
    if (family->name == name) return *family;
  const std::vector<std::string> names = model_family_names();
  const std::string all = fmt::format("Families are {}.", list_names(names));
  const std::string hint = family_hint(name, names);
  throw Error(ErrorKind::kInvalidArgument, fmt::format("unknown model family '{}'", name), "model.family",
              hint.empty()              ? all
              : hint.starts_with("Did") ? hint
                                        : fmt::format("{} {}", hint, all));
}

std::vector<const ModelFamily*> model_families() {
  std::vector<const ModelFamily*> all;
  for (const auto& family : families()) all.push_back(family.get());
  return all;
}

std::string list_names(const std::vector<std::string>& names, std::string_view conjunction) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} {} {}", fmt::join(names.begin(), names.end() - 1, ", "), conjunction, names.back());
}

std::vector<std::string> model_families_where(const std::function<bool(const ModelFamily&)>& holds) {
  std::vector<std::string> names;
  for (const auto& family : families())
    if (holds(*family)) names.push_back(family->name);
  return names;
}

std::vector<std::string> model_family_names() {
  return model_families_where([](const ModelFamily&) { return true; });
}

std::vector<SharedModelKey> shared_model_keys() {
  std::vector<SharedModelKey> shared;
  for (const auto& family : families())
    for (const ModelKey& key : family->keys) {
      if (std::ranges::any_of(shared, [&](const SharedModelKey& other) { return other.key.name == key.name; }))
        continue;
      shared.push_back(
          {key, model_families_where([&](const ModelFamily& other) { return other.find_key(key.name) != nullptr; })});
    }
  return shared;
}

RegisteredFamily::RegisteredFamily(ModelFamily family) : name_(family.name) {
  add_family(families(), std::move(family));
}

RegisteredFamily::~RegisteredFamily() {
  std::erase_if(families(), [&](const auto& family) { return family->name == name_; });
}

}  // namespace causeway::model
