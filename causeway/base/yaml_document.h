// YAML from outside the program: one document of UTF-8, read with limits. What cannot be read, or would be read in
// part, is an Error with line and column.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace causeway {

// Refused beside what is not YAML: more than 16 MiB, control characters, a second document, a quote that is never
// closed, more than 32 maps and lists within one another, and an alias of anything but a single value (`*name` of a map
// or list may contain itself, or grow without bound). `where`: the file. Throws Error(kInvalidArgument).
YAML::Node parse_yaml(const std::string& yaml, const std::string& where);

}  // namespace causeway
