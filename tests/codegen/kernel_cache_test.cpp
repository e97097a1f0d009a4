#include "causeway/codegen/compile/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/device/cpu/cpu_module.h"
#include "causeway/device/cpu/host_target.h"

namespace causeway::codegen {
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

// On a target whose objects are linked and on one where they are the image.
TEST_F(KernelCacheTest, HandsOutEachImageAsSoonAsItIsThere) {
  const std::string device = "extern \"C\" int answer() { return ";
  for (const Target& target : {host_target(), device::gpu_target("sm_80")}) {
    const auto source = [&](int value) {
      return target.is_gpu() ? fmt::format("{}{}; }}\n", device, value) : source_returning(value);
    };
    KernelCache cache(directory_);
    cache.get_or_compile(source(1), target);
    const std::vector<std::string> sources = {source(0), source(1), source(0), source(2), source(3)};
    std::mutex mutex;
    std::map<size_t, KernelImage> handed;
    const auto ready = [&](size_t position, const KernelImage& image) {
      const std::lock_guard lock(mutex);
      EXPECT_TRUE(handed.emplace(position, image).second) << position;
      if (position == 3) throw Error(ErrorKind::kResource, "no room");
    };
    EXPECT_THROW(cache.get_or_compile_all(sources, target, 2, ready), Error);
    EXPECT_EQ(cache.statistics().misses, 4) << "those that were compiled are kept";
    handed.clear();
    const std::vector<KernelImage> images = cache.get_or_compile_all(std::span(sources).first(3), target, 2, ready);
    EXPECT_EQ(handed, (std::map<size_t, KernelImage>{{0, images[0]}, {1, images[1]}}));
    EXPECT_EQ(images[2], images[0]);
    EXPECT_EQ(cache.statistics().misses, 4);
  }
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
  constexpr char kSentence[] = "compiled kernels are not kept, and the next run will compile them again";
  const size_t first = output.find(kSentence);
  EXPECT_NE(first, std::string::npos);
  EXPECT_THAT(output, testing::HasSubstr("Not a directory"));
  EXPECT_EQ(output.find(kSentence, first + 1), std::string::npos);
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

// An entry as this program writes it, with the right name and hash and another kernel in it: what somebody else would
// leave for us to run.
class PlantedKernelTest : public KernelCacheTest {
 protected:
  void SetUp() override {
    KernelCache cache(directory_);
    cache.get_or_compile(source_returning(1), host_target());
    cache.get_or_compile(source_returning(2), host_target());
    fs::rename(entry(2), entry(1));
  }

  // True when the kernel was compiled, not loaded.
  bool is_compiled_again() {
    KernelCache cache(directory_);
    const int answer = answer_of(cache.get_or_compile(source_returning(1), host_target()));
    EXPECT_EQ(answer == 1, cache.statistics().misses == 1);
    return answer == 1;
  }
};

TEST_F(PlantedKernelTest, IsLoadedWhereOnlyTheUserCouldHaveWrittenIt) { EXPECT_FALSE(is_compiled_again()); }

TEST_F(PlantedKernelTest, IsNotLoadedFromADirectoryThatOthersMayWriteTo) {
  fs::permissions(directory_, fs::perms(0777));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(is_compiled_again());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(testing::HasSubstr("compiled kernels are not kept"),
                             testing::HasSubstr("may be written to by everybody (mode 0777)")));
}

TEST_F(PlantedKernelTest, IsNotLoadedBelowADirectoryThatOthersMayWriteTo) {
  const fs::path above = directory_.string() + "-above";
  fs::remove_all(above);
  fs::create_directory(above);
  fs::rename(directory_, above / "kernels");
  fs::permissions(above, fs::perms(0777));
  directory_ = above / "kernels";
  EXPECT_TRUE(is_compiled_again());
  fs::remove_all(above);
}

TEST_F(PlantedKernelTest, IsNotLoadedFromAFileThatOthersMayWriteTo) {
  fs::permissions(entry(1), fs::perms(0666));
  EXPECT_TRUE(is_compiled_again());
  // And is replaced by one that only the user may write to.
  EXPECT_EQ(fs::status(entry(1)).permissions(), fs::perms(0600));
}

TEST_F(PlantedKernelTest, IsNotLoadedThroughALink) {
  const fs::path elsewhere = directory_.string() + "-elsewhere";
  fs::rename(entry(1), elsewhere);
  fs::create_symlink(elsewhere, entry(1));
  EXPECT_TRUE(is_compiled_again());
  fs::remove(elsewhere);
}

TEST_F(PlantedKernelTest, IsNotLoadedFromAnother) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files to another user";
  ASSERT_EQ(::chown(entry(1).c_str(), 1, 1), 0);
  EXPECT_TRUE(is_compiled_again());
  KernelCache(directory_).get_or_compile(source_returning(2), host_target());
  fs::rename(entry(2), entry(1));
  EXPECT_FALSE(is_compiled_again());
  ASSERT_EQ(::chown(directory_.c_str(), 1, 1), 0);
  EXPECT_TRUE(is_compiled_again());
}

