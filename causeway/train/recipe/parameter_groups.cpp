#include "causeway/train/recipe/parameter_groups.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/base/printable.h"
#include "causeway/base/yaml_document.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/model/language_model.h"
#include "causeway/passes/recompute.h"
#include "causeway/program/context.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {
namespace {

constexpr char kPattern[] = "pattern", kRate[] = "learning_rate", kFactor[] = "learning_rate_factor",
               kDecay[] = "weight_decay", kFrozen[] = "frozen";

[[noreturn]] void refuse_group(const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kInvalidArgument, what, "", hint);
}

double parse_number_of_group(const std::string& key, const std::string& text, size_t number) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  if (!is_number || value < 0 || (key == kRate && value == 0))
    refuse_group(fmt::format("the {} of group {} is '{}', not a number {}", key, number, printable(text),
                             key == kRate ? "above 0" : "from 0 on"),
                 key == kRate || key == kFactor ? "Parameters that are not to be trained have frozen: true." : "");
  return value;
}

ParameterGroup parse_group(const YAML::Node& node, size_t number) {
  if (!node.IsMap())
    refuse_group(fmt::format("group {} is not a map with a pattern and what holds of it", number),
                 "Give a list: [{pattern: '*.bias', weight_decay: 0}, {pattern: '*.wte.*', frozen: true}].");
  ParameterGroup group;
  bool says_frozen = false;
  for (const auto& entry : node) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (!entry.second.IsScalar())
      refuse_group(fmt::format("'{}' of group {} is not a single value", printable(key), number),
                   key == kPattern ? "A pattern with * may stand for several names; groups may be alike." : "");
    const std::string& value = entry.second.Scalar();
    if (key == kPattern) {
      group.pattern = value;
    } else if (key == kRate) {
      group.learning_rate = parse_number_of_group(key, value, number);
    } else if (key == kFactor) {
      group.rate_factor = parse_number_of_group(key, value, number);
    } else if (key == kDecay) {
      group.weight_decay = parse_number_of_group(key, value, number);
    } else if (key == kFrozen) {
      if (value != "true" && value != "false")
        refuse_group(fmt::format("frozen of group {} is '{}', not true or false", number, printable(value)), "");
      says_frozen = true;
      group.frozen = value == "true";
    } else {
      const std::string found = nearest_name(key, {kPattern, kRate, kFactor, kDecay, kFrozen});
      refuse_group(fmt::format("group {} has the unknown key '{}'", number, printable(key)),
                   found.empty()
                       ? fmt::format("It may have {}, {}, {}, {} and {}.", kPattern, kRate, kFactor, kDecay, kFrozen)
                       : fmt::format("Did you mean {}?", found));
    }
  }
  if (group.pattern.empty()) refuse_group(fmt::format("group {} has no pattern", number), "For example '*.bias'.");
  const std::string name = fmt::format("group {} ('{}')", number, printable(group.pattern));
  if (group.learning_rate && group.rate_factor)
    refuse_group(fmt::format("{} has both {} and {}", name, kRate, kFactor), "Delete one of them.");
  if (group.frozen && (group.learning_rate || group.rate_factor || group.weight_decay))
    refuse_group(fmt::format("{} is frozen: a rate or a decay has no effect on it", name), "Delete one of them.");
  if (!says_frozen && !group.learning_rate && !group.rate_factor && !group.weight_decay)
    refuse_group(fmt::format("{} says nothing of its parameters", name),
                 fmt::format("It may have {}, {}, {} or {}.", kRate, kFactor, kDecay, kFrozen));
  return group;
}

// Of the whole model: all that groups may be of.
std::vector<std::string> names_in_groups(const Recipe& recipe) {
  const auto device = std::make_shared<OfflineDevice>(Target());  // names depend on none
  const ContextScope scope(std::make_shared<Context>(device));
  NewWeights weights{.adapter = recipe.adapter};
  if (recipe.adapter.is_used()) weights.is_trained = [](const std::string&) { return false; };
  const auto model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), weights);
  std::vector<std::string> names;
  for (const Parameter& parameter : model->parameters())
    if (parameter.is_trained) names.push_back(parameter.name);
  return names;
}

}  // namespace

void require_members_of_groups(const Recipe& recipe) {
  const std::vector<ParameterGroup>& groups = recipe.optimizer.groups;
  if (groups.empty()) return;
  const std::vector<std::string> names = names_in_groups(recipe);
  require_members(groups, names, recipe.adapter.is_used() ? "parameter of an adapter" : "parameter of the model");
  if (std::ranges::all_of(names, [&](const std::string& name) { return recipe.optimizer.is_frozen(name); }))
    throw Error(ErrorKind::kInvalidArgument, "all parameters are frozen, and none is left to train", kParameterGroups,
                "Freeze fewer, by a narrower pattern.");
}

bool groups_tell_layers_apart(const Recipe& recipe) {
  const std::vector<ParameterGroup>& groups = recipe.optimizer.groups;
  if (groups.empty()) return false;
  std::map<std::string, const ParameterGroup*> by_name_in_layer;
  for (const std::string& name : names_in_groups(recipe)) {
    const std::string_view block = passes::block_of_scope(name);
    if (block.empty()) continue;
    const ParameterGroup* group = group_of(groups, name);
    const auto [same, is_new] = by_name_in_layer.emplace(name.substr(block.size()), group);
    if (!is_new && same->second != group) return true;
  }
  return false;
}

std::vector<ParameterGroup> parse_parameter_groups(const std::string& text) {
  const YAML::Node list = parse_yaml(text, kParameterGroups);
  if (!list.IsDefined() || list.IsNull()) return {};
  if (!list.IsSequence()) refuse_group(fmt::format("'{}' is not a list of groups", printable(text)), "");
  std::vector<ParameterGroup> groups;
  for (const YAML::Node& node : list) {
    groups.push_back(parse_group(node, groups.size() + 1));
    for (size_t i = 0; i + 1 < groups.size(); ++i)
      if (groups[i].pattern == groups.back().pattern)
        refuse_group(
            fmt::format("groups {} and {} are both of '{}'", i + 1, groups.size(), printable(groups[i].pattern)),
            "Say it once.");
  }
  return groups;
}

std::string print_parameter_groups(const std::vector<ParameterGroup>& groups) {
  std::string text;
  for (const ParameterGroup& group : groups) {
    YAML::Emitter pattern;
    pattern << YAML::DoubleQuoted << group.pattern;
    text += fmt::format("{}{{{}: {}", text.empty() ? "" : ", ", kPattern, pattern.c_str());
    if (group.learning_rate) text += fmt::format(", {}: {}", kRate, *group.learning_rate);
    if (group.rate_factor) text += fmt::format(", {}: {}", kFactor, *group.rate_factor);
    if (group.weight_decay) text += fmt::format(", {}: {}", kDecay, *group.weight_decay);
    const bool says_more = group.learning_rate || group.rate_factor || group.weight_decay;
    if (group.frozen || !says_more) text += fmt::format(", {}: {}", kFrozen, group.frozen);
    text += "}";
  }
  return "[" + text + "]";
}

}  // namespace causeway::train
