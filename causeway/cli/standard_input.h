// Standard input as one text.
#pragma once

#include <string>

namespace causeway::cli {

// All of it. Throws Error(kResource) beyond a GiB, with `hint` for what takes more.
std::string read_standard_input(const std::string& hint);

}  // namespace causeway::cli
