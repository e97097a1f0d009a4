#include "causeway/train/recipe/optimizer_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <variant>

#include "causeway/base/error.h"
#include "causeway/model/family.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/train/recipe/parameter_groups.h"

namespace causeway::train {
namespace {

Field group_list(std::vector<ParameterGroup>& groups) {
  return {
      kParameterGroups,
      "parameters by name: [{pattern: NAME*, learning_rate: or learning_rate_factor:, weight_decay:, frozen:}, ...]",
      "a list of groups",
      [&groups](const std::string& text) {
        groups = parse_parameter_groups(text);
        return true;
      },
      [&groups] { return print_parameter_groups(groups); }};
}

std::string text_of(const OptimizerValue& value) {
  return std::visit([](const auto& one) { return fmt::format("{}", one); }, value);
}

// "(adamw, lion; lion's default is 0.99)".
std::string owners_text(const SharedOptimizerKey& entry) {
  std::string others;
  for (const std::string& optimizer : entry.optimizers)
    if (const OptimizerValue& own = entry.default_of(optimizer); own != entry.key.default_value)
      others += fmt::format("{} {}: {}", others.empty() ? ";" : ",", optimizer, text_of(own));
  return fmt::format("({}{})", fmt::join(entry.optimizers, ", "), others);
}

// A key that some optimizers add. What is given stands in the configuration whichever optimizer it is of until that is
// resolved; what is not has the chosen one's default.
Field optimizer_field(const SharedOptimizerKey& entry, OptimizerConfig& config) {
  const auto held = std::make_shared<OptimizerValue>(entry.key.default_value);  // that the field's functions refer to
  const std::string meaning = fmt::format("{} {}", entry.key.meaning, owners_text(entry));
  Field one = std::visit([&](auto& value) { return field("optimizer." + entry.key.name, value, meaning); }, *held);
  if (const std::vector<std::string>& choices = entry.key.choices; !choices.empty())
    one = choice(
        one.key, meaning, choices, NameOf::kOther,
        [held, choices](const std::string& text) {
          *held = text;
          return std::ranges::find(choices, text) != choices.end();
        },
        [held] { return std::string_view(std::get<std::string>(*held)); });
  one.set = [held, &config, name = entry.key.name, set = one.set](const std::string& text) {
    if (!set(text)) return false;
    config.own[name] = *held;
    return true;
  };
  one.get = [held, &config, entry, get = one.get] {
    const auto given = config.own.find(entry.key.name);
    *held = given == config.own.end() ? entry.default_of(config.name) : given->second;
    return get();
  };
  return one;
}

}  // namespace

std::vector<Field> optimizer_fields(OptimizerConfig& config) {
  const std::vector<std::string> names = optimizer_names();
  std::vector<Field> all = {
      {"optimizer.name", fmt::format("the optimizer: {}", list_names(names, "or")), "the name of an optimizer",
       [&config](const std::string& text) {
         config.name = find_optimizer(text).name;
         return true;
       },
       [&config] { return config.name; }, names},
      field("optimizer.learning_rate", config.learning_rate, "peak learning rate")};
  for (const SharedOptimizerKey& entry : shared_optimizer_keys()) all.push_back(optimizer_field(entry, config));
  const std::vector<Field> rest = {
      field("optimizer.weight_decay", config.weight_decay,
            "decay of matrices (norms and biases: none), decoupled from the gradient but for sgd"),
      field("optimizer.cautious_decay", config.cautious_decay, "no decay of elements that the step moves away from 0"),
      field("optimizer.gradient_clip", config.gradient_clip, "bound of gradients; 0: no clipping"),
      choice("optimizer.gradient_clip_by", config.gradient_clip_by,
             "norm or value: the bound is of all gradients' norm, or of each element"),
      field("optimizer.average_decay", config.average_decay,
            "of an exponential average of the weights, which is evaluated, saved and exported; 0: no average"),
      choice(
          "optimizer.weights", config.weights,
          "f32, bf16_stochastic or bf16_kahan: what trained matrices lie in; bf16 rounded at random, or with what was "
          "rounded off kept beside"),
      group_list(config.groups)};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

bool is_of_another_optimizer(std::string_view key, const OptimizerConfig& config) {
  constexpr std::string_view kSection = "optimizer.";
  if (!key.starts_with(kSection)) return false;
  const std::string_view name = key.substr(kSection.size());
  const std::vector<SharedOptimizerKey> added = shared_optimizer_keys();
  return find_optimizer(config.name).find_key(name) == nullptr &&
         std::ranges::any_of(added, [&](const SharedOptimizerKey& entry) { return entry.key.name == name; });
}

}  // namespace causeway::train
