// What a directory may hold that a prepared dataset replaces.
#pragma once

#include <filesystem>

#include "causeway/namespaces.h"

namespace causeway::data {

// Throws Error(kInvalidArgument) where `directory` holds something that is no part of a dataset, for whatever is in it
// is lost when it is replaced; and where it holds a dataset, unless `overwrite`.
void require_replaceable(const std::filesystem::path& directory, bool overwrite);

}  // namespace causeway::data
