#include "causeway/data/directory_replacement.h"

#include <sys/wait.h>

#include <thread>

#include "causeway/data/prepare.h"
#include "causeway/data/token_dataset.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::data {
namespace {

void write_new(const DirectoryReplacement& replacement) { std::ofstream(replacement.directory() / "content") << "new"; }

TEST(DirectoryReplacement, TakesThePlaceWhenCommitted) {
  for (const DirectoryReplacement::Method method :
       {DirectoryReplacement::Method::kExchange, DirectoryReplacement::Method::kTwoRenames}) {
    const TemporaryDirectory directory;
    directory.write("target/content", "old");
    directory.write("target/more", "old");
    {
      DirectoryReplacement replacement(directory / "target");
      write_new(replacement);
      EXPECT_EQ(read_text_file(directory / "target/content"), "old");
      replacement.commit(method);
    }
    EXPECT_EQ(read_text_file(directory / "target/content"), "new");
    EXPECT_EQ(names_in(directory / "target"), (std::vector<std::string>{"content"}));
    EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"target"}));
  }
}

TEST(DirectoryReplacement, ChangesNothingUnlessCommitted) {
  const TemporaryDirectory directory;
  directory.write("target/content", "old");
  for (const char* name : {"target", "other"}) {
    DirectoryReplacement replacement(directory / name);
    write_new(replacement);
  }
  EXPECT_EQ(read_text_file(directory / "target/content"), "old");
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"target"}));
}

TEST(DirectoryReplacement, OneAtATime) {
  const TemporaryDirectory directory;
  auto first = std::make_unique<DirectoryReplacement>(directory / "target");
  const Error error = caught([&] { DirectoryReplacement(directory / "." / "target/"); });
  EXPECT_EQ(error.kind(), ErrorKind::kResource);
  EXPECT_TRUE(
      error.message().starts_with(fmt::format("another process is writing this directory: process {} on ", ::getpid())))
      << error.message();
  EXPECT_EQ(error.where(), (directory / "target").string());
  const DirectoryReplacement elsewhere(directory / "target2");
  first.reset();
  const DirectoryReplacement second(directory / "target");
}

TEST(DirectoryReplacement, ManyAtOnceTakeTurns) {
  const TemporaryDirectory directory;
  std::atomic<int> holders{0}, done{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int taken = 0; taken < 10;) {
        try {
          DirectoryReplacement replacement(directory / "target");
          EXPECT_EQ(holders.fetch_add(1), 0);
          write_new(replacement);
          replacement.commit();
          EXPECT_EQ(holders.fetch_sub(1), 1);
          ++taken;
          ++done;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kResource) << error.what();
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(done, 40);
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"target"}));
}

TEST(DirectoryReplacement, TheNextOneCleansUpAfterAKilledOne) {
  const TemporaryDirectory directory;
  directory.write("target/content", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    DirectoryReplacement replacement(directory / "target");
    write_new(replacement);
    ::_exit(0);  // no destructor runs
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(directory / ".target.preparing/new/content"));
  EXPECT_EQ(read_text_file(directory / "target/content"), "old");
  {
    const DirectoryReplacement replacement(directory / "target");
    EXPECT_TRUE(std::filesystem::is_empty(replacement.directory()));
  }
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"target"}));
}

TEST(DirectoryReplacement, PutsBackWhatAKilledOneMovedAside) {
  const TemporaryDirectory directory;
  directory.write(".target.preparing/old/content", "old");
  directory.write(".target.preparing/new/content", "new");
  EXPECT_EQ(interrupted_replacement(directory / "target"), directory / ".target.preparing/old");
  const Error error = caught([&] { TokenDataset::open(directory / "target"); });
  EXPECT_TRUE(contains(error.hint(), (directory / ".target.preparing/old").string())) << error.hint();
  {
    const DirectoryReplacement replacement(directory / "target");
  }
  EXPECT_EQ(read_text_file(directory / "target/content"), "old");
  EXPECT_EQ(names_in(directory.path()), (std::vector<std::string>{"target"}));
  EXPECT_TRUE(interrupted_replacement(directory / "target").empty());
  // Killed after the second rename, the new one is there and the old one is to be removed.
  directory.write(".target.preparing/old/content", "older");
  {
    const DirectoryReplacement replacement(directory / "target");
  }
  EXPECT_EQ(read_text_file(directory / "target/content"), "old");
}

TEST(DirectoryReplacement, NamesWhatCannotBeReplaced) {
  const TemporaryDirectory directory;
  directory.write("file", "text");
  EXPECT_EQ(caught([&] { DirectoryReplacement(directory / "file"); }).message(),
            "the output is a file, not a directory");
  EXPECT_EQ(caught([&] { DirectoryReplacement(directory / "file/out"); }).kind(), ErrorKind::kIo);
  EXPECT_EQ(caught([&] { DirectoryReplacement("/proc"); }).message(),
            "the output directory is a mount point, which cannot be replaced");
}

}  // namespace
}  // namespace causeway::data
