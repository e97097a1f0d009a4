// A directory of small files for one test, in the place of /sys, /proc or /, removed with everything in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace causeway::bench {

class TemporaryTree {
 public:
  TemporaryTree() {
    std::string path = (std::filesystem::temp_directory_path() / "causeway-tree-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  TemporaryTree(const TemporaryTree&) = delete;
  TemporaryTree& operator=(const TemporaryTree&) = delete;
  ~TemporaryTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  const std::filesystem::path& root() const { return root_; }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void remove(const std::string& path) const { std::filesystem::remove_all(root_ / path); }

 private:
  std::filesystem::path root_;
};

}  // namespace causeway::bench
