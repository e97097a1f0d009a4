#include "causeway/base/private_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <functional>

#include "causeway/base/file.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr uid_t kAnother = 1;  // "daemon" wherever this is Linux
constexpr const char* kNotRoot = "only root can give files to another user";

class PrivateDirectoryTest : public testing::Test {
 protected:
  PrivateDirectoryTest() {
    std::string name = (fs::temp_directory_path() / "causeway-private-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~PrivateDirectoryTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  static mode_t mode_of(const fs::path& path) {
    struct stat status{};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  static std::string refusal(const std::function<void()>& action) {
    try {
      action();
    } catch (const UntrustedPathError& error) {
      EXPECT_FALSE(error.hint().empty());
      return error.what();
    }
    return "accepted";
  }
  static std::string refusal(const fs::path& path) {
    return refusal([&] { PrivateDirectory::create(path); });
  }

  fs::path root_;
};

TEST_F(PrivateDirectoryTest, MakesWhatIsMissingForTheUserAlone) {
  const PrivateDirectory directory = PrivateDirectory::create(root_ / "a/b/c");
  EXPECT_EQ(directory.path(), root_ / "a/b/c");
  for (const char* made : {"a", "a/b", "a/b/c"}) EXPECT_EQ(mode_of(root_ / made), 0700u) << made;
  EXPECT_THROW(PrivateDirectory::open(root_ / "a/missing"), Error);
  EXPECT_FALSE(fs::exists(root_ / "a/missing"));
  // Another that read it can do so no longer.
  fs::permissions(root_ / "a/b/c", fs::perms(0755));
  PrivateDirectory::open(root_ / "a/b/c");
  EXPECT_EQ(mode_of(root_ / "a/b/c"), 0700u);
}

TEST_F(PrivateDirectoryTest, FilesAreTheUsersAloneAndComeBackWhole) {
  const PrivateDirectory directory = PrivateDirectory::create(root_ / "d");
  EXPECT_EQ(directory.read_file("absent"), std::nullopt);
  EXPECT_FALSE(directory.check_file("absent"));
  const std::string content(100'000, '\x80');
  directory.write_file("file", "old");
  directory.write_file("file", content);
  EXPECT_EQ(directory.read_file("file"), content);
  EXPECT_TRUE(directory.check_file("file"));
  EXPECT_EQ(mode_of(root_ / "d/file"), 0600u);
  directory.create_file("file");
  EXPECT_EQ(directory.read_file("file"), content);
  directory.create_file("empty");
  EXPECT_EQ(mode_of(root_ / "d/empty"), 0600u);
  fs::create_directory(root_ / "d/below");
  write_file_atomically(root_ / "d/below/more", std::string_view("1234"));
  EXPECT_EQ(directory.files().size(), 2u);
  EXPECT_EQ(directory.bytes_below(), 100'004);
  EXPECT_TRUE(directory.remove_file("empty"));
  EXPECT_FALSE(directory.remove_file("empty"));
  directory.remove_everything_below();
  EXPECT_TRUE(fs::is_empty(root_ / "d"));
}

TEST_F(PrivateDirectoryTest, WhatOthersMayWriteToIsRefused) {
  fs::create_directories(root_ / "above/last");
  EXPECT_EQ(refusal(root_ / "above/last"), "accepted");
  fs::permissions(root_ / "above/last", fs::perms(0777));
  EXPECT_THAT(refusal(root_ / "above/last"),
              AllOf(HasSubstr("others could have written it"), HasSubstr("above/last may be written to by everybody"),
                    HasSubstr("(mode 0777)"), HasSubstr("chmod go-w")));
  // Sticky is not enough for the last: others could add files.
  fs::permissions(root_ / "above/last", fs::perms(01777));
  EXPECT_THAT(refusal(root_ / "above/last"), HasSubstr("mode 1777"));
  fs::permissions(root_ / "above/last", fs::perms(0700));
  fs::permissions(root_ / "above", fs::perms(0777));
  EXPECT_THAT(refusal(root_ / "above/last"), HasSubstr("above may be written to by everybody (mode 0777)"));
  EXPECT_THAT(refusal(root_ / "above/new"), HasSubstr("above may be written to by everybody"));
  EXPECT_FALSE(fs::exists(root_ / "above/new"));
  fs::permissions(root_ / "above", fs::perms(01777));
  EXPECT_EQ(refusal(root_ / "above/last"), "accepted");
}

// As with sudo and the HOME of the user that called it.
TEST_F(PrivateDirectoryTest, AnothersDirectoryIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << kNotRoot;
  fs::create_directories(root_ / "home/cache");
  ASSERT_EQ(::chown((root_ / "home/cache").c_str(), kAnother, kAnother), 0);
  EXPECT_THAT(refusal(root_ / "home/cache"),
              AllOf(HasSubstr("home/cache belongs to user "), HasSubstr("this is user root")));
  ASSERT_EQ(::chown((root_ / "home/cache").c_str(), 0, 0), 0);
  ASSERT_EQ(::chown((root_ / "home").c_str(), kAnother, kAnother), 0);
  EXPECT_THAT(refusal(root_ / "home/cache"), HasSubstr("home belongs to user "));
}

// A program of `user` in his own primary group: what `action` returned is its status.
int status_as(uid_t user, gid_t group, const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setgid(group) == 0 && ::setuid(user) == 0 ? action() : 99);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

TEST_F(PrivateDirectoryTest, AGroupThatIsTheUsersOwnIsNobodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << kNotRoot;
  const fs::path directory = root_ / "shared";
  fs::create_directory(directory);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  const auto accepted = [&](gid_t group) {
    EXPECT_EQ(::chown(directory.c_str(), kAnother, group), 0);
    EXPECT_EQ(::chmod(directory.c_str(), 0775), 0);
    return status_as(kAnother, kAnother, [&] { return refusal(directory) == "accepted" ? 1 : 0; });
  };
  EXPECT_EQ(accepted(kAnother), 1);
  EXPECT_EQ(accepted(0), 0);
  EXPECT_EQ(accepted(2), 0);
  // Not where it is root's: its group has members of old in many systems.
  ASSERT_EQ(::chown(directory.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(directory.c_str(), 0775), 0);
  EXPECT_THAT(refusal(directory), HasSubstr("group 0 (mode 0775)"));
  // Root's own directory is no user's own, though he may write to it by none.
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
  EXPECT_EQ(status_as(kAnother, kAnother, [&] { return refusal(directory) == "accepted" ? 1 : 0; }), 0);
}

TEST_F(PrivateDirectoryTest, AnAccessListCountsAsItsMask) {
  if (::geteuid() != 0) GTEST_SKIP() << kNotRoot;
  const fs::path directory = root_ / "listed";
  fs::create_directory(directory);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  // Of linux/posix_acl_xattr.h: a version, then tag, permissions and id of each entry.
  struct Entry {
    uint16_t tag, permissions;
    uint32_t id;
  };
  constexpr uint32_t kNone = 0xffffffff;
  const std::array<Entry, 5> entries = {
      {{1, 7, kNone}, {2, 7, 12345}, {4, 5, kNone}, {0x10, 7, kNone}, {0x20, 5, kNone}}};
  std::string list("\2\0\0\0", 4);
  list.append(reinterpret_cast<const char*>(entries.data()), sizeof entries);
  const auto accepted = [&] {
    return status_as(kAnother, kAnother, [&] { return refusal(directory) == "accepted" ? 1 : 0; });
  };
  ASSERT_EQ(::chown(directory.c_str(), kAnother, kAnother), 0);
  ASSERT_EQ(::chmod(directory.c_str(), 0775), 0);
  EXPECT_EQ(accepted(), 1);
  ASSERT_EQ(::chmod(directory.c_str(), 0775), 0);
  if (::setxattr(directory.c_str(), "system.posix_acl_access", list.data(), list.size(), 0) != 0)
    GTEST_SKIP() << "the file system of temporary files has no access control lists";
  EXPECT_EQ(accepted(), 0);
}

TEST_F(PrivateDirectoryTest, LinksAreFollowedWhereTheRuleHoldsForWhatTheyLeadTo) {
  fs::create_directories(root_ / "real/last");
  fs::create_directory_symlink("real", root_ / "relative");
  fs::create_directory_symlink(root_ / "real", root_ / "absolute");
  EXPECT_EQ(refusal(root_ / "relative/last"), "accepted");
  EXPECT_EQ(refusal(root_ / "absolute/last/../last"), "accepted");
  PrivateDirectory::create(root_ / "absolute/made");
  EXPECT_EQ(mode_of(root_ / "real/made"), 0700u);
  fs::create_directory_symlink(root_ / "real/last", root_ / "to_last");
  fs::permissions(root_ / "real", fs::perms(0777));
  EXPECT_THAT(refusal(root_ / "to_last"), HasSubstr("real may be written to by everybody"));
  fs::create_directory_symlink("loop", root_ / "loop");
  EXPECT_THROW(PrivateDirectory::create(root_ / "loop/x"), Error);
  fs::permissions(root_ / "real", fs::perms(0700));
  if (::geteuid() != 0) GTEST_SKIP() << kNotRoot;
  ASSERT_EQ(::lchown((root_ / "relative").c_str(), kAnother, kAnother), 0);
  EXPECT_THAT(refusal(root_ / "relative/last"), HasSubstr("relative belongs to user "));
}

TEST_F(PrivateDirectoryTest, FilesThatOthersCouldHaveWrittenAreRefused) {
  const PrivateDirectory directory = PrivateDirectory::create(root_ / "d");
  const auto refused = [&](const std::string& name) {
    const std::string reading = refusal([&] { directory.read_file(name); });
    EXPECT_EQ(refusal([&] { directory.check_file(name); }), reading);
    EXPECT_EQ(refusal([&] { directory.check_everything_below(); }), reading);
    fs::remove(root_ / "d" / name);
    EXPECT_EQ(refusal([&] { directory.check_everything_below(); }), "accepted");
    return reading;
  };
  directory.write_file("loose", "x");
  fs::permissions(root_ / "d/loose", fs::perms(0666));
  EXPECT_THAT(refused("loose"), HasSubstr("loose may be written to by everybody (mode 0666)"));
  write_file_atomically(root_ / "elsewhere", std::string_view("secret"));
  fs::create_symlink(root_ / "elsewhere", root_ / "d/link");
  EXPECT_THAT(refused("link"), HasSubstr("no regular file"));
  // Without waiting for its writer.
  ASSERT_EQ(::mkfifo((root_ / "d/pipe").c_str(), 0600), 0);
  EXPECT_THAT(refused("pipe"), HasSubstr("no regular file"));
  if (::geteuid() != 0) GTEST_SKIP() << kNotRoot;
  directory.write_file("given", "x");
  ASSERT_EQ(::chown((root_ / "d/given").c_str(), kAnother, kAnother), 0);
  EXPECT_THAT(refused("given"), HasSubstr("given belongs to user "));
}

TEST_F(PrivateDirectoryTest, WhatLiesDeepBelowIsLookedAtToo) {
  const PrivateDirectory directory = PrivateDirectory::create(root_ / "d");
  fs::create_directories(root_ / "d/1/2");
  write_file_atomically(root_ / "d/1/2/code", std::string_view("x"));
  directory.check_everything_below();
  fs::permissions(root_ / "d/1/2/code", fs::perms(0646));
  EXPECT_THAT(refusal([&] { directory.check_everything_below(); }), HasSubstr("d/1/2/code may be written to"));
  fs::permissions(root_ / "d/1/2/code", fs::perms(0600));
  fs::permissions(root_ / "d/1/2", fs::perms(0777));
  EXPECT_THAT(refusal([&] { directory.check_everything_below(); }), HasSubstr("d/1/2 may be written to"));
}

// SQLite's locks are gone from a process when it closes any descriptor of the file.
TEST_F(PrivateDirectoryTest, ALookLeavesLocksAlone) {
  const PrivateDirectory directory = PrivateDirectory::create(root_ / "d");
  directory.write_file("database", "x");
  const std::string path = root_ / "d/database";
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(file, F_SETLK, &lock), 0);
  directory.check_file("database");
  const pid_t child = ::fork();
  if (child == 0) {
    const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ::_exit(::fcntl(other, F_SETLK, &lock) == 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "another process got the lock";
  ::close(file);
}

}  // namespace
}  // namespace causeway
