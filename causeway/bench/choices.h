// Names that a user picks from.
#pragma once

#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::bench {

// Throws Error(kInvalidArgument): "'x' is no WHAT", at `option`, with the nearest of the known names and all of them.
[[noreturn]] void throw_unknown_choice(const std::string& what, const std::string& name, const std::string& option,
                                       const std::vector<std::string>& known);

// The place of `name` among the known ones; throws as above when it is not there.
size_t choose(const std::string& what, const std::string& name, const std::string& option,
              const std::vector<std::string>& known);

}  // namespace causeway::bench
