#include "causeway/base/byte_size.h"

#include <gtest/gtest.h>

#include "causeway/base/error.h"

namespace causeway {
namespace {

TEST(ByteSizeTest, IsReadWithAndWithoutAUnit) {
  EXPECT_EQ(parse_byte_size("1000", "--size"), 1000);
  EXPECT_EQ(parse_byte_size("16M", "--size"), 16 << 20);
  EXPECT_EQ(parse_byte_size("16 MiB", "--size"), 16 << 20);
  EXPECT_EQ(parse_byte_size("8G", "--size"), int64_t{8} << 30);
  EXPECT_EQ(parse_byte_size("4KB", "--size"), 4096);
  EXPECT_EQ(parse_byte_size("1T", "--size"), int64_t{1} << 40);
}

TEST(ByteSizeTest, WhatIsNoneIsNamed) {
  for (const char* wrong : {"", "M", "0", "-1M", "16X", "16Mi", "1.5G", "99999999999999G", "16M2"}) {
    try {
      parse_byte_size(wrong, "--size");
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_EQ(error.message(), std::string("'") + wrong + "' is not a size");
      EXPECT_EQ(error.where(), "--size");
    }
  }
}

}  // namespace
}  // namespace causeway
