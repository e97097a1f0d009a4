#include "causeway/codegen/x86/gemm_geometry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "causeway/base/error.h"
#include "causeway/codegen/x86/gemm_mainloops.h"

namespace causeway::codegen {
namespace {

GemmBlocks choose_gemm_blocks(const GemmProblem& problem, const GemmMachine& machine) {
  return plan_gemm(problem, machine).blocks;
}

constexpr GemmMachine kZen4 = {.level = X86Level::kAvx512Bf16, .l2_bytes = 1 << 20, .threads = 2};

bool same(const GemmBlocks& a, const GemmBlocks& b) {
  return a.path == b.path && a.pairs == b.pairs && a.tile_rows == b.tile_rows && a.tile_columns == b.tile_columns &&
         a.m == b.m && a.n == b.n && a.k == b.k;
}

TEST(GemmGeometry, TheSmallerOperandIsPackedBeforehand) {
  EXPECT_EQ(choose_gemm_blocks({true, 1, 4096, 768, 3072}, kZen4).path, GemmPath::kPackB);
  EXPECT_EQ(choose_gemm_blocks({true, 1, 1024, 50304, 768}, kZen4).path, GemmPath::kPackA);
  EXPECT_EQ(choose_gemm_blocks({true, 1, kUnknownSize, 768, 768}, kZen4).path, GemmPath::kPackB);
}

TEST(GemmGeometry, FewRowsOrColumnsAreStreamed) {
  GemmBlocks rows = choose_gemm_blocks({true, 1, 4, 768, 768}, kZen4);
  EXPECT_EQ(rows.path, GemmPath::kSkinny);
  EXPECT_EQ(rows.m, 4);
  GemmBlocks columns = choose_gemm_blocks({false, 1, 768, 1, 768}, kZen4);
  EXPECT_EQ(columns.path, GemmPath::kSkinnySwapped);
  EXPECT_EQ(columns.n, 1);
  EXPECT_EQ(choose_gemm_blocks({false, 1, 3, 2, 768}, kZen4).path, GemmPath::kSkinnySwapped);
  EXPECT_EQ(choose_gemm_blocks({false, 1, 32, 768, 768}, kZen4).path, GemmPath::kSkinny);
  EXPECT_EQ(choose_gemm_blocks({false, 1, 33, 768, 768}, kZen4).path, GemmPath::kPackA);
  // Pairs are worth packing for sooner.
  EXPECT_EQ(choose_gemm_blocks({true, 1, 16, 768, 768}, kZen4).path, GemmPath::kSkinny);
  EXPECT_EQ(choose_gemm_blocks({true, 1, 17, 768, 768}, kZen4).path, GemmPath::kPackA);
  EXPECT_EQ(choose_gemm_blocks({true, 1, 17, 768, 768}, {.level = X86Level::kAvx512}).path, GemmPath::kSkinny);
  // Without k the scratch of a skinny path has no size.
  EXPECT_EQ(choose_gemm_blocks({true, 1, 1, 768, kUnknownSize}, kZen4).path, GemmPath::kPackA);
}

TEST(GemmGeometry, PairsOnlyWhereTheMachineMultipliesThem) {
  EXPECT_TRUE(choose_gemm_blocks({true, 1, 64, 64, 64}, kZen4).pairs);
  EXPECT_FALSE(choose_gemm_blocks({false, 1, 64, 64, 64}, kZen4).pairs);
  EXPECT_FALSE(choose_gemm_blocks({true, 1, 64, 64, 64}, {.level = X86Level::kAvx512}).pairs);
}

TEST(GemmGeometry, StreamedBlocksAreEqualShares) {
  for (const int64_t rows : {1, 4, 16, 32}) {
    for (const int64_t columns : {768, 2304, 3072, 50304}) {
      for (const int threads : {1, 2, 3, 4, 8}) {
        const GemmMachine machine = {.level = X86Level::kAvx512, .l2_bytes = 1 << 20, .threads = threads};
        const GemmBlocks blocks = choose_gemm_blocks({false, 1, rows, columns, 768}, machine);
        const std::string what = fmt::format("{} rows, {} columns, {} threads", rows, columns, threads);
        EXPECT_EQ(blocks.n % 32, 0) << what;
        EXPECT_LE(blocks.n * rows, 128 * 32) << what;
        const int64_t tasks = gemm_run_tasks(blocks, 1, rows, columns);
        EXPECT_LE(gemm_ceil_div(tasks, threads) * threads * blocks.n * 4, columns * 5) << what;
        if (rows == 16 && threads == 2) {
          EXPECT_EQ(tasks % 2, 0) << what;
          EXPECT_EQ(tasks * blocks.n, columns) << what;
        }
      }
    }
  }
}

// With AMX GEMMs of bf16 with enough rows and columns, and no others, have tiles of 32 x 32; rows of words are
// whole.
TEST(GemmGeometry, EachProblemHasItsMainloop) {
  GemmMachine amx = kZen4;
  amx.level = X86Level::kAmxBf16;
  const GemmProblem halves = {true, 1, 4096, 768, 768}, floats = {false, 1, 4096, 768, 768},
                    few = {true, 1, 4, 768, 768};
  EXPECT_EQ(plan_gemm(halves, amx).mainloop, &x86_amx_gemm_mainloop());
  EXPECT_EQ(plan_gemm(halves, kZen4).mainloop, &x86_packed_gemm_mainloop());
  EXPECT_EQ(plan_gemm(floats, amx).mainloop, &x86_packed_gemm_mainloop());
  EXPECT_EQ(plan_gemm(few, amx).mainloop, &x86_skinny_gemm_mainloop());
  GemmProblem fixed = few;
  fixed.fixed_order = true;
  EXPECT_EQ(plan_gemm(fixed, amx).mainloop, &x86_amx_gemm_mainloop());
}

TEST(GemmGeometry, MatrixRegistersAreForPackedPairs) {
  const GemmMachine machine = {.level = X86Level::kAmxBf16};
  const GemmBlocks blocks = choose_gemm_blocks({true, 1, 320, 480, 290}, machine);
  EXPECT_TRUE(blocks.matrix_tiles && blocks.pairs);
  EXPECT_EQ(blocks.tile_rows, 32);
  EXPECT_EQ(blocks.tile_columns, 32);
  EXPECT_EQ(gemm_words(blocks, 290), 160);
  // B is packed once, though it is larger, unless sums of several blocks of k are added up in memory.
  EXPECT_EQ(gemm_workspace_bytes(blocks, 2, 320, 480, 290), 4 * 2 * 480 * 160);
  EXPECT_EQ(choose_gemm_blocks({true, 1, 320, 480, 2000}, machine).path, GemmPath::kPackA);
  EXPECT_EQ(choose_gemm_blocks({true, 1, 320, 480, 290}, {.level = X86Level::kAvx512Bf16}).path, GemmPath::kPackA);
  EXPECT_FALSE(choose_gemm_blocks({false, 1, 320, 480, 290}, machine).matrix_tiles);
  EXPECT_FALSE(choose_gemm_blocks({true, 1, 4, 480, 290}, machine).matrix_tiles);
  EXPECT_FALSE(choose_gemm_blocks({true, 1, 320, 480, 290}, {.level = X86Level::kAvx512Bf16}).matrix_tiles);
}

TEST(GemmGeometry, BlocksAreWholeTilesAndTasksSuffice) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    auto level = static_cast<X86Level>(random() % 5);
    auto pick = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    GemmProblem problem = {pick(0, 1) == 0, pick(1, 3), pick(33, 5000), pick(33, 5000), pick(0, 5000)};
    GemmMachine machine = {.level = level, .l2_bytes = int64_t{1} << (18 + random() % 4), .threads = 1};
    GemmBlocks one = choose_gemm_blocks(problem, machine);
    machine.threads = 64;
    GemmBlocks many = choose_gemm_blocks(problem, machine);
    EXPECT_EQ(one.k, many.k) << "the order of a sum depends on the number of threads";
    EXPECT_EQ(one.path, many.path);
    EXPECT_EQ(one.k % 2, 0);
    for (const GemmBlocks& blocks : {one, many}) {
      EXPECT_EQ(blocks.m % blocks.tile_rows, 0);
      EXPECT_EQ(blocks.n % blocks.tile_columns, 0);
      EXPECT_EQ(kGemmPackGroup % blocks.tile_rows, 0);
      EXPECT_EQ(kGemmPackGroup % blocks.tile_columns, 0);
      EXPECT_GT(blocks.m, 0);
      EXPECT_GT(blocks.n, 0);
    }
    EXPECT_GE(gemm_run_tasks(many, problem.batch, problem.m, problem.n),
              gemm_run_tasks(one, problem.batch, problem.m, problem.n));
    EXPECT_LE(gemm_scratch_bytes(one, problem.m, problem.n, problem.k), 4 << 20);
  }
  GemmProblem large = {true, 1, 4096, 3072, 768};
  GemmBlocks blocks = choose_gemm_blocks(large, {.level = X86Level::kAvx512Bf16, .threads = 64});
  EXPECT_GE(gemm_run_tasks(blocks, 1, 4096, 3072), 128);
}

