#include "causeway/base/python_packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace causeway {
namespace {

namespace fs = std::filesystem;

TEST(PythonPackagesTest, FindsFilesBesideThePythonOnTheSearchPath) {
  const fs::path root = fs::path(testing::TempDir()) / "python_packages_test";
  fs::remove_all(root);
  const auto touch = [&](const std::string& file) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << "x";
  };
  touch("environment/bin/python3");
  touch("environment/lib/python3.12/site-packages/vendor/lib/library.so");
  touch("environment/lib/python3.11/dist-packages/vendor/lib/library.so");
  touch("environment/lib/perl/site-packages/vendor/lib/library.so");
  touch("without/lib/python3.12/site-packages/vendor/lib/library.so");
  fs::create_directories(root / "without/bin");
  const std::vector<std::string> files = {"vendor/lib/library.so", "vendor/lib/absent.so"};
  const std::string path = (root / "without/bin").string() + "::" + (root / "environment/bin/").string();
  EXPECT_THAT(python_package_files(files, path),
              testing::ElementsAre(root / "environment/lib/python3.11/dist-packages/vendor/lib/library.so",
                                   root / "environment/lib/python3.12/site-packages/vendor/lib/library.so"));
  EXPECT_THAT(python_package_files(files, ""), testing::IsEmpty());
  // A relative entry would have what the working directory happens to hold loaded as a library.
  const fs::path before = fs::current_path();
  fs::current_path(root);
  EXPECT_THAT(python_package_files(files, "environment/bin"), testing::IsEmpty());
  fs::current_path(before);
  fs::remove_all(root);
}

}  // namespace
}  // namespace causeway
