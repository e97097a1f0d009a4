#include "causeway/base/file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "causeway/base/error.h"
#include "causeway/base/positioned_file.h"

namespace causeway {
namespace {

class UserCacheDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"XDG_CACHE_HOME", "HOME", "TMPDIR"})
      if (const char* value = std::getenv(name)) kept_[name] = value;
  }
  void TearDown() override {
    for (const char* name : {"XDG_CACHE_HOME", "HOME", "TMPDIR"}) {
      ::unsetenv(name);
      if (kept_.contains(name)) ::setenv(name, kept_[name].c_str(), 1);
    }
  }

  std::map<std::string, std::string> kept_;
};

TEST_F(UserCacheDirectoryTest, IsWhereTheUserKeepsCaches) {
  ::setenv("XDG_CACHE_HOME", "/caches", 1);
  ::setenv("HOME", "/home/one", 1);
  EXPECT_EQ(user_cache_directory(), "/caches/causeway");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(user_cache_directory(), "/home/one/.cache/causeway");
}

TEST_F(UserCacheDirectoryTest, WithoutAnyPlaceSaysWhatToSet) {
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  ::setenv("TMPDIR", "/nowhere", 1);
  try {
    user_cache_directory();
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
    EXPECT_EQ(error.message(), "there is no directory for cached data: No such file or directory");
    EXPECT_EQ(error.hint(), "Set HOME or XDG_CACHE_HOME to a directory.");
  }
}

Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::kNotFound, "");
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

}  // namespace
}  // namespace causeway
