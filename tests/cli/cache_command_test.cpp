// What is kept of compiled kernels between runs, where, and how it is removed.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/program_under_test.h"

namespace causeway::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class CacheCommandTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    set_environment({{"XDG_CACHE_HOME", path("cache").string()}});
  }
};

TEST_F(CacheCommandTest, IsListedPrunedLimitedAndCleared) {
  ASSERT_EQ(run({"doctor"}).status, 0);  // compiles a kernel or two
  nlohmann::json cache = run_json({"cache", "--json"});
  EXPECT_EQ(cache["directory"], path("cache/causeway/kernels").string());
  EXPECT_EQ(cache["problem"], "");
  EXPECT_GE(cache["kernels"].get<int>(), 1);
  EXPECT_GT(cache["bytes"].get<int>(), 1000);
  EXPECT_LE(cache["limit_bytes"].get<int64_t>(), int64_t{2} << 30);
  for (const char* made : {"cache", "cache/causeway", "cache/causeway/kernels"})
    EXPECT_EQ(fs::status(path(made)).permissions(), fs::perms(0700)) << made;
  for (const auto& file : fs::directory_iterator(path("cache/causeway/kernels")))
    EXPECT_EQ(fs::status(file).permissions(), fs::perms(0600)) << file.path();

  EXPECT_THAT(run({"cache"}).out, AllOf(HasSubstr("compiled kernels in "), HasSubstr(path("cache").string())));
  EXPECT_THAT(run({"cache", "prune", "1G"}).out, HasSubstr("0 kernels removed"));
  EXPECT_THAT(run({"cache", "limit", "1M"}).out, HasSubstr("At most 1 MiB of compiled kernels"));
  EXPECT_EQ(run_json({"cache", "--json"})["limit_bytes"], 1 << 20);
  EXPECT_EQ(run({"cache", "prune", "1"}).status, 0);
  EXPECT_EQ(run_json({"cache", "--json"})["kernels"], 0);

  ASSERT_EQ(run({"doctor"}).status, 0);
  fs::create_directories(path("cache/causeway/nvidia/1"));
  write("cache/causeway/nvidia/1/code", "machine code");
  EXPECT_THAT(run({"cache"}).out, HasSubstr("NVIDIA's driver"));
  EXPECT_EQ(run_json({"cache", "--json"})["driver_bytes"], 12);
  EXPECT_EQ(run({"cache", "clear"}).status, 0);
  EXPECT_EQ(run_json({"cache", "--json"})["kernels"], 0);
  EXPECT_TRUE(fs::is_empty(path("cache/causeway/nvidia")));
  EXPECT_EQ(run_json({"cache", "--json"})["limit_bytes"], 1 << 20);

  expect_failure({"cache", "prune", "much"}, 1, {"'much' is not a size", "for example 16M or 8G"});
  expect_failure({"cache", "prune"}, 2, {"size is required"});
}

// The place that every user could foresee, and write to first, is used no more.
TEST_F(CacheCommandTest, WithoutAHomeNothingIsKept) {
  fs::create_directory(path("tmp"));
  set_environment({{"TMPDIR", path("tmp").string()}});
  prepare_data();
  const Outcome outcome = run({"train", "tiny.yaml", "--quiet", "train.steps=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("compiled kernels are not kept, and the next run will compile them again"),
                                 HasSubstr("neither XDG_CACHE_HOME nor HOME is the path of a directory")));
  EXPECT_TRUE(fs::is_empty(path("tmp")));
  EXPECT_THAT(run({"doctor"}).out, AllOf(HasSubstr("kernel cache  NOT usable"), HasSubstr("neither XDG_CACHE_HOME")));
  expect_failure({"cache"}, 1, {"there is no kernel cache", "neither XDG_CACHE_HOME nor HOME"});
  // A private directory of the session, where there is one.
  set_environment({{"XDG_RUNTIME_DIR", path("session").string()}});
  EXPECT_THAT(run({"doctor"}).out,
              AllOf(HasSubstr("usable, but not in its usual place"), HasSubstr("session/causeway")));
  EXPECT_GE(run_json({"cache", "--json"})["kernels"].get<int>(), 1);
}

TEST_F(CacheCommandTest, ADirectoryThatOthersMayWriteToIsNotUsed) {
  ASSERT_EQ(run({"doctor"}).status, 0);
  fs::permissions(path("cache/causeway"), fs::perms(0777));
  const nlohmann::json doctor = run_json({"doctor", "--json"});
  EXPECT_EQ(doctor["kernel_cache"]["directory"], "");
  EXPECT_THAT(doctor["kernel_cache"]["problem"].get<std::string>(),
              AllOf(HasSubstr("cache/causeway may be written to by everybody (mode 0777)"), HasSubstr("chmod go-w"),
                    HasSubstr("compiled in every run")));
  expect_failure({"cache", "clear"}, 1, {"may be written to by everybody"});
}

TEST_F(CacheCommandTest, TheDoctorSaysWhenTheResultsStoreIsNotTheUsersOwn) {
  fs::create_directories(path("data_home/causeway"));
  fs::permissions(path("data_home/causeway"), fs::perms(0777));
  set_environment({{"XDG_CACHE_HOME", path("cache").string()}, {"XDG_DATA_HOME", path("data_home").string()}});
  EXPECT_THAT(run({"doctor"}).out, HasSubstr("the store of benchmark results is not used"));
  EXPECT_THAT(run_json({"doctor", "--json"})["results_store"]["problem"].get<std::string>(),
              HasSubstr("may be written to by everybody"));
  EXPECT_THAT(run({"bench", "list"}).out, HasSubstr("There are no results yet"));
  expect_failure({"bench", "gemm", "--device", "cpu", "--shape", "16x16x16"}, 1,
                 {"the store of benchmark results is not used", "--store"});
}

}  // namespace
}  // namespace causeway::cli
