// What commands that read documents say of lines that were none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::cli {

// Prints how many there were, and the first ones by name; nothing of none.
void show_skipped_lines(uint64_t count, const std::vector<std::string>& named);

}  // namespace causeway::cli
