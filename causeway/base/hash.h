// Content hashes (XXH3, 128 bit) for cache keys and checkpoint chunks. Not cryptographic.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace causeway {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
  // 32 lower-case hexadecimal digits, high half first.
  std::string hex() const;
};

Hash128 hash_bytes(std::span<const std::byte> bytes);
Hash128 hash_text(std::string_view text);

}  // namespace causeway
