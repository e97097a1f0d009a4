// Ranks of a run write one checkpoint together, into one directory.
#pragma once

#include <chrono>
#include <filesystem>

#include "causeway/train/ranks.h"

namespace causeway::train {

// Every rank looks for a file that the first one writes there, and removes when all have; files of starts that ended
// before are removed, so that the first rank must own the directory. Throws ErrorOfAllRanks:
// kInvalidArgument that names the ranks, with their machines, which do not see it within `patience` (a network's file
// system may show it late); kIo where it cannot be written. The first rank's directory must exist.
void require_shared_run_directory(const Ranks& ranks, const std::filesystem::path& run_directory,
                                  std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace causeway::train
