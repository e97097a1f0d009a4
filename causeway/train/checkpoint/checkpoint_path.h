// The checkpoint that a path means: the path of one, or of a run whose newest one is meant.
#pragma once

#include <filesystem>
#include <optional>

#include "causeway/namespaces.h"

namespace causeway::train {

// Whether a directory is a checkpoint of this program, and no Hugging Face directory. Its content is not looked at.
bool is_checkpoint(const std::filesystem::path& directory);

// The checkpoint itself, or a run's newest one; nothing where the path is neither. Throws Error(kNotFound) for a run
// that has none yet.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& path);

}  // namespace causeway::train
