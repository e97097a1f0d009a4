#include "causeway/formats/message_digest.h"

#include <gtest/gtest.h>

namespace causeway::formats {
namespace {

std::string md5(std::string_view text) {
  MessageDigest digest(MessageDigest::Algorithm::kMd5);
  digest.add(text);
  return digest.hex();
}

std::string sha1(std::string_view text) {
  MessageDigest digest(MessageDigest::Algorithm::kSha1);
  digest.add(text);
  return digest.hex();
}

// The test suite of RFC 1321, appendix A.5.
TEST(MessageDigest, Md5IsThatOfTheRfc) {
  EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5("message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(md5("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"), "d174ab98d277d9f5a5611c2c9f419d9f");
  EXPECT_EQ(md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
}

// The examples of FIPS 180.
TEST(MessageDigest, Sha1IsThatOfTheStandard) {
  EXPECT_EQ(sha1(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(sha1(std::string(1'000'000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(MessageDigest, PiecesAreTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t size = 0; size < text.size(); ++size) {
    MessageDigest digest(MessageDigest::Algorithm::kSha1);
    digest.add(std::string_view(text).substr(0, size));
    digest.hex();
    digest.add(std::string_view(text).substr(size));
    ASSERT_EQ(digest.hex(), sha1(text));
  }
}

}  // namespace
}  // namespace causeway::formats
