// The checkpoint that a command is given.
#pragma once

#include <filesystem>

#include "causeway/namespaces.h"

namespace causeway::cli {

// A run directory's newest checkpoint, or a checkpoint directory itself. Throws Error(kNotFound) where there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

}  // namespace causeway::cli
