// The choice of tiles for Hopper's gemm, and what it was fitted to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/gemm_sizes.h"
#include "causeway/codegen/gpu/gemm_hopper_model.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/x86/gemm_layout.h"
#include "tests/codegen/fit/dense_gemm_order.h"

namespace causeway::codegen {
namespace {

TEST(HopperGemmPlan, TilesFitTheirGemm) {
  const GpuArchitecture& hopper = gpu_architecture("sm_90a");
  for (const HopperGemmStores stores :
       {HopperGemmStores::kByTma, HopperGemmStores::kByTmaAdded, HopperGemmStores::kOther}) {
    const auto choose = [&](int64_t m, int64_t n, int64_t k) {
      return choose_hopper_gemm(hopper, HopperGemmAccumulators::kOne, stores, 1, m, n, k);
    };
    EXPECT_GT(choose(768, 768, 65536).splits, 1);
    EXPECT_EQ(choose(768, 768, kUnknownSize).splits, 1);
    EXPECT_EQ(choose(kUnknownSize, 768, 65536).splits, 1);
    // 142 tiles: a round of 132 multiprocessors, then 10 tiles in parts.
    EXPECT_EQ(choose(9088, 256, 65536).whole_tiles, 132);
    EXPECT_GT(choose(9088, 256, 65536).splits, 8);
    for (const int64_t size : {8, 64, 200, 768, 1024, 4096, 50304}) {
      const HopperGemmPlan plan = choose(size, 768, size);
      const int64_t slices = gemm_ceil_div(size, kHopperGemmDepth);
      EXPECT_LE(hopper_gemm_shared_bytes(plan.tile), hopper.shared_bytes);
      EXPECT_GE(plan.tile.stages, 2);
      EXPECT_LT(gemm_ceil_div(slices, plan.splits) * (plan.splits - 1), slices) << "an empty part of " << size;
    }
  }
}

TEST(HopperGemmPlan, TilesFollowTheSizes) {
  const GpuArchitecture& h200 = gpu_architecture("sm_90a");
  const auto choose = [&](HopperGemmAccumulators sums, int64_t m, int64_t n, int64_t k) {
    return choose_hopper_gemm(h200, sums, HopperGemmStores::kOther, 1, m, n, k);
  };
  const HopperGemmPlan large = choose(HopperGemmAccumulators::kOne, 16384, 4096, 1024);
  EXPECT_TRUE(large.tile.ping_pong);
  EXPECT_EQ(large.splits, 1);
  EXPECT_EQ(choose(HopperGemmAccumulators::kPromoted, 16384, 4096, 1024).tile.ping_pong, false);
  // Of 1,024 columns six tiles of 192 would have an eighth in vain.
  EXPECT_EQ(choose(HopperGemmAccumulators::kPromoted, 16384, 1024, 8192).tile.n, 128);
  EXPECT_EQ(choose(HopperGemmAccumulators::kPromoted, 16384, 3584, 8192).tile.n, 224);
  EXPECT_EQ(choose(HopperGemmAccumulators::kPromoted, 8192, 8192, 8192).tile.n, 192);
  EXPECT_EQ(choose(HopperGemmAccumulators::kOne, 16384, 4096, 65536).tile.ping_pong, false);
  EXPECT_EQ(choose(HopperGemmAccumulators::kOne, 64, 64, 1024).tile.m, 64);
  EXPECT_GT(choose(HopperGemmAccumulators::kOne, 384, 384, 32768).splits, 1);
  for (const int64_t m : {20, 100, 700, 5000})
    for (const int64_t n : {20, 100, 700, 5000})
      EXPECT_LE(hopper_gemm_shared_bytes(choose(HopperGemmAccumulators::kOne, m, n, 4096).tile), h200.shared_bytes);
}

// Few rows have many small tiles, or large ones in one round; sides of 1,600 tiles that they are multiples of.
TEST(HopperGemmPlan, TilesFillTheirRounds) {
  const auto choose = [&](int64_t m, int64_t n, int64_t k, GemmOrder order = {}) {
    const HopperGemmPlan plan = choose_hopper_gemm(gpu_architecture("sm_90a"), HopperGemmAccumulators::kOne,
                                                   HopperGemmStores::kByTma, 1, m, n, k, order);
    return std::array{plan.tile.m, plan.tile.n};
  };
  const auto is = [](int m, int n) { return testing::ElementsAre(m, n); };
  EXPECT_THAT(choose(800, 1600, 4800), is(64, 160));
  EXPECT_THAT(choose(2208, 3072, 3072), is(192, 144));
  EXPECT_THAT(choose(16384, 1600, 1600), is(128, 160));
  EXPECT_THAT(choose(16384, 1600, 6400), is(128, 160));
  // A last box of lines side by side is loaded whole, even where it has but 16 columns of the tile's.
  for (const int64_t n : {1600, 4800, 6400, 8192}) {
    const auto [rows, columns] = choose(640, n, 4096, {.b_along_k = false});
    EXPECT_TRUE(rows >= 128 || columns % 32 == 0) << n << ": " << rows << " x " << columns;
  }
}

// Where rows of C come by 16, and columns by 64, tiles fit these GEMMs better: 15 rows of 8 of 96 x 128.
TEST(HopperGemmPlan, TransposesFitWhatIsNarrow) {
  const auto choose = [](int64_t m, int64_t n, int64_t k) {
    const HopperGemmPlan plan = choose_hopper_gemm(gpu_architecture("sm_90a"), HopperGemmAccumulators::kOne,
                                                   HopperGemmStores::kByTma, 1, m, n, k, {.may_swap = true});
    return std::array{int{plan.tile.swapped}, plan.tile.m, plan.tile.n};
  };
  EXPECT_THAT(choose(1440, 1024, 3072), testing::ElementsAre(1, 128, 96));
  EXPECT_THAT(choose(2080, 1600, 1600), testing::ElementsAre(1, 128, 208));
  // Parts of k are not of transposes.
  EXPECT_EQ(choose(768, 768, 65536)[0], 0);
}

// Sixteen tiles that run side by side, of so many above one another, share most lines: 3 x 5 or 4 x 4 of 128 x 96.
TEST(HopperGemmPlan, NeighboursShareLines) {
  const auto rows_together = [](int64_t m, int64_t n, int64_t k) {
    return choose_hopper_gemm(gpu_architecture("sm_90a"), HopperGemmAccumulators::kOne, HopperGemmStores::kByTma, 1, m,
                              n, k)
        .tile.rows_together;
  };
  EXPECT_THAT(rows_together(2048, 768, 3072), testing::AllOf(testing::Ge(3), testing::Le(5)));
  EXPECT_THAT(rows_together(1280, 1024, 2048), testing::AllOf(testing::Ge(3), testing::Le(5)));
  EXPECT_EQ(rows_together(16384, 8192, 1280), 0);
}

// What is sent in few rounds by tiles with room for four stages and results has five.
TEST(HopperGemmPlan, FewRoundsHaveAFifthStage) {
  const auto choose = [](int64_t m, int64_t n, int64_t k, HopperGemmStores stores = HopperGemmStores::kByTma,
                         GemmOrder order = {.may_swap = true}) {
    const HopperGemmTile tile =
        choose_hopper_gemm(gpu_architecture("sm_90a"), HopperGemmAccumulators::kOne, stores, 1, m, n, k, order).tile;
    return std::array{tile.m, tile.n, tile.stages};
  };
  const auto is = [](int m, int n, int stages) { return testing::ElementsAre(m, n, stages); };
  EXPECT_THAT(choose(2176, 2304, 768), is(128, 160, 5));
  EXPECT_THAT(choose(2176, 2304, 768, HopperGemmStores::kOther, {}), is(128, 160, 4));
  EXPECT_THAT(choose(2176, 2304, 768, HopperGemmStores::kByTma, {.may_swap = true, .one_result = false}),
              is(128, 160, 4));
  // More rounds, and a longer k.
  EXPECT_THAT(choose(16384, 1600, 1600), is(128, 160, 4));
  EXPECT_THAT(choose(8192, 1600, 5120), is(128, 160, 4));
}

// What an H200 took for GEMMs by plans that were forced: by order and shape. Of a plan the tile's rows and columns
// and more, as the first lines of a file say.
using MeasuredPlan = std::vector<int64_t>;
enum class MeasuredFields { kOfRounds, kOfOneTileEach, kAll };

MeasuredPlan measured_plan(const HopperGemmPlan& plan, MeasuredFields fields) {
  const HopperGemmTile& tile = plan.tile;
  const int64_t whole = plan.splits > 1 ? plan.whole_tiles : 0;
  switch (fields) {
    case MeasuredFields::kOfRounds:
      return {tile.m, tile.n, tile.ping_pong, plan.splits, whole};
    case MeasuredFields::kOfOneTileEach:
      return {tile.m, tile.n, tile.cluster_m, tile.cluster_n, plan.splits, tile.swapped};
    case MeasuredFields::kAll:
      break;
  }
  return {tile.m, tile.n, tile.cluster_m, tile.cluster_n, tile.ping_pong, plan.splits, whole, tile.swapped};
}
using MeasuredPlans = std::map<std::array<int64_t, 3>, std::map<MeasuredPlan, double>>;

std::map<std::string, MeasuredPlans> measured_plans(const std::string& name,
                                                    MeasuredFields fields_of_plan = MeasuredFields::kOfRounds) {
  std::map<std::string, MeasuredPlans> measured;
  std::ifstream file(std::string(CAUSEWAY_SOURCE_DIR) + "/tests/kernels/" + name);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string order;
    std::array<int64_t, 3> shape{};
    MeasuredPlan plan(measured_plan({}, fields_of_plan).size());
    fields >> order;
    for (int64_t& field : shape) fields >> field;
    for (int64_t& field : plan) fields >> field;
    fields >> measured[order][shape][plan];
    if (!fields) throw Error(ErrorKind::kCorrupt, "not a measurement: " + line, name);
  }
  return measured;
}

struct PlanChoice {
  size_t in_clusters = 0;  // shapes for which clusters are chosen
  double near = 0;         // part of those that are within 3 % of the best plan
  double mean = 0, worst = 0;
};

// What the model would choose of the plans that were measured, beside the fastest of them.
PlanChoice compare_choice(const std::string& order, const MeasuredPlans& shapes,
                          HopperGemmStores stores = HopperGemmStores::kByTma,
                          MeasuredFields fields = MeasuredFields::kOfRounds) {
  const bool of_one_tile_each = fields == MeasuredFields::kOfOneTileEach,
             of_rounds = fields == MeasuredFields::kOfRounds;
  PlanChoice result;
  double logarithms = 0;
  for (const auto& [shape, plans] : shapes) {
    GemmOrder lines = dense_gemm_order(order, shape[0], shape[1], shape[2]);
    lines.may_swap = !of_rounds;
    const auto offers = hopper_gemm_offers(gpu_architecture("sm_90a"), HopperGemmAccumulators::kOne, stores, 1,
                                           shape[0], shape[1], shape[2], lines);
    double least = 0, time = 0;
    bool in_clusters = false;
    for (const auto& [plan, microseconds] : offers) {
      const HopperGemmTile& tile = plan.tile;
      if (of_one_tile_each && !tile.results_in_stages) continue;
      if (of_rounds && hopper_gemm_cluster(tile) > 1) continue;
      const auto found = plans.find(measured_plan(plan, fields));
      if (found == plans.end() || (least != 0 && microseconds >= least)) continue;
      least = microseconds;
      time = found->second;
      in_clusters = hopper_gemm_cluster(tile) > 1;
    }
    if (least == 0) throw Error(ErrorKind::kNotFound, "no plan that was measured is among those to choose from", order);
    const auto best = std::ranges::min_element(plans, {}, [](const auto& plan) { return plan.second; });
    const double ratio = time / best->second;
    result.in_clusters += in_clusters;
    result.near += ratio <= 1.03;
    result.worst = std::max(result.worst, ratio);
    logarithms += std::log(ratio);
  }
  result.near /= static_cast<double>(shapes.size());
  result.mean = std::exp(logarithms / static_cast<double>(shapes.size()));
  return result;
}

// What is chosen is as a rule within 3 % of the best plan that was tried.
TEST(HopperGemmPlan, ChoosesWhatWasFastest) {
  const auto measured = measured_plans("hopper_gemms_h200.txt");
  ASSERT_EQ(measured.size(), 3u);
  for (const auto& [order, shapes] : measured) {
    ASSERT_GE(shapes.size(), 80u);
    const PlanChoice choice = compare_choice(order, shapes);
    EXPECT_GE(choice.near, 0.87) << order;
    EXPECT_LE(choice.mean, 1.012) << order;
    EXPECT_LE(choice.worst, 1.17) << order;
  }
}

TEST(HopperGemmPlan, ChoosesWhatWasFastestOfOneTileEach) {
  const auto measured = measured_plans("hopper_gemms_one_tile_h200.txt", MeasuredFields::kOfOneTileEach);
  ASSERT_EQ(measured.size(), 3u);
  double all = 0, near = 0;
  size_t in_clusters = 0;
  for (const auto& [order, shapes] : measured) {
    const PlanChoice choice = compare_choice(order, shapes, HopperGemmStores::kByTma, MeasuredFields::kOfOneTileEach);
    all += static_cast<double>(shapes.size());
    near += choice.near * static_cast<double>(shapes.size());
    in_clusters += choice.in_clusters;
    EXPECT_LE(choice.mean, 1.025) << order;
    EXPECT_LE(choice.worst, 1.12) << order;
  }
  EXPECT_GE(near, 0.75 * all);
  EXPECT_GE(in_clusters, 4u);
}

// Of plans of every kind, in each order of operands.
void expect_near_fastest(const std::string& name, double mean, double worst) {
  const auto measured = measured_plans(name, MeasuredFields::kAll);
  ASSERT_EQ(measured.size(), 3u);
  for (const auto& [order, shapes] : measured) {
    const PlanChoice choice = compare_choice(order, shapes, HopperGemmStores::kByTma, MeasuredFields::kAll);
    EXPECT_GE(choice.near, 0.9) << order;
    EXPECT_LE(choice.mean, mean) << order;
    EXPECT_LE(choice.worst, worst) << order;
  }
}

// Where others leave part of a round, or of a tile, empty.
TEST(HopperGemmPlan, ChoosesRowsOfThreeWarpgroupsWhereTheyWereFastest) {
  expect_near_fastest("hopper_gemms_192_rows_h200.txt", 1.01, 1.06);
}

// Which the models of both decide together.
TEST(HopperGemmPlan, ChoosesBetweenFewRoundsAndOneTileEach) {
  expect_near_fastest("hopper_gemms_few_rounds_h200.txt", 1.02, 1.05);
}

// Tiles that load few lines for their elements, where lines begin within 128 bytes.
TEST(HopperGemmPlan, ChoosesFewLinesWhereTheyBeginWithin128Bytes) {
  const auto measured = measured_plans("hopper_gemms_parts_of_lines_h200.txt", MeasuredFields::kAll);
  ASSERT_EQ(measured.size(), 1u);
  const PlanChoice choice = compare_choice("nt", measured.at("nt"), HopperGemmStores::kByTma, MeasuredFields::kAll);
  EXPECT_LE(choice.mean, 1.03);
  EXPECT_LE(choice.worst, 1.06);
}

// Where lines split sectors clusters share them, which was faster than what is chosen for other lines.
TEST(HopperGemmPlan, ChoosesClustersWhereLinesSplitSectors) {
  auto measured = measured_plans("hopper_gemms_split_sectors_h200.txt", MeasuredFields::kAll);
  ASSERT_EQ(measured.size(), 3u);
  size_t in_clusters = 0, several = 0;
  for (auto& [order, shapes] : measured) {
    std::erase_if(shapes, [](const auto& shape) { return shape.second.size() < 2; });
    const PlanChoice choice = compare_choice(order, shapes, HopperGemmStores::kByTma, MeasuredFields::kAll);
    several += shapes.size();
    in_clusters += choice.in_clusters;
    EXPECT_LE(choice.mean, 1.01) << order;
    EXPECT_LE(choice.worst, 1.06) << order;
  }
  EXPECT_GE(several, 30u);
  EXPECT_GE(in_clusters, 30u);
}

// Only there: of 3,928 columns and 2,776 of k, not of 3,936 and 2,784.
TEST(HopperGemmPlan, PairsShareLinesThatSplitSectors) {
  const auto cluster = [](const char* order, int64_t m, int64_t n, int64_t k) {
    const HopperGemmPlan plan =
        choose_hopper_gemm(gpu_architecture("sm_90a"), HopperGemmAccumulators::kOne, HopperGemmStores::kByTma, 1, m, n,
                           k, dense_gemm_order(order, m, n, k));
    return hopper_gemm_cluster(plan.tile);
  };
  for (const char* order : {"nt", "nn", "tn"}) {
    EXPECT_EQ(cluster(order, 12488, 3928, 2776), 2) << order;
    EXPECT_EQ(cluster(order, 12480, 3936, 2784), 1) << order;
  }
  // Few blocks each want few lines.
  EXPECT_EQ(cluster("nt", 136, 64, 456), 1);
  EXPECT_GT(cluster("nt", 1184, 1520, 3768), 2);
}

// At the power limit what takes less energy is faster: larger tiles.
TEST(HopperGemmPlan, ChoosesWhatWasFastestInARow) {
  const auto measured = measured_plans("hopper_gemms_in_a_row_h200.txt");
  ASSERT_EQ(measured.size(), 3u);
  for (const auto& [order, shapes] : measured) {
    const PlanChoice choice = compare_choice(order, shapes);
    EXPECT_LE(choice.mean, 1.01) << order;
    EXPECT_LE(choice.worst, 1.04) << order;
  }
}

TEST(HopperGemmPlan, ChoosesWhatWasFastestWhereResultsAreAdded) {
  const auto measured = measured_plans("hopper_gemms_added_h200.txt");
  ASSERT_EQ(measured.size(), 1u);
  const PlanChoice choice = compare_choice("nt", measured.at("nt"), HopperGemmStores::kByTmaAdded);
  EXPECT_LE(choice.mean, 1.01);
  EXPECT_LE(choice.worst, 1.03);
}

}  // namespace
}  // namespace causeway::codegen
