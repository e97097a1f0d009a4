#include "causeway/base/stable_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "causeway/formats/token_shard.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway {
namespace {

TEST(StableFile, ReadsTheFileAsItWasOpened) {
  const TemporaryDirectory directory;
  const StableFile file(directory.write("a", "0123456789"));
  EXPECT_EQ(file.size(), 10u);
  std::string text(4, ' ');
  file.read_at(3, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "3456");
  // Another file of that name is not this one.
  directory.write("b", "abc");
  std::filesystem::rename(directory / "b", directory / "a");
  file.read_at(6, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "6789");
}

TEST(StableFile, ACutFileIsAnErrorWithItsName) {
  const TemporaryDirectory directory;
  const StableFile file(directory.write("a", "0123456789"));
  std::filesystem::resize_file(directory / "a", 4);
  std::string text(4, ' ');
  const Error error = caught([&] { file.read_at(3, std::as_writable_bytes(std::span(text))); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_EQ(error.message(), "the file was cut short while it was being read: it had 10 bytes and has 4");
  EXPECT_EQ(error.where(), (directory / "a").string());
  EXPECT_TRUE(contains(error.hint(), "must not change until the run ends"));
}

TEST(StableFile, AChangedFileIsAnErrorWithItsName) {
  const TemporaryDirectory directory;
  const StableFile file(directory.write("a", "0123456789"));
  {
    std::fstream same_size(directory / "a", std::ios::in | std::ios::out);
    same_size << "x";
  }
  // Whatever the clock's granularity.
  const timespec times[] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (directory / "a").c_str(), times, 0), 0);
  std::string text(4, ' ');
  const Error error = caught([&] { file.read_at(3, std::as_writable_bytes(std::span(text))); });
  EXPECT_EQ(error.message(), "the file was changed while it was being read");
}

TEST(StableFile, OnlyRegularFiles) {
  const TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(caught([&] { StableFile(directory / "pipe"); }).message(), "not a regular file");
  EXPECT_EQ(caught([&] { StableFile(directory.path()); }).message(), "not a regular file");
  EXPECT_EQ(caught([&] { StableFile(directory / "absent"); }).kind(), ErrorKind::kNotFound);
}

TEST(StableFile, MoreFilesThanTheShellAllows) {
  const TemporaryDirectory directory;
  directory.write("a", "0123456789");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 200) GTEST_SKIP() << "this process may not open 200 files";
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<StableFile> files;
  for (int i = 0; i < 150; ++i) files.emplace_back(directory / "a");
  EXPECT_EQ(files.size(), 150u);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(StableFile, AShardCutUnderItsReader) {
  const TemporaryDirectory directory;
  formats::TokenShardBuilder builder(2, false);
  builder.start_document();
  builder.append(std::vector<int32_t>(100'000, 7));
  builder.write(directory / "a.tokens", {{"gpt2", "abc", 50257, 7}, {}});
  const formats::TokenShard shard = formats::TokenShard::open(directory / "a.tokens");
  EXPECT_EQ(shard.token(99'999), 7);
  std::filesystem::resize_file(directory / "a.tokens", 5000);
  EXPECT_TRUE(contains(caught([&] { shard.token(99'999); }).message(), "cut short while it was being read"));
  EXPECT_EQ(caught([&] { shard.verify(); }).where(), (directory / "a.tokens").string());
}

}  // namespace
}  // namespace causeway
