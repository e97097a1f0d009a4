#include "causeway/codegen/x86/gemm_geometry.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::codegen {

namespace {

// Tasks per worker that even out workers of unequal speed.
constexpr int64_t kTasksPerThread = 4;

int64_t lanes(X86Level level) {
  switch (level) {
    case X86Level::kPortable:
      return 4;
    case X86Level::kAvx2:
      return 8;
    case X86Level::kAvx512:
    case X86Level::kAvx512Bf16:
    case X86Level::kAmxBf16:
      return 16;
  }
  return 4;
}

// The largest block of `unit`s, at most `limit`, that cuts `extent` into pieces of nearly one size.
int64_t even_block(int64_t extent, int64_t limit, int64_t unit) {
  int64_t most = std::max(unit, limit / unit * unit);
  if (extent == kUnknownSize) return most;
  int64_t pieces = std::max<int64_t>(1, gemm_ceil_div(extent, most));
  return std::clamp(gemm_round_up(gemm_ceil_div(extent, pieces), unit), unit, most);
}

void choose_skinny(const GemmProblem& problem, const GemmMachine& machine, GemmBlocks& blocks) {
  constexpr int64_t kUnit = 32;
  constexpr int64_t kLongRun = 192;
  constexpr int64_t kSkinnyTasksPerThread = 3;
  bool few_rows = blocks.path == GemmPath::kSkinny;
  int64_t rows = few_rows ? problem.m : problem.n;
  int64_t columns = few_rows ? problem.n : problem.m;
  // Sums that take some more than a third of the first cache level; wider blocks of many rows crowd out what they meet.
  const int64_t most = std::clamp<int64_t>(3072 / rows / kUnit * kUnit, 128, 1024);
  int64_t block = std::min<int64_t>(most, 512);
  if (columns != kUnknownSize) {
    // Every row of B is read in long runs, and workers have equally many blocks.
    int64_t tasks = std::clamp<int64_t>(columns / kLongRun, machine.threads, kSkinnyTasksPerThread * machine.threads);
    tasks = gemm_round_up(std::max(tasks, gemm_ceil_div(columns, most)), machine.threads);
    block = std::clamp<int64_t>(gemm_round_up(gemm_ceil_div(columns, tasks), kUnit), 64, most);
  }
  blocks.m = few_rows ? rows : block;
  blocks.n = few_rows ? block : rows;
  blocks.k = 1024;
}

void choose_packed(const GemmProblem& problem, const GemmMachine& machine, GemmBlocks& blocks) {
  // Two panels that meet take a quarter of the second cache level.
  blocks.k = blocks.pairs ? 1024 : 512;
  bool one_block = problem.k != kUnknownSize && problem.k <= blocks.k;
  // The smaller operand goes through memory a second time. With matrix registers and one block of k, though, packing a
  // larger B once was measured up to 1.7 times as fast as packing it again for each block of m.
  bool smaller_a = problem.m != kUnknownSize && problem.n != kUnknownSize && problem.m < problem.n;
  blocks.path = smaller_a && !(blocks.matrix_tiles && one_block) ? GemmPath::kPackA : GemmPath::kPackB;
  int64_t words = gemm_words(blocks, one_block ? std::max<int64_t>(problem.k, 16) : blocks.k);
  // With several blocks of k, the sums of a task wait in scratch: it is kept small enough for the second cache level.
  int64_t m_limit;
  int64_t n_limit;
  int64_t m_least;
  int64_t n_least;
  if (blocks.path == GemmPath::kPackB) {
    // The block of A fills half of the second cache level; it is packed again for each block of n.
    m_limit = std::clamp<int64_t>(machine.l2_bytes / 2 / 4 / words, 64, blocks.matrix_tiles ? 256 : 192);
    n_limit = one_block ? 4096 : 768;
    m_least = 64;
    n_least = 384;
  } else {
    // The block of B is packed again for each block of m.
    m_limit = one_block ? 2048 : 768;
    n_limit = one_block ? 1536 : 384;
    m_least = 256;
    n_least = 96;
  }
  blocks.m = even_block(problem.m, m_limit, blocks.tile_rows);
  blocks.n = even_block(problem.n, n_limit, blocks.tile_columns);
  if (problem.m == kUnknownSize || problem.n == kUnknownSize) return;
  int64_t batch = problem.batch == kUnknownSize ? 1 : problem.batch;
  auto enough = [&] {
    return gemm_run_tasks(blocks, batch, problem.m, problem.n) >= kTasksPerThread * machine.threads;
  };
  while (!enough() && blocks.n > n_least) {
    n_limit = std::max(n_least, blocks.n - blocks.tile_columns);
    blocks.n = even_block(problem.n, n_limit, blocks.tile_columns);
  }
  while (!enough() && blocks.m > m_least) {
    m_limit = std::max(m_least, blocks.m - blocks.tile_rows);
    blocks.m = even_block(problem.m, m_limit, blocks.tile_rows);
  }
}

}  // namespace

