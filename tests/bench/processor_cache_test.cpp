#include "causeway/bench/telemetry/processor_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/bench/temporary_tree.h"

namespace causeway::bench {
namespace {

TEST(ProcessorCache, AddsEachLastLevelCacheOnce) {
  const TemporaryTree tree;
  EXPECT_EQ(processor_cache_bytes(tree.root()), std::nullopt);
  const auto cache = [&](int core, int index, int level, const std::string& size, const std::string& shared) {
    const std::string at = fmt::format("devices/system/cpu/cpu{}/cache/index{}/", core, index);
    tree.write(at + "level", fmt::format("{}\n", level));
    tree.write(at + "size", size + "\n");
    tree.write(at + "shared_cpu_list", shared + "\n");
  };
  for (int core = 0; core < 4; ++core) {
    cache(core, 0, 1, "32K", fmt::format("{}", core));
    cache(core, 2, 2, "1024K", fmt::format("{}", core));
    cache(core, 3, 3, core < 2 ? "32768K" : "96M", core < 2 ? "0-1" : "2-3");
  }
  EXPECT_EQ(processor_cache_bytes(tree.root()), (32 << 20) + (96 << 20));
}

}  // namespace
}  // namespace causeway::bench
