#include "causeway/kernels/gpu/attention_hopper_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace causeway::kernels {
namespace {

template <bool kMask>
struct Problem {
  static constexpr bool kHasMask = kMask;
};

struct OrderCase {
  int64_t heads, shared, length;
  int lines;
  int64_t other_bytes;
};

// What each block does under a causal mask, in tiles of others, when every task is done once and a block takes the next
// one whenever it has none.
template <class P>
std::vector<int64_t> work_of_blocks(const OrderCase& c, int blocks, bool in_order = false) {
  const attention_hopper::TaskOrder<P> order(blocks, c.heads, c.shared, c.length, c.lines, c.other_bytes, in_order);
  std::set<std::pair<int32_t, int32_t>> done;
  std::vector<int64_t> work(static_cast<size_t>(blocks), 0);
  int32_t head = -1, tile = -1;
  for (int32_t task = 0; order.locate(task, head, tile); ++task) {
    EXPECT_TRUE(head >= 0 && head < c.heads && tile >= 0 && tile < order.tiles) << head << " " << tile;
    // Whoever adds by turns waits for those before it, which have to have begun.
    if (tile > 0) EXPECT_TRUE(done.contains({head, tile - 1})) << "too early: head " << head << ", tile " << tile;
    EXPECT_TRUE(done.emplace(head, tile).second) << "done twice: head " << head << ", tile " << tile;
    *std::min_element(work.begin(), work.end()) += order.tiles - tile;
  }
  EXPECT_EQ(done.size(), static_cast<size_t>(order.count()));
  return work;
}

constexpr OrderCase kShortSequences = {400, 1, 1024, 192, 1024 * 256};
constexpr OrderCase kManyHeadsOfKeys = {128, 1, 4096, 128, 4096 * 512};
constexpr OrderCase kCases[] = {kShortSequences,
                                kManyHeadsOfKeys,
                                {128, 4, 4096, 128, 4096 * 512},
                                {64, 8, 8192, 128, 8192 * 512},
                                {32, 4, 16384, 128, 16384 * 512},
                                {40, 1, 32768, 128, 32768 * 512},
                                {7, 1, 65536, 192, 65536 * 256},
                                {3, 3, 100, 128, 100 * 512}};

TEST(AttentionOrder, EveryTaskIsDoneOnceAndBlocksHaveAboutTheSameToDo) {
  for (const int blocks : {132, 114, 116, 3, 1}) {
    for (const OrderCase& c : kCases) {
      SCOPED_TRACE(testing::Message() << c.heads << " heads of " << c.length << ", " << blocks << " blocks");
      work_of_blocks<Problem<false>>(c, blocks);
      for (const bool in_order : {false, true}) {
        if (in_order && c.lines != 128) continue;  // as many keys has a block that adds by turns
        const std::vector<int64_t> work = work_of_blocks<Problem<true>>(c, blocks, in_order);
        if (c.heads * c.length / c.lines < 8 * blocks) continue;
        const double mean = static_cast<double>(std::accumulate(work.begin(), work.end(), int64_t{0})) / blocks;
        const auto most = static_cast<double>(*std::max_element(work.begin(), work.end()));
        EXPECT_LE(most, 1.01 * mean) << in_order;
      }
    }
  }
}

// What the tasks of one round read is in the cache together where they take as long as each other; where they do not,
// two or more of them read the same, of two sections at most.
TEST(AttentionOrder, TasksOfARoundShareWhatTheyRead) {
  const auto heads_of_rounds = [](const auto& order) {
    size_t most = 0;
    for (int32_t first = 0; first + 132 <= order.count(); first += 132) {
      std::set<int32_t> heads;
      for (int32_t task = first; task < first + 132; ++task) {
        int32_t head = -1, tile = -1;
        order.locate(task, head, tile);
        heads.insert(head);
      }
      most = std::max(most, heads.size());
    }
    return static_cast<int64_t>(most);
  };
  const OrderCase& c = kManyHeadsOfKeys;
  const attention_hopper::TaskOrder<Problem<false>> full(132, c.heads, c.shared, c.length, c.lines, c.other_bytes);
  EXPECT_LE(heads_of_rounds(full) * c.other_bytes, 2 * full.kCachedBytes);
  const attention_hopper::TaskOrder<Problem<true>> causal(132, c.heads, c.shared, c.length, c.lines, c.other_bytes);
  EXPECT_LE(heads_of_rounds(causal), 132 / 2);
  const attention_hopper::TaskOrder<Problem<true>> by_turns(132, 8, 1, 65536, 128, int64_t{65536} * 2048, true);
  EXPECT_LE(heads_of_rounds(by_turns), 2u);
}

TEST(AttentionOrder, TilesOfQueriesFollowOneAnotherAndOnlyTheFirstLeaveAWarpgroupIdle) {
  for (const int groups : {2, 3}) {
    for (int64_t length = 1; length <= 2000; ++length) {
      const attention_hopper::QueryTiles tiles(length, groups);
      const auto count = static_cast<int32_t>((length + 64 * groups - 1) / (64 * groups));
      ASSERT_EQ(tiles.first_of(0), 0);
      int shorter = 0;
      for (int32_t tile = 0; tile + 1 < count; ++tile) {
        const int32_t first = tiles.first_of(tile), lines = tiles.first_of(tile + 1) - first;
        ASSERT_EQ(lines, 64 * (tiles.is_shorter(first) ? groups - 1 : groups)) << length << ", tile " << tile;
        ASSERT_TRUE(tile == shorter || !tiles.is_shorter(first)) << length << ", tile " << tile;
        if (tiles.is_shorter(first)) ++shorter;
      }
      // The last one has the rest, in as many warpgroups as it is said to keep busy.
      const int32_t last = tiles.first_of(count - 1);
      const int64_t busy = (length - last + 63) / 64;
      ASSERT_GT(busy, 0) << length;
      ASSERT_LE(busy, tiles.is_shorter(last) ? groups - 1 : groups) << length;
      ASSERT_TRUE(count == 1 || busy >= groups - 1) << length;
    }
  }
}

}  // namespace
}  // namespace causeway::kernels
