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

TEST(ByteSizeTest, IsWrittenInTheUnitThatSuits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1000), "0.98 KiB");
  EXPECT_EQ(format_bytes(int64_t{13} << 30), "13 GiB");
  EXPECT_EQ(format_bytes((int64_t{13} << 30) + 1), "13.0 GiB");
  EXPECT_EQ(format_bytes(int64_t{130} << 30 | 1), "130 GiB");
  EXPECT_EQ(format_bytes(INT64_MAX), "8 EiB");
  EXPECT_EQ(format_gib(50 << 20), "0.05 GiB");
  EXPECT_EQ(format_gib(int64_t{24} << 30, 1), "24.0 GiB");
}

// Names of workloads in stored results.
TEST(ByteSizeTest, IsWrittenExactlyWhereItIsAName) {
  EXPECT_EQ(exact_bytes(0), "0 B");
  EXPECT_EQ(exact_bytes(100), "100 B");
  EXPECT_EQ(exact_bytes(1500 << 10), "1500 KiB");
  EXPECT_EQ(exact_bytes(16 << 20), "16 MiB");
  EXPECT_EQ(exact_bytes(int64_t{1} << 40), "1024 GiB");
}

}  // namespace
}  // namespace causeway
