// Sizes as a user writes them.
#pragma once

#include <cstdint>
#include <string>

namespace causeway {

// Bytes of "16M", "8G", "64 MiB", "4KB" or "1000", by powers of 1,024, up to 1 PiB. Throws Error(kInvalidArgument)
// that names `where`, the option or argument.
int64_t parse_byte_size(const std::string& text, const std::string& where);

}  // namespace causeway
