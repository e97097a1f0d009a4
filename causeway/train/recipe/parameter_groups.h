// The recipe's optimizer.groups: parameters by patterns of their names, with what holds of them alone.
#pragma once

#include <string>
#include <vector>

#include "causeway/optimizer/parameter_group.h"

namespace causeway::train {

struct Recipe;

inline constexpr char kParameterGroups[] = "optimizer.groups";

// Reads a YAML list of maps, "[{pattern: '*.bias', weight_decay: 0}, {pattern: '*.wte.*', frozen: true}]"; empty for
// "[]" and for nothing. Throws Error(kInvalidArgument) naming the group, from 1: no pattern, the same one twice,
// nothing that holds of it, a value that is not of its kind, a key that there is not.
std::vector<ParameterGroup> parse_parameter_groups(const std::string& text);
// As one line that reads back the same.
std::string print_parameter_groups(const std::vector<ParameterGroup>& groups);

// Throws Error(kInvalidArgument) where a group has no parameter of the recipe's whole model (with adapters, of these,
// which alone are trained), or where all are frozen. The recipe is resolved.
void require_members_of_groups(const Recipe& recipe);
// Whether the same parameter of two layers is in different groups.
bool groups_tell_layers_apart(const Recipe& recipe);

}  // namespace causeway::train
