#include "causeway/base/file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "causeway/base/error.h"
#include "tests/train/temporary_directory.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

TEST(FileTest, AtomicWritesLeaveTheFileAndNothingElse) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "file";
  write_file_atomically(path, std::string_view("one"));
  write_file_atomically(path, std::string_view("two"));
  EXPECT_EQ(read_text_file(path), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), {}), 1);
}

// In a directory that others may write to: a link under the name of the temporary file would lead the write astray.
TEST(FileTest, AtomicWritesGoThroughNoLinkThatWaitsForThem) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "report.html", victim = directory.path() / "victim";
  write_file_atomically(victim, std::string_view("precious"));
  for (int i = 0; i < 100; ++i) fs::create_symlink(victim, path.string() + fmt::format(".tmp-{}-{}", ::getpid(), i));
  write_file_atomically(path, std::string_view("report"));
  EXPECT_EQ(read_text_file(victim), "precious");
  EXPECT_EQ(read_text_file(path), "report");
  EXPECT_FALSE(fs::is_symlink(path));
}

TEST(FileTest, AWriterThatWasToldSoTakesOverNothing) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "link";
  fs::create_symlink(directory.path() / "target", path);
  EXPECT_THROW(FileWriter(path, FileWriter::Existing::kRefuse), Error);
  EXPECT_FALSE(fs::exists(directory.path() / "target"));
}

}  // namespace
}  // namespace causeway
