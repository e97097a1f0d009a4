#include "causeway/base/enclosed_path.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/file_descriptor.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class EnclosedPathTest : public ::testing::Test {
 protected:
  EnclosedPathTest() : run_(directory_ / "run"), outside_(directory_ / "outside") {
    fs::create_directories(run_ / "sub");
    fs::create_directories(outside_);
    write_file_atomically(outside_ / "precious", std::string_view("mine"));
  }

  // Writes to run/below as a log does; "written", or what was said.
  std::string write(const fs::path& below) const {
    return message_or_written([&] {
      const FileDescriptor file(open_enclosed(run_, below, O_WRONLY | O_CREAT | O_TRUNC));
      ASSERT_EQ(::write(file.get(), "log", 3), 3);
    });
  }
  static std::string message_or_written(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "written";
  }
  // Nothing outside was touched, and nothing was made there.
  void expect_untouched() const {
    EXPECT_EQ(read_text_file(outside_ / "precious"), "mine");
    EXPECT_EQ(std::distance(fs::directory_iterator(outside_), fs::directory_iterator()), 1);
  }

  TemporaryDirectory directory_;
  fs::path run_, outside_;
};

TEST_F(EnclosedPathTest, FollowsNoLinkOut) {
  fs::create_symlink(outside_ / "precious", run_ / "absolute");
  fs::create_symlink("../outside/precious", run_ / "relative");
  fs::create_symlink("../outside/new", run_ / "dangling");
  fs::create_symlink(outside_ / "new", run_ / "dangling_absolute");
  fs::create_symlink("../outside", run_ / "directory");
  fs::create_symlink("sub/../../outside", run_ / "sideways");
  fs::create_symlink("directory", run_ / "link_to_link");
  for (const char* below : {"absolute", "relative", "dangling", "dangling_absolute", "directory/new",
                            "directory/precious", "sideways/precious", "link_to_link/precious"}) {
    EXPECT_THAT(write(below), HasSubstr("leads out of " + run_.string())) << below;
    EXPECT_THROW(require_enclosed(run_, below), Error) << below;
    EXPECT_THROW(create_enclosed_directories(run_, fs::path(below) / "x"), Error) << below;
  }
  EXPECT_THAT(write("../outside/precious"), HasSubstr("it is not below " + run_.string()));
  expect_untouched();
  EXPECT_EQ(
      write("absolute"),
      fmt::format("{}: a link here leads out of {}, to {}: nothing is written or deleted through it\n  Remove the "
                  "link. To keep files elsewhere, let {} itself be a link.",
                  (run_ / "absolute").string(), run_.string(), (outside_ / "precious").string(), run_.string()));
}

TEST_F(EnclosedPathTest, FollowsLinksThatStayInside) {
  fs::create_symlink("sub/log", run_ / "relative");
  fs::create_symlink(run_ / "sub/log2", run_ / "absolute");
  fs::create_symlink("..", run_ / "sub" / "up");
  for (const char* below : {"relative", "absolute", "sub/up/sub/log3", "plain"}) EXPECT_EQ(write(below), "written");
  for (const char* made : {"sub/log", "sub/log2", "sub/log3", "plain"}) EXPECT_EQ(read_text_file(run_ / made), "log");
  EXPECT_NO_THROW(create_enclosed_directories(run_, "sub/up/a/b/c"));
  EXPECT_NO_THROW(create_enclosed_directories(run_, "a/b/c"));
  EXPECT_TRUE(fs::is_directory(run_ / "a/b/c"));
  EXPECT_NO_THROW(require_enclosed(run_, "no/such/file"));
}

// Who keeps runs on another disk links them there himself.
TEST_F(EnclosedPathTest, TheDirectoryItselfMayBeALink) {
  fs::create_symlink("run", directory_ / "linked");
  fs::create_symlink(directory_ / "linked/sub/log", run_ / "by_the_link");
  const FileDescriptor file(open_enclosed(directory_ / "linked", "by_the_link", O_WRONLY | O_CREAT));
  EXPECT_TRUE(fs::exists(run_ / "sub/log"));
}

TEST_F(EnclosedPathTest, SaysWhatElseIsWrong) {
  fs::create_symlink("loop", run_ / "loop");
  EXPECT_THAT(write("loop"), HasSubstr("cannot follow the links of: Too many levels"));
  EXPECT_THAT(write("no/such"), HasSubstr("No such file"));
  EXPECT_THAT(write("plain"), "written");
  EXPECT_THAT(write("plain/below"), HasSubstr("Not a directory"));
  EXPECT_THAT(message_or_written([&] { create_enclosed_directories(run_, "plain"); }),
              HasSubstr("cannot create the directory: File exists"));
  EXPECT_THAT(message_or_written([&] { open_enclosed(run_ / "none", "x", O_RDONLY); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace causeway
