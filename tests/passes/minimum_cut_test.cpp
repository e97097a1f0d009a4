// Cheapest cuts against all cuts of small random graphs.
#include "causeway/passes/minimum_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <tuple>

#include "causeway/base/error.h"

namespace causeway::passes {
namespace {

TEST(MinimumCut, IsTheCheapestOfAllCutsAndTheNearestToTheSink) {
  constexpr int32_t kVertices = 9, kSource = 0, kSink = 1;
  int cuts_of_several = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<std::tuple<int32_t, int32_t, int64_t>> edges;
    MinimumCut cut(kVertices);
    for (int edge = 0; edge < 16; ++edge) {
      const auto from = static_cast<int32_t>(random() % kVertices), to = static_cast<int32_t>(random() % kVertices);
      const bool ends = from == kSource && to == kSink;
      const int64_t capacity =
          random() % 4 == 0 && !ends ? MinimumCut::kUncuttable : static_cast<int64_t>(random() % 4);
      edges.emplace_back(from, to, capacity);
      cut.add_edge(from, to, capacity);
    }
    // Bit i of a side: vertex i is on the sink's.
    int64_t cheapest = MinimumCut::kUncuttable;
    unsigned nearest = 0;
    int of_the_cheapest = 0;
    for (unsigned side = 0; side < 1U << kVertices; ++side) {
      if ((side >> kSource & 1U) != 0 || (side >> kSink & 1U) == 0) continue;
      int64_t cost = 0;
      for (const auto& [from, to, capacity] : edges)
        if ((side >> from & 1U) == 0 && (side >> to & 1U) != 0)
          cost = std::min(cost + capacity, MinimumCut::kUncuttable);
      if (cost > cheapest || cost == MinimumCut::kUncuttable) continue;
      if (cost < cheapest) of_the_cheapest = 0;
      ++of_the_cheapest;
      if (cost < cheapest || std::popcount(side) < std::popcount(nearest)) nearest = side;
      cheapest = cost;
    }
    if (cheapest == MinimumCut::kUncuttable) {
      EXPECT_THROW(cut.sink_side(kSource, kSink), InternalError);
      continue;
    }
    if (of_the_cheapest > 1) ++cuts_of_several;
    const std::vector<bool> found = cut.sink_side(kSource, kSink);
    for (unsigned vertex = 0; vertex < kVertices; ++vertex)
      EXPECT_EQ(found[vertex], (nearest >> vertex & 1U) != 0) << "vertex " << vertex;
  }
  EXPECT_GT(cuts_of_several, 50);
}

TEST(MinimumCut, TakesLongPaths) {
  constexpr int32_t kVertices = 200'000;
  MinimumCut cut(kVertices);
  for (int32_t vertex = 0; vertex + 1 < kVertices; ++vertex)
    cut.add_edge(vertex, vertex + 1, vertex == 150'000 || vertex == 150'001 ? 3 : 4);
  const std::vector<bool> found = cut.sink_side(0, kVertices - 1);
  EXPECT_FALSE(found[150'001]);
  EXPECT_TRUE(found[150'002]);
}

}  // namespace
}  // namespace causeway::passes
