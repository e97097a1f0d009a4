#include "causeway/base/positioned_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "causeway/base/error.h"
#include "causeway/base/file.h"

namespace causeway {
namespace {

using ::testing::HasSubstr;

class PositionedFileTest : public ::testing::Test {
 protected:
  ~PositionedFileTest() override { ::unlink(path_.c_str()); }
  std::string message_of(const std::function<void()>& action, ErrorKind kind) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      return error.what();
    }
    return "no error";
  }
  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("causeway-positioned-file-" + std::to_string(::getpid()));
};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST_F(PositionedFileTest, WritesAndReadsAtOffsets) {
  PositionedFile file = PositionedFile::create(path_);
  file.reserve(8);
  EXPECT_EQ(file.size(), 8u);
  file.write_at(5, bytes_of("xyz"));
  file.write_at(0, bytes_of("ab"));
  file.sync();
  EXPECT_EQ(read_text_file(path_), std::string("ab\0\0\0xyz", 8));

  PositionedFile reader = PositionedFile::open(path_);
  const PositionedFile moved = std::move(reader);
  std::array<char, 4> read{};
  moved.read_at(4, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(std::string(read.data(), 4), std::string("\0xyz", 4));
}

TEST_F(PositionedFileTest, ErrorsNameThePathAndTheReason) {
  EXPECT_THAT(message_of([&] { PositionedFile::open(path_); }, ErrorKind::kNotFound),
              HasSubstr(path_.string() + ": cannot open: No such file or directory"));
  EXPECT_THAT(message_of([] { PositionedFile::open("/tmp"); }, ErrorKind::kIo),
              HasSubstr("/tmp: cannot be read: this is a directory"));
  EXPECT_THAT(message_of([] { PositionedFile::create("/dev/full").write_at(0, bytes_of("x")); }, ErrorKind::kResource),
              HasSubstr("The disk is full"));
  PositionedFile::create(path_).write_at(0, bytes_of("ab"));
  std::array<std::byte, 4> read{};
  EXPECT_THAT(message_of([&] { PositionedFile::open(path_).read_at(0, read); }, ErrorKind::kCorrupt),
              HasSubstr("the file ends before byte 4"));
}

}  // namespace
}  // namespace causeway
