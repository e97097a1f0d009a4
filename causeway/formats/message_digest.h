// MD5 (RFC 1321) and SHA-1 (FIPS 180-4), which other programs name files by. They tell damage, not forgery: both are
// broken as proofs of origin.
#pragma once

#include <mbedtls/md.h>

#include <memory>
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
  struct Release {
    void operator()(mbedtls_md_context_t* context) const;
  };
  using Context = std::unique_ptr<mbedtls_md_context_t, Release>;
  static Context make_context(const mbedtls_md_info_t* algorithm);

  const mbedtls_md_info_t* algorithm_;
  Context context_;
};

}  // namespace causeway::formats
