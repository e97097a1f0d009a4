#include "causeway/codegen/x86/matmul_geometry.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "causeway/base/error.h"

namespace causeway::codegen {
namespace {

constexpr MatmulMachine kZen4 = {.level = X86Level::kAvx512Bf16, .l2_bytes = 1 << 20, .threads = 2};

bool same(const MatmulBlocks& a, const MatmulBlocks& b) {
  return a.path == b.path && a.pairs == b.pairs && a.tile_rows == b.tile_rows && a.tile_columns == b.tile_columns &&
         a.m == b.m && a.n == b.n && a.k == b.k;
}

TEST(MatmulGeometry, TheSmallerOperandIsPackedBeforehand) {
  EXPECT_EQ(choose_matmul_blocks({true, 1, 4096, 768, 3072}, kZen4).path, MatmulPath::kPackB);
  EXPECT_EQ(choose_matmul_blocks({true, 1, 1024, 50304, 768}, kZen4).path, MatmulPath::kPackA);
  EXPECT_EQ(choose_matmul_blocks({true, 1, kUnknownSize, 768, 768}, kZen4).path, MatmulPath::kPackB);
}

TEST(MatmulGeometry, FewRowsOrColumnsAreStreamed) {
  MatmulBlocks rows = choose_matmul_blocks({true, 1, 4, 768, 768}, kZen4);
  EXPECT_EQ(rows.path, MatmulPath::kThin);
  EXPECT_EQ(rows.m, 4);
  MatmulBlocks columns = choose_matmul_blocks({false, 1, 768, 1, 768}, kZen4);
  EXPECT_EQ(columns.path, MatmulPath::kThinSwapped);
  EXPECT_EQ(columns.n, 1);
  EXPECT_EQ(choose_matmul_blocks({false, 1, 3, 2, 768}, kZen4).path, MatmulPath::kThinSwapped);
  EXPECT_EQ(choose_matmul_blocks({false, 1, 32, 768, 768}, kZen4).path, MatmulPath::kThin);
  EXPECT_EQ(choose_matmul_blocks({false, 1, 33, 768, 768}, kZen4).path, MatmulPath::kPackA);
  // Pairs are worth packing for sooner.
  EXPECT_EQ(choose_matmul_blocks({true, 1, 16, 768, 768}, kZen4).path, MatmulPath::kThin);
  EXPECT_EQ(choose_matmul_blocks({true, 1, 17, 768, 768}, kZen4).path, MatmulPath::kPackA);
  EXPECT_EQ(choose_matmul_blocks({true, 1, 17, 768, 768}, {.level = X86Level::kAvx512}).path, MatmulPath::kThin);
  // Without k the scratch of a thin path has no size.
  EXPECT_EQ(choose_matmul_blocks({true, 1, 1, 768, kUnknownSize}, kZen4).path, MatmulPath::kPackA);
}

TEST(MatmulGeometry, PairsOnlyWhereTheMachineMultipliesThem) {
  EXPECT_TRUE(choose_matmul_blocks({true, 1, 64, 64, 64}, kZen4).pairs);
  EXPECT_FALSE(choose_matmul_blocks({false, 1, 64, 64, 64}, kZen4).pairs);
  EXPECT_FALSE(choose_matmul_blocks({true, 1, 64, 64, 64}, {.level = X86Level::kAvx512}).pairs);
}

TEST(MatmulGeometry, StreamedBlocksAreEqualShares) {
  for (const int64_t rows : {1, 4, 16, 32}) {
    for (const int64_t columns : {768, 2304, 3072, 50304}) {
      for (const int threads : {1, 2, 3, 4, 8}) {
        const MatmulMachine machine = {.level = X86Level::kAvx512, .l2_bytes = 1 << 20, .threads = threads};
        const MatmulBlocks blocks = choose_matmul_blocks({false, 1, rows, columns, 768}, machine);
        const std::string what = fmt::format("{} rows, {} columns, {} threads", rows, columns, threads);
        EXPECT_EQ(blocks.n % 32, 0) << what;
        EXPECT_LE(blocks.n * rows, 128 * 32) << what;
        const int64_t tasks = matmul_run_tasks(blocks, 1, rows, columns);
        EXPECT_LE(matmul_ceil_div(tasks, threads) * threads * blocks.n * 4, columns * 5) << what;
        if (rows == 16 && threads == 2) {
          EXPECT_EQ(tasks % 2, 0) << what;
          EXPECT_EQ(tasks * blocks.n, columns) << what;
        }
      }
    }
  }
}

// With AMX products of bf16 with enough rows and columns, and no others, have tiles of 32 x 32; rows of words are
// whole.
TEST(MatmulGeometry, MatrixRegistersAreForPackedPairs) {
  const MatmulMachine machine = {.level = X86Level::kAmxBf16};
  const MatmulBlocks blocks = choose_matmul_blocks({true, 1, 320, 480, 290}, machine);
  EXPECT_TRUE(blocks.matrix_tiles && blocks.pairs);
  EXPECT_EQ(blocks.tile_rows, 32);
  EXPECT_EQ(blocks.tile_columns, 32);
  EXPECT_EQ(matmul_words(blocks, 290), 160);
  // B is packed once, though it is larger, unless sums of several blocks of k are added up in memory.
  EXPECT_EQ(matmul_workspace_bytes(blocks, 2, 320, 480, 290), 4 * 2 * 480 * 160);
  EXPECT_EQ(choose_matmul_blocks({true, 1, 320, 480, 2000}, machine).path, MatmulPath::kPackA);
  EXPECT_EQ(choose_matmul_blocks({true, 1, 320, 480, 290}, {.level = X86Level::kAvx512Bf16}).path, MatmulPath::kPackA);
  EXPECT_FALSE(choose_matmul_blocks({false, 1, 320, 480, 290}, machine).matrix_tiles);
  EXPECT_FALSE(choose_matmul_blocks({true, 1, 4, 480, 290}, machine).matrix_tiles);
  EXPECT_FALSE(choose_matmul_blocks({true, 1, 320, 480, 290}, {.level = X86Level::kAvx512Bf16}).matrix_tiles);
}

TEST(MatmulGeometry, BlocksAreWholeTilesAndTasksSuffice) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    auto level = static_cast<X86Level>(random() % 5);
    auto pick = [&](int64_t least, int64_t most) {
      return std::uniform_int_distribution<int64_t>(least, most)(random);
    };
    MatmulProblem problem = {pick(0, 1) == 0, pick(1, 3), pick(33, 5000), pick(33, 5000), pick(0, 5000)};
    MatmulMachine machine = {.level = level, .l2_bytes = int64_t{1} << (18 + random() % 4), .threads = 1};
    MatmulBlocks one = choose_matmul_blocks(problem, machine);
    machine.threads = 64;
    MatmulBlocks many = choose_matmul_blocks(problem, machine);
    EXPECT_EQ(one.k, many.k) << "the order of a sum depends on the number of threads";
    EXPECT_EQ(one.path, many.path);
    EXPECT_EQ(one.k % 2, 0);
    for (const MatmulBlocks& blocks : {one, many}) {
      EXPECT_EQ(blocks.m % blocks.tile_rows, 0);
      EXPECT_EQ(blocks.n % blocks.tile_columns, 0);
      EXPECT_EQ(kMatmulPackGroup % blocks.tile_rows, 0);
      EXPECT_EQ(kMatmulPackGroup % blocks.tile_columns, 0);
      EXPECT_GT(blocks.m, 0);
      EXPECT_GT(blocks.n, 0);
    }
    EXPECT_GE(matmul_run_tasks(many, problem.batch, problem.m, problem.n),
              matmul_run_tasks(one, problem.batch, problem.m, problem.n));
    EXPECT_LE(matmul_scratch_bytes(one, problem.m, problem.n, problem.k), 4 << 20);
  }
  MatmulProblem large = {true, 1, 4096, 3072, 768};
  MatmulBlocks blocks = choose_matmul_blocks(large, {.level = X86Level::kAvx512Bf16, .threads = 64});
  EXPECT_GE(matmul_run_tasks(blocks, 1, 4096, 3072), 128);
}