TEST(GemmGeometry, LaunchSizes) {
  GemmBlocks blocks = {GemmPath::kPackB, true, 8, 48, 192, 768, 1024};
  GemmLaunch launch = gemm_launch(blocks, 2, 400, 800, 1025);
  EXPECT_EQ(launch.pack_tasks, 2 * 2 * 5);                 // batch, blocks of k, groups of 192 columns
  EXPECT_EQ(launch.run_tasks, 2 * 3 * 2);                  // batch, blocks of m, blocks of n
  EXPECT_EQ(launch.workspace_bytes, 4 * 2 * 816 * 513);    // columns padded to 48, pairs of k
  EXPECT_EQ(launch.scratch_bytes, 4 * (512 + 768) * 192);  // a block of A, the sums between blocks of k
  launch = gemm_launch(blocks, 1, 400, 800, 1024);
  EXPECT_EQ(launch.scratch_bytes, 4 * 512 * 192);
  launch = gemm_launch(blocks, 1, 400, 800, 0);
  EXPECT_EQ(launch.run_tasks, 6);
  EXPECT_EQ(gemm_launch(blocks, 1, 0, 800, 3).run_tasks, 0);

  GemmLaunch thin = gemm_launch(choose_gemm_blocks({true, 1, 2, 1000, 30}, kZen4), 1, 2, 1000, 30);
  EXPECT_EQ(thin.pack_tasks, 0);
  EXPECT_EQ(thin.workspace_bytes, 0);
  EXPECT_EQ(thin.scratch_bytes, 4 * 2 * (32 + 16 + 192));  // rows padded to two vectors and by one, sums of 192 columns
  // Of a long sum a part waits.
  thin = gemm_launch(choose_gemm_blocks({false, 1, 16, 768, 50304}, kZen4), 1, 16, 768, 50304);
  EXPECT_EQ(thin.scratch_bytes, 4 * 16 * (1024 + 16 + 192));
}

TEST(GemmGeometry, SkinnyBlocksServeOneNumberOfRowsOnly) {
  GemmBlocks blocks = choose_gemm_blocks({true, 1, 2, 1000, 30}, kZen4);
  EXPECT_THROW(gemm_launch(blocks, 1, 3, 1000, 30), InternalError);
}

TEST(GemmGeometry, TextNamesEveryField) {
  EXPECT_EQ(gemm_blocks_text({GemmPath::kPackA, false, 4, 24, 256, 96, 512}),
            "static constexpr GemmBlocks kBlocks = {GemmPath::kPackA, false, 4, 24, 256, 96, 512, false};");
  EXPECT_EQ(gemm_blocks_text({GemmPath::kSkinnySwapped, true, 8, 48, 64, 1, 7}),
            "static constexpr GemmBlocks kBlocks = {GemmPath::kSkinnySwapped, true, 8, 48, 64, 1, 7, false};");
}

TEST(GemmGeometry, TheSameProblemGivesTheSameBlocks) {
  GemmProblem problem = {true, 1, 4096, 2304, 768};
  EXPECT_TRUE(same(choose_gemm_blocks(problem, kZen4), choose_gemm_blocks(problem, kZen4)));
}

}  // namespace
}  // namespace causeway::codegen
