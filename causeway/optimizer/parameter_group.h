// Parameters that a recipe treats in their own way, by patterns of their names (optimizer.groups).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::optimizer {

struct ParameterGroup {
  std::string pattern;                       // of names: * stands for any characters, ? for one
  std::optional<double> learning_rate = {};  // its peak, in the place of optimizer.learning_rate
  std::optional<double> rate_factor = {};    // or that times this
  std::optional<double> weight_decay = {};   // also of what has none by itself, norms and biases
  bool frozen = false;                       // not trained
  bool operator==(const ParameterGroup&) const = default;
};

bool matches(std::string_view pattern, std::string_view name);

// The group of a parameter, the first one whose pattern matches; nullptr: none.
const ParameterGroup* group_of(const std::vector<ParameterGroup>& groups, std::string_view name);

// Throws Error(kInvalidArgument) with the nearest names where a group has none of the names: its pattern matches none,
// or groups before it have them all. `what`: what the names are of, for the message.
void require_members(const std::vector<ParameterGroup>& groups, const std::vector<std::string>& names,
                     std::string_view what = "parameter of the model");

}  // namespace causeway::optimizer
