#include "causeway/formats/tokenizer/byte_fallback.h"

#include <fmt/format.h>

#include <charconv>

namespace causeway::formats {

std::string byte_token(unsigned char byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<unsigned char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned char byte = 0;
  const auto [end, code] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (code != std::errc() || end != token.data() + 5) return std::nullopt;
  return byte;
}

}  // namespace causeway::formats