GemmBlocks choose_gemm_blocks(const GemmProblem& problem, const GemmMachine& machine) {
  CAUSEWAY_CHECK(machine.threads >= 1 && machine.l2_bytes > 0, "threads {}, l2 {}", machine.threads, machine.l2_bytes);
  GemmBlocks blocks = {};
  blocks.pairs = problem.bf16_operands && machine.level >= X86Level::kAvx512Bf16;
  blocks.tile_rows = machine.level >= X86Level::kAvx512 ? 8 : 4;
  blocks.tile_columns = 3 * lanes(machine.level);
  // Skinny paths multiply in f32: half as fast as pairs, where memory no longer bounds them.
  int64_t most = blocks.pairs ? kSkinnyRows / 2 : kSkinnyRows;
  auto thin = [most](int64_t size) { return size >= 1 && size <= most; };
  if (problem.k != kUnknownSize && (thin(problem.m) || thin(problem.n)) && !problem.fixed_order) {
    // Of two skinny operands the thinner one is kept.
    bool few_rows = thin(problem.m) && (!thin(problem.n) || problem.m <= problem.n);
    blocks.path = few_rows ? GemmPath::kSkinny : GemmPath::kSkinnySwapped;
    choose_skinny(problem, machine, blocks);
  } else {
    if (blocks.pairs && machine.level == X86Level::kAmxBf16) {
      blocks.matrix_tiles = true;
      blocks.tile_rows = blocks.tile_columns = 32;
    }
    choose_packed(problem, machine, blocks);
  }
  return blocks;
}

GemmLaunch gemm_launch(const GemmBlocks& blocks, int64_t batch, int64_t m, int64_t n, int64_t k) {
  CAUSEWAY_CHECK(batch >= 0 && m >= 0 && n >= 0 && k >= 0, "batch {}, m {}, n {}, k {}", batch, m, n, k);
  CAUSEWAY_CHECK(blocks.path != GemmPath::kSkinny || blocks.m == m, "blocks for {} rows, m {}", blocks.m, m);
  CAUSEWAY_CHECK(blocks.path != GemmPath::kSkinnySwapped || blocks.n == n, "blocks for {} columns, n {}", blocks.n, n);
  return {.pack_tasks = gemm_pack_tasks(blocks, batch, m, n, k),
          .run_tasks = gemm_run_tasks(blocks, batch, m, n),
          .workspace_bytes = gemm_workspace_bytes(blocks, batch, m, n, k),
          .scratch_bytes = gemm_scratch_bytes(blocks, m, n, k)};
}

std::string gemm_blocks_text(const GemmBlocks& blocks) {
  const char* path = blocks.path == GemmPath::kPackA    ? "kPackA"
                     : blocks.path == GemmPath::kPackB  ? "kPackB"
                     : blocks.path == GemmPath::kSkinny ? "kSkinny"
                                                        : "kSkinnySwapped";
  return fmt::format("static constexpr GemmBlocks kBlocks = {{GemmPath::{}, {}, {}, {}, {}, {}, {}, {}}};", path,
                     blocks.pairs, blocks.tile_rows, blocks.tile_columns, blocks.m, blocks.n, blocks.k,
                     blocks.matrix_tiles);
}

}  // namespace causeway::codegen
