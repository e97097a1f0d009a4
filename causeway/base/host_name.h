// The name that this machine gives itself.
#pragma once

#include <string>

namespace causeway {

// "localhost" where it gives none.
std::string host_name();

}  // namespace causeway
