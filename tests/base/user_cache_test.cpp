#include "causeway/base/user_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "tests/fixtures/temporary_directory.h"

namespace causeway {
namespace {

using testing::HasSubstr;

class UserCacheTest : public testing::Test {
 protected:
  static constexpr const char* kNames[] = {"XDG_CACHE_HOME", "HOME", "XDG_RUNTIME_DIR"};

  void SetUp() override {
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name)) kept_[name] = value;
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const char* name : kNames) {
      ::unsetenv(name);
      if (kept_.contains(name)) ::setenv(name, kept_[name].c_str(), 1);
    }
  }
  void set(const char* name, const std::filesystem::path& value) { ::setenv(name, value.c_str(), 1); }

  TemporaryDirectory directory_;
  std::map<std::string, std::string> kept_;
};

TEST_F(UserCacheTest, IsWhereTheUserKeepsCaches) {
  set("XDG_CACHE_HOME", "/caches");
  set("HOME", "/home/one");
  EXPECT_EQ(usual_cache_path(), "/caches/causeway");
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(usual_cache_path(), "/home/one/.cache/causeway");
  // The specification has relative paths ignored.
  set("XDG_CACHE_HOME", "caches");
  EXPECT_EQ(usual_cache_path(), "/home/one/.cache/causeway");
  set("HOME", "");
  EXPECT_EQ(usual_cache_path(), "");
  set("HOME", directory_.path());
  const UserCache cache = open_user_cache("kernels");
  ASSERT_TRUE(cache.directory);
  EXPECT_EQ(cache.directory->path(), directory_.path() / ".cache/causeway/kernels");
  EXPECT_EQ(cache.problem, "");
}

TEST_F(UserCacheTest, WithoutAPlaceThereIsNone) {
  const UserCache cache = open_user_cache("kernels");
  EXPECT_FALSE(cache.directory);
  EXPECT_EQ(cache.problem, "neither XDG_CACHE_HOME nor HOME is the path of a directory");
}

TEST_F(UserCacheTest, WhereOthersCouldHaveWrittenItIsNotUsed) {
  const std::filesystem::path shared = directory_.path() / "shared";
  std::filesystem::create_directory(shared);
  std::filesystem::permissions(shared, std::filesystem::perms(0777));
  set("XDG_CACHE_HOME", shared);
  UserCache cache = open_user_cache("kernels");
  EXPECT_FALSE(cache.directory);
  EXPECT_THAT(cache.problem, HasSubstr("shared may be written to by everybody"));
  EXPECT_TRUE(std::filesystem::is_empty(shared));
  // A private directory in its stead, where the session has one.
  set("XDG_RUNTIME_DIR", directory_.path() / "runtime");
  cache = open_user_cache("kernels");
  ASSERT_TRUE(cache.directory);
  EXPECT_EQ(cache.directory->path(), directory_.path() / "runtime/causeway/kernels");
  EXPECT_THAT(cache.problem, HasSubstr("shared may be written to by everybody"));
}

}  // namespace
}  // namespace causeway
