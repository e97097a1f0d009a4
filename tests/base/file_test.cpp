#include "causeway/base/file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "causeway/base/error.h"

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

}  // namespace
}  // namespace causeway
