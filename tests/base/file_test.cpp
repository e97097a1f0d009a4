#include "causeway/base/file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "causeway/base/error.h"
#include "causeway/base/positioned_file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kNotFound, "");
}

TEST(ReadFile, AZeroByteInANameDoesNotMakeItAnotherName) {
  const TemporaryDirectory directory;
  write_file_atomically(directory / "a", "precious");
  const fs::path path = (directory / "a").string() + std::string("\0b", 2);
  EXPECT_EQ(error_of([&] { read_text_file(path); }).kind(), ErrorKind::kNotFound);
  EXPECT_EQ(error_of([&] { PositionedFile::open(path); }).kind(), ErrorKind::kNotFound);
}

// A FIFO without a writer would hold a reader up for good.
TEST(ReadFile, WhatIsNoRegularFileIsRefusedAtOnce) {
  std::string directory = (std::filesystem::temp_directory_path() / "causeway-test-XXXXXX").string();
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string fifo = directory + "/fifo", socket_path = directory + "/socket";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::map<std::string, std::string> kinds = {
      {fifo, "a FIFO"}, {socket_path, "a socket"}, {directory, "a directory"}, {"/dev/zero", "a device"}};
  for (const auto& [path, kind] : kinds) {
    for (const auto& work :
         {std::function<void()>([&] { read_text_file(path); }), std::function<void()>([&] { MappedFile file(path); }),
          std::function<void()>([&] { PositionedFile::open(path); })}) {
      const Error error = error_of(work);
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_EQ(error.where(), path);
      EXPECT_EQ(error.message(), "cannot be read: this is " + kind + ", where a file is expected");
    }
  }
  ::close(descriptor);
  std::filesystem::remove_all(directory);
}

TEST(ReadFile, ALargeFileIsNotRead) {
  std::string path = (std::filesystem::temp_directory_path() / "causeway-test-XXXXXX").string();
  const int descriptor = ::mkstemp(path.data());
  ASSERT_EQ(::ftruncate(descriptor, off_t{1} << 40), 0);
  const Error error = error_of([&] { read_text_file(path); });
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_EQ(error.message(), "the file has 1099511627776 bytes or more, and at most 1073741824 are read here");
  EXPECT_EQ(error_of([&] { read_text_file("/proc/self/status", 10); }).kind(), ErrorKind::kResource);
  ::close(descriptor);
  std::filesystem::remove(path);
}

TEST(FileTest, AtomicWritesLeaveTheFileAndNothingElse) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, std::string_view("one"));
  write_file_atomically(path, std::string_view("two"));
  EXPECT_EQ(read_text_file(path), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

// In a directory that others may write to: a link under the name of the temporary file would lead the write astray.
TEST(FileTest, AtomicWritesGoThroughNoLinkThatWaitsForThem) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "report.html", victim = directory.path() / "victim";
  write_file_atomically(victim, std::string_view("precious"));
  for (int i = 0; i < 100; ++i) fs::create_symlink(victim, path.string() + fmt::format(".tmp-{}-{}", ::getpid(), i));
  write_file_atomically(path, std::string_view("report"));
  EXPECT_EQ(read_text_file(victim), "precious");
  EXPECT_EQ(read_text_file(path), "report");
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST(FileTest, AWriterThatWasToldSoTakesOverNothing) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "link";
  fs::create_symlink(directory.path() / "target", path);
  EXPECT_THROW(FileWriter(path, FileWriter::Existing::kRefuse), Error);
  EXPECT_FALSE(fs::exists(directory.path() / "target"));
}

}  // namespace
}  // namespace causeway
