// MD5 (RFC 1321) and SHA-1 (FIPS 180-4), which other programs name files by. They tell damage, not forgery: both are
// broken as proofs of origin.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::formats {

class MessageDigest {
 public:
  enum class Algorithm { kMd5, kSha1 };
  explicit MessageDigest(Algorithm algorithm);

  void add(std::span<const char> bytes);
  // Of all bytes added so far, in lower-case hexadecimal digits.
  std::string hex() const;

 private:
  static constexpr size_t kBlockBytes = 64;

  void add_block(const unsigned char* block);

  Algorithm algorithm_;
  std::array<uint32_t, 5> state_;  // MD5 has four words
  std::array<unsigned char, kBlockBytes> block_{};
  uint64_t bytes_ = 0;
};

}  // namespace causeway::formats
