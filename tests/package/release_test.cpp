// tools/release.sh tags a version that the tree, the build and the changelog agree on, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "causeway/base/file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway {
namespace {

using testing::HasSubstr;

class ReleaseTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("git --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
    std::filesystem::create_directories(directory_ / "tools");
    std::filesystem::copy_file(CAUSEWAY_SOURCE_DIR "/tools/release.sh", directory_ / "tools/release.sh");
    write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(causeway VERSION 0.2.0 LANGUAGES C CXX)\n");
    write("CHANGELOG.md", kChangelog);
    ASSERT_EQ(shell("git init -q -b main && git add -A && git commit -q -m first"), 0) << output();
  }

  // In the directory, as someone whose configuration of git is their own.
  int shell(const std::string& command) {
    const std::string text = "cd " + directory_.path().string() +
                             " && export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null "
                             "GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a "
                             "GIT_COMMITTER_EMAIL=a@example.org; unset GIT_DIR GIT_WORK_TREE; (" +
                             command + ") > " + log_.path().string() + "/log 2>&1";
    return WEXITSTATUS(std::system(text.c_str()));
  }
  std::string output() const { return read_text_file(log_.path() / "log"); }
  void write(const std::string& file, const std::string& text) { std::ofstream(directory_ / file) << text; }
  void commit(const std::string& file, const std::string& text) {
    write(file, text);
    ASSERT_EQ(shell("git commit -q -a -m change"), 0) << output();
  }
  void expect_refused(const std::string& version, const std::string& why) {
    EXPECT_EQ(shell("tools/release.sh " + version), 1);
    EXPECT_THAT(output(), HasSubstr("error: " + why));
    shell("git tag --list");
    EXPECT_THAT(output(), testing::Not(HasSubstr(version)));
  }

  static constexpr const char* kChangelog =
      "# Changes\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n### New\n\n- A thing.\n\n## 0.1.0 (2026-11-21)\n\n- "
      "All.\n";
  TemporaryDirectory directory_, log_;
};

TEST_F(ReleaseTest, TagsWithTheTextOfTheChangelog) {
  ASSERT_EQ(shell("tools/release.sh 0.2.0"), 0) << output();
  EXPECT_THAT(output(), HasSubstr("Created the tag v0.2.0"));
  ASSERT_EQ(shell("git cat-file -t v0.2.0 && git tag -n9 --list v0.2.0"), 0);
  EXPECT_THAT(output(), testing::AllOf(HasSubstr("tag\n"), HasSubstr("Causeway 0.2.0"), HasSubstr("### New"),
                                       HasSubstr("- A thing."), testing::Not(HasSubstr("- All."))));
  EXPECT_EQ(shell("tools/release.sh 0.2.0"), 1);
  EXPECT_THAT(output(), HasSubstr("error: the tag v0.2.0 exists"));
}

TEST_F(ReleaseTest, RefusesWhatDoesNotAgree) {
  expect_refused("0.2", "'0.2' is not a semantic version");
  expect_refused("0.3.0", "CMakeLists.txt builds version 0.2.0");
  write("new", "");
  expect_refused("0.2.0", "the working tree has changes that are not committed");
  std::filesystem::remove(directory_ / "new");
  commit("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n- A thing.\n\n## 0.1.0 (2026-11-21)\n\n- All.\n");
  expect_refused("0.2.0", "CHANGELOG.md has no heading '## 0.2.0 (YYYY-MM-DD)'");
  commit("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n## 0.1.0 (2026-11-21)\n\n- All.\n");
  expect_refused("0.2.0", "CHANGELOG.md says nothing of 0.2.0");
  commit("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n- More.\n\n## 0.2.0 (2026-12-01)\n\n- A thing.\n");
  expect_refused("0.2.0", "CHANGELOG.md still has changes under Unreleased");
  commit("CHANGELOG.md", kChangelog);
  ASSERT_EQ(shell("git tag v0.10.0"), 0);
  expect_refused("0.2.0", "version 0.10.0 was released before, and is newer");
}

}  // namespace
}  // namespace causeway
