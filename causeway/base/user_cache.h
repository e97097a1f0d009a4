// Where what this program keeps for its user between runs lies: compiled kernels, and what NVIDIA's driver makes of
// them. It is loaded unseen, so it is kept in directories alone that nobody else can have written to
// (private_directory.h), or not at all: never in a place that another user can foresee.
#pragma once

#include <optional>
#include <string>

#include "causeway/base/private_directory.h"

namespace causeway {

struct UserCache {
  // None: nothing is kept on disk.
  std::optional<PrivateDirectory> directory;
  // Why it is not in the usual place; empty where it is.
  std::string problem;
};

// The absolute path among $XDG_CACHE_HOME/causeway and ~/.cache/causeway that comes first; empty where there is none.
std::filesystem::path usual_cache_path();

// The directory of this name in the usual place, made where it is not there, or else in $XDG_RUNTIME_DIR/causeway.
// Throws nothing.
UserCache open_user_cache(const std::string& name);

}  // namespace causeway
