// The checkpoint that a command is given.
#pragma once

#include <filesystem>
#include <functional>

#include "causeway/base/error.h"
#include "causeway/namespaces.h"

namespace causeway::cli {

// Calls `read` with the checkpoint directory itself, or with a run directory's newest checkpoint: again with the newest
// by then where the run goes on and has pruned it meanwhile. Throws Error(kNotFound) where there is none.
void read_checkpoint(const std::filesystem::path& path,
                     const std::function<void(const std::filesystem::path& checkpoint)>& read);

// What to say where a path holds none.
Error no_checkpoint_in(const std::filesystem::path& path);

}  // namespace causeway::cli
