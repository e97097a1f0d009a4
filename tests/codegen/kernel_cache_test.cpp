#include "causeway/codegen/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/device/cpu/cpu_module.h"
#include "causeway/device/cpu/host_target.h"

namespace causeway {
namespace {

namespace fs = std::filesystem;

std::string source_returning(int value) {
  return fmt::format(
      "extern \"C\" void answer(void* const* buffers, const long*, long, void*) {{\n"
      "  *static_cast<int*>(buffers[0]) = {};\n}}\n",
      value);
}

int answer_of(const KernelImage& image) {
  const CpuModule module(*image);
  int answer = -1;
  void* const buffers[] = {&answer};
  reinterpret_cast<CpuKernel>(const_cast<void*>(module.kernel("answer")))(buffers, nullptr, 0, nullptr);
  return answer;
}

class KernelCacheTest : public testing::Test {
 protected:
  KernelCacheTest() {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::path(testing::TempDir()) / fmt::format("causeway-{}-{}", test->name(), ::getpid());
    fs::remove_all(directory_);
  }
  ~KernelCacheTest() override { fs::remove_all(directory_); }

  fs::path entry(int value) const {
    return directory_ / KernelCache::entry_name(source_returning(value), host_target());
  }

  fs::path directory_;
};

TEST_F(KernelCacheTest, CompilesOnceThenHitsMemoryThenDisk) {
  {
    KernelCache cache(directory_);
    EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(5), host_target())), 5);
    EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(5), host_target())), 5);
    const KernelCacheStatistics statistics = cache.statistics();
    EXPECT_EQ(statistics.misses, 1);
    EXPECT_EQ(statistics.memory_hits, 1);
    EXPECT_EQ(statistics.disk_hits, 0);
    EXPECT_GT(statistics.compile_seconds, 0.0);
  }
  KernelCache cache(directory_);
  EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(5), host_target())), 5);
  EXPECT_EQ(cache.statistics().disk_hits, 1);
  EXPECT_EQ(cache.statistics().misses, 0);
}

TEST_F(KernelCacheTest, CompilesManyInParallelAndEqualOnesOnce) {
  std::vector<std::string> sources;
  for (int index = 0; index < 12; ++index) sources.push_back(source_returning(index % 5));
  KernelCache cache(directory_);
  EXPECT_EQ(answer_of(cache.get_or_compile(sources[2], host_target())), 2);
  const std::vector<KernelImage> images = cache.get_or_compile_all(sources, host_target(), 3);
  ASSERT_EQ(images.size(), sources.size());
  for (int index = 0; index < 12; ++index) EXPECT_EQ(answer_of(images[static_cast<size_t>(index)]), index % 5);
  EXPECT_EQ(cache.statistics().misses, 5);
  EXPECT_EQ(cache.statistics().memory_hits, 1);
}

TEST_F(KernelCacheTest, FirstFailingSourceIsReportedAndTheOthersAreKept) {
  const std::vector<std::string> sources = {source_returning(1), "broken_one", "broken_two", source_returning(2)};
  KernelCache cache(directory_);
  try {
    cache.get_or_compile_all(sources, host_target(), 2);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::HasSubstr("broken_one"));
  }
  cache.get_or_compile(source_returning(2), host_target());
  EXPECT_EQ(cache.statistics().misses, 2);
}

TEST_F(KernelCacheTest, DamagedEntriesAreRebuilt) {
  const auto rebuilt = [&] {
    KernelCache cache(directory_);
    EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(9), host_target())), 9);
    return cache.statistics().misses == 1;
  };
  EXPECT_TRUE(rebuilt());
  EXPECT_FALSE(rebuilt());
  const std::string good = read_text_file(entry(9));
  std::string flipped = good;
  flipped[good.size() / 2] = static_cast<char>(flipped[good.size() / 2] ^ 1);
  std::string wrong_magic = good;
  wrong_magic[0] = 'X';
  for (const std::string& bad :
       {flipped, wrong_magic, good.substr(0, good.size() - 1), good.substr(0, 10), std::string(), good + "tail"}) {
    write_file_atomically(entry(9), bad);
    EXPECT_TRUE(rebuilt());
    EXPECT_EQ(read_text_file(entry(9)), good);
  }
}

TEST_F(KernelCacheTest, KeyCoversSourceAndTarget) {
  const std::string name = KernelCache::entry_name("a", host_target());
  Target other = host_target();
  other.vector_bytes /= 2;
  EXPECT_NE(name, KernelCache::entry_name("b", host_target()));
  EXPECT_NE(name, KernelCache::entry_name("a", other));
  EXPECT_THAT(name, testing::MatchesRegex("[0-9a-f]+\\.kernel"));
  EXPECT_EQ(name.size(), 32u + 7u);
}

TEST_F(KernelCacheTest, WorksWithoutADirectoryAndWarnsOnce) {
  // A path below a plain file can be created by nobody, root included.
  write_file_atomically(directory_, "a plain file");
  testing::internal::CaptureStderr();
  KernelCache cache(directory_ / "below");
  EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(1), host_target())), 1);
  EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(2), host_target())), 2);
  const std::string output = testing::internal::GetCapturedStderr();
  const size_t first = output.find("compiled kernels are not kept in");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(output.find("compiled kernels are not kept in", first + 1), std::string::npos);
  EXPECT_EQ(cache.statistics().misses, 2);

  KernelCache memory_only{fs::path()};
  EXPECT_EQ(answer_of(memory_only.get_or_compile(source_returning(1), host_target())), 1);
  EXPECT_EQ(answer_of(memory_only.get_or_compile(source_returning(1), host_target())), 1);
  EXPECT_EQ(memory_only.statistics().memory_hits, 1);
}

TEST_F(KernelCacheTest, SeveralCachesShareADirectory) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      KernelCache cache(directory_);
      for (int value = 0; value < 4; ++value) {
        EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(value), host_target())), value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int files = 0;
  for (const auto& file : fs::directory_iterator(directory_)) {
    EXPECT_EQ(file.path().extension(), ".kernel");
    ++files;
  }
  EXPECT_EQ(files, 4);
}

}  // namespace
}  // namespace causeway