class KernelCacheSizeTest : public KernelCacheTest {
 protected:
  // Entries of kernels 0, 1, ..., each an hour younger than the one before.
  void make_entries(int count) {
    KernelCache cache(directory_, int64_t{1} << 40);
    for (int value = 0; value < count; ++value) {
      cache.get_or_compile(source_returning(value), host_target());
      fs::last_write_time(entry(value), fs::file_time_type::clock::now() - std::chrono::hours(100 - value));
    }
  }
  std::vector<int> values_held(int count) const {
    std::vector<int> held;
    for (int value = 0; value < count; ++value)
      if (fs::exists(entry(value))) held.push_back(value);
    return held;
  }
  KernelCacheFiles files() const { return KernelCacheFiles(PrivateDirectory::open(directory_)); }
};

TEST_F(KernelCacheSizeTest, WhatWasNotUsedForLongestGoesFirst) {
  make_entries(5);
  const auto bytes = static_cast<int64_t>(fs::file_size(entry(0)));
  EXPECT_EQ(files().usage().kernels, 5);
  EXPECT_EQ(files().usage().bytes, 5 * bytes);
  KernelCache(directory_).get_or_compile(source_returning(0), host_target());
  KernelCache(directory_).get_or_compile(source_returning(2), host_target());
  const KernelCacheUsage removed = files().prune(3 * bytes);
  EXPECT_EQ(removed.kernels, 2);
  EXPECT_EQ(removed.bytes, 2 * bytes);
  EXPECT_EQ(values_held(5), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(files().prune(3 * bytes).kernels, 0);
  EXPECT_EQ(files().prune(0).kernels, 3);
}

TEST_F(KernelCacheSizeTest, ItKeepsToItsSizeByItself) {
  make_entries(6);
  const auto bytes = static_cast<int64_t>(fs::file_size(entry(0)));
  KernelCache cache(directory_, 3 * bytes);
  EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(2), host_target())), 2);  // read: nothing is looked at
  EXPECT_EQ(values_held(7).size(), 6u);
  EXPECT_EQ(answer_of(cache.get_or_compile(source_returning(6), host_target())), 6);
  EXPECT_EQ(values_held(7), (std::vector<int>{2, 5, 6}));
  // A limit that is kept beside the entries.
  files().set_limit(2 * bytes);
  EXPECT_EQ(files().limit(), 2 * bytes);
  KernelCache(directory_).get_or_compile(source_returning(7), host_target());
  EXPECT_EQ(values_held(8).size(), 2u);
  EXPECT_EQ(files().limit(), 2 * bytes);
}

TEST_F(KernelCacheSizeTest, WhatKilledProgramsLeftIsRemoved) {
  make_entries(1);
  write_file_atomically(directory_ / ".new-old", std::string_view("half"));
  fs::last_write_time(directory_ / ".new-old", fs::file_time_type::clock::now() - std::chrono::hours(2));
  write_file_atomically(directory_ / ".new-now", std::string_view("being written"));
  files().prune(int64_t{1} << 40);
  EXPECT_FALSE(fs::exists(directory_ / ".new-old"));
  EXPECT_TRUE(fs::exists(directory_ / ".new-now"));
  EXPECT_EQ(values_held(1).size(), 1u);
}

// Programs that read, write and remove the same few entries all the time: each always gets the kernel it asked for.
TEST_F(KernelCacheSizeTest, SeveralProgramsMayKeepToItAtOnce) {
  make_entries(3);
  const auto bytes = static_cast<int64_t>(fs::file_size(entry(0)));
  std::vector<pid_t> children;
  for (int program = 0; program < 3; ++program) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    int wrong = 0;
    for (int turn = 0; turn < 4; ++turn) {
      KernelCache cache(directory_, 2 * bytes);
      for (int value = 0; value < 5; ++value)
        wrong += answer_of(cache.get_or_compile(source_returning((value + program) % 5), host_target())) !=
                 (value + program) % 5;
    }
    ::_exit(wrong);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  files().prune(2 * bytes);
  EXPECT_LE(values_held(5).size(), 2u);
}

}  // namespace
}  // namespace causeway::codegen
