#include "causeway/formats/message_digest.h"

#include <fmt/format.h>

#include <new>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

// The library fails for want of memory, and where it was built without an algorithm.
void require_success(int code) {
  if (code == MBEDTLS_ERR_MD_ALLOC_FAILED) throw std::bad_alloc();
  CAUSEWAY_CHECK(code == 0, "Mbed TLS returned {}", code);
}

const unsigned char* bytes_of(std::span<const char> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

void MessageDigest::Release::operator()(mbedtls_md_context_t* context) const {
  mbedtls_md_free(context);
  delete context;
}

MessageDigest::Context MessageDigest::make_context(const mbedtls_md_info_t* algorithm) {
  Context context(new mbedtls_md_context_t);
  mbedtls_md_init(context.get());
  require_success(mbedtls_md_setup(context.get(), algorithm, 0));
  return context;
}

MessageDigest::MessageDigest(Algorithm algorithm)
    : algorithm_(mbedtls_md_info_from_type(algorithm == Algorithm::kMd5 ? MBEDTLS_MD_MD5 : MBEDTLS_MD_SHA1)),
      context_(make_context(algorithm_)) {
  require_success(mbedtls_md_starts(context_.get()));
}

void MessageDigest::add(std::span<const char> bytes) {
  require_success(mbedtls_md_update(context_.get(), bytes_of(bytes), bytes.size()));
}

std::string MessageDigest::hex() const {
  const Context so_far = make_context(algorithm_);  // what is finished takes no more bytes
  require_success(mbedtls_md_clone(so_far.get(), context_.get()));
  std::vector<unsigned char> digest(mbedtls_md_get_size(algorithm_));
  require_success(mbedtls_md_finish(so_far.get(), digest.data()));
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace causeway::formats
