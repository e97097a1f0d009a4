// What `cmake --install` puts down is enough for a project of its own: examples/ is configured, built and run against
// it.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "causeway/base/file.h"
#include "tests/fixtures/temporary_directory.h"

namespace causeway {
namespace {

class InstalledPackageTest : public ::testing::Test {
 protected:
  // Runs a command; its output goes to a file, which is returned.
  std::string run(const std::string& command) {
    const std::string log = (directory_ / "log").string();
    EXPECT_EQ(std::system((command + " > " + log + " 2>&1").c_str()), 0) << command << "\n" << read_text_file(log);
    return read_text_file(log);
  }
  TemporaryDirectory directory_;
};

TEST_F(InstalledPackageTest, ExamplesBuildAndLearn) {
  const std::string prefix = (directory_ / "install").string(), build = (directory_ / "build").string();
  run("cmake --install " CAUSEWAY_BINARY_DIR " --prefix " + prefix);
  for (const char* file :
       {"bin/causeway", "include/causeway/tensor/ops.h", "include/causeway/tensor/step.h",
        "share/causeway/recipes/shakespeare.yaml", "share/doc/causeway/README.md", "share/doc/causeway/LICENSE",
        "share/doc/causeway/docs/recipes.md", "share/doc/causeway/docs/planning.md"})
    EXPECT_TRUE(std::filesystem::exists(directory_ / "install" / file)) << file;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "install/include/causeway/cli"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "install/include/causeway/codegen"));
  run("cmake -S " CAUSEWAY_SOURCE_DIR "/examples -B " + build +
      " -DCMAKE_CXX_COMPILER=" CAUSEWAY_CXX_COMPILER " -DCMAKE_PREFIX_PATH=" + prefix);
  run("cmake --build " + build);
  ::setenv("XDG_CACHE_HOME", CAUSEWAY_BINARY_DIR "/test_cache", 1);
  std::istringstream lines(run(build + "/modular_addition"));
  std::vector<double> losses;
  double right = 0;
  for (std::string line; std::getline(lines, line);) {
    int step = 0;
    double loss = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "step %d loss %lf right %lf", &step, &loss, &right), 3) << line;
    if (!losses.empty()) EXPECT_LT(loss, losses.back()) << line;
    losses.push_back(loss);
  }
  ASSERT_EQ(losses.size(), 11u);
  EXPECT_LT(losses.back(), 0.1);
  EXPECT_EQ(right, 100.0);
  for (const char* device : {"cpu", "emulator:sm_90a", "emulator:gfx942"}) run(build + "/user_kernel " + device);
}

}  // namespace
}  // namespace causeway
