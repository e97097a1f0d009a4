// Numbers of bytes as a user writes and reads them, by powers of 1,024.
#pragma once

#include <cstdint>
#include <string>

namespace causeway {

// Bytes of "16M", "8G", "64 MiB", "4KB" or "1000", up to 1 PiB. Throws Error(kInvalidArgument)
// that names `where`, the option or argument.
int64_t parse_byte_size(const std::string& text, const std::string& where);

// Three significant digits in the unit that gives the shortest number: "512 B", "64 KiB", "12.3 GiB".
std::string format_bytes(int64_t bytes);
// All in one unit, for figures that stand beside one another: "0.05 GiB".
std::string format_gib(int64_t bytes, int decimals = 2);
// Exactly, for a name: "16 MiB", "1500 KiB", "100 B".
std::string exact_bytes(int64_t bytes);

}  // namespace causeway