TEST(MatmulGeometry, LaunchSizes) {
  MatmulBlocks blocks = {MatmulPath::kPackB, true, 8, 48, 192, 768, 1024};
  MatmulLaunch launch = matmul_launch(blocks, 2, 400, 800, 1025);
  EXPECT_EQ(launch.pack_tasks, 2 * 2 * 5);                 // batch, blocks of k, groups of 192 columns
  EXPECT_EQ(launch.run_tasks, 2 * 3 * 2);                  // batch, blocks of m, blocks of n
  EXPECT_EQ(launch.workspace_bytes, 4 * 2 * 816 * 513);    // columns padded to 48, pairs of k
  EXPECT_EQ(launch.scratch_bytes, 4 * (512 + 768) * 192);  // a block of A, the sums between blocks of k
  launch = matmul_launch(blocks, 1, 400, 800, 1024);
  EXPECT_EQ(launch.scratch_bytes, 4 * 512 * 192);
  launch = matmul_launch(blocks, 1, 400, 800, 0);
  EXPECT_EQ(launch.run_tasks, 6);
  EXPECT_EQ(matmul_launch(blocks, 1, 0, 800, 3).run_tasks, 0);

  MatmulLaunch thin = matmul_launch(choose_matmul_blocks({true, 1, 2, 1000, 30}, kZen4), 1, 2, 1000, 30);
  EXPECT_EQ(thin.pack_tasks, 0);
  EXPECT_EQ(thin.workspace_bytes, 0);
  EXPECT_EQ(thin.scratch_bytes, 4 * 2 * (32 + 16 + 192));  // rows padded to two vectors and by one, sums of 192 columns
  // Of a long sum a part waits.
  thin = matmul_launch(choose_matmul_blocks({false, 1, 16, 768, 50304}, kZen4), 1, 16, 768, 50304);
  EXPECT_EQ(thin.scratch_bytes, 4 * 16 * (1024 + 16 + 192));
}

TEST(MatmulGeometry, ThinBlocksServeOneNumberOfRowsOnly) {
  MatmulBlocks blocks = choose_matmul_blocks({true, 1, 2, 1000, 30}, kZen4);
  EXPECT_THROW(matmul_launch(blocks, 1, 3, 1000, 30), InternalError);
}

TEST(MatmulGeometry, TextNamesEveryField) {
  EXPECT_EQ(matmul_blocks_text({MatmulPath::kPackA, false, 4, 24, 256, 96, 512}),
            "static constexpr MatmulBlocks kBlocks = {MatmulPath::kPackA, false, 4, 24, 256, 96, 512, false};");
  EXPECT_EQ(matmul_blocks_text({MatmulPath::kThinSwapped, true, 8, 48, 64, 1, 7}),
            "static constexpr MatmulBlocks kBlocks = {MatmulPath::kThinSwapped, true, 8, 48, 64, 1, 7, false};");
}

TEST(MatmulGeometry, TheSameProblemGivesTheSameBlocks) {
  MatmulProblem problem = {true, 1, 4096, 2304, 768};
  EXPECT_TRUE(same(choose_matmul_blocks(problem, kZen4), choose_matmul_blocks(problem, kZen4)));
}

}  // namespace
}  // namespace causeway::codegen
