#include "causeway/base/positioned_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/file.h"

namespace causeway {
namespace {

using ::testing::AllOf;
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

TEST_F(PositionedFileTest, OneWithoutANameIsInNoDirectory) {
  const std::filesystem::path directory = path_.string() + "-directory";
  std::filesystem::create_directory(directory);
  PositionedFile file = PositionedFile::create_unnamed(directory);
  file.write_at(0, bytes_of("abcd"));
  file.keep();
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  std::array<char, 2> read{};
  file.read_at(1, std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(std::string(read.data(), 2), "bc");
  EXPECT_EQ(file.size(), 4u);
  std::filesystem::remove(directory);
  EXPECT_THAT(message_of([&] { PositionedFile::create_unnamed(directory); }, ErrorKind::kNotFound),
              HasSubstr(directory.string() + ": cannot create a file in it"));
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

class UnchangedFileTest : public PositionedFileTest {
 protected:
  UnchangedFileTest() { write_file_atomically(path_, std::string_view("0123456789")); }
  PositionedFile open() const { return PositionedFile::open(path_, PositionedFile::Content::kMustStay); }
  static std::string read(const PositionedFile& file, uint64_t offset) {
    std::string text(4, ' ');
    file.read_at(offset, std::as_writable_bytes(std::span(text)));
    return text;
  }
};

TEST_F(UnchangedFileTest, ReadsTheFileAsItWasOpened) {
  const PositionedFile file = open();
  EXPECT_EQ(file.size(), 10u);
  EXPECT_EQ(read(file, 3), "3456");
  // Another file of that name is not this one.
  write_file_atomically(path_, std::string_view("abc"));
  EXPECT_EQ(read(file, 6), "6789");
  EXPECT_EQ(file.size(), 10u);
}

TEST_F(UnchangedFileTest, ACutFileIsAnErrorWithItsName) {
  const PositionedFile file = open();
  ASSERT_EQ(::truncate(path_.c_str(), 4), 0);
  const std::string cut =
      path_.string() + ": the file was cut short while it was being read: it had 10 bytes and has 4";
  for (const uint64_t offset : {0, 3})
    EXPECT_THAT(message_of([&] { read(file, offset); }, ErrorKind::kCorrupt),
                AllOf(HasSubstr(cut), HasSubstr("must not change until the run ends")));
  EXPECT_EQ(file.size(), 10u);
}

TEST_F(UnchangedFileTest, AChangedFileIsAnErrorWithItsName) {
  const PositionedFile file = open(), indifferent = PositionedFile::open(path_);
  {
    std::fstream same_size(path_, std::ios::in | std::ios::out);
    same_size << "x";
  }
  // Whatever the clock's granularity.
  const timespec times[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_THAT(message_of([&] { read(file, 3); }, ErrorKind::kCorrupt),
              HasSubstr("the file was changed while it was being read"));
  EXPECT_EQ(read(indifferent, 0), "x123");
}

TEST_F(UnchangedFileTest, MoreFilesThanTheShellAllows) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 200) GTEST_SKIP() << "this process may not open 200 files";
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<PositionedFile> files;
  for (int i = 0; i < 150; ++i) files.push_back(open());
  EXPECT_EQ(files.size(), 150u);
  files.clear();
  // Where there are no more to be had.
  const rlimit all{64, 64};
  if (::fork() == 0) {
    ::setrlimit(RLIMIT_NOFILE, &all);
    std::string message;
    try {
      for (int i = 0; i < 150; ++i) files.push_back(open());
    } catch (const Error& error) {
      message = error.what();
    }
    ::_exit(message.find("ulimit -n") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_GT(::wait(&status), 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace causeway
