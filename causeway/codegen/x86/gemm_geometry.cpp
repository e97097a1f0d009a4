#include "causeway/codegen/x86/gemm_geometry.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/x86/gemm_mainloops.h"

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

}  // namespace

GemmBlocks vector_gemm_blocks(const GemmProblem& problem, const GemmMachine& machine) {
  GemmBlocks blocks = {};
  blocks.pairs = problem.bf16_operands && machine.level >= X86Level::kAvx512Bf16;
  blocks.tile_rows = machine.level >= X86Level::kAvx512 ? 8 : 4;
  blocks.tile_columns = 3 * lanes(machine.level);
  return blocks;
}

void choose_panels(const GemmProblem& problem, const GemmMachine& machine, const GemmPanels& panels,
                   GemmBlocks& blocks) {
  // Two panels that meet take a quarter of the second cache level.
  blocks.k = blocks.pairs ? 1024 : 512;
  bool one_block = problem.k != kUnknownSize && problem.k <= blocks.k;
  // The smaller operand goes through memory a second time.
  bool smaller_a = problem.m != kUnknownSize && problem.n != kUnknownSize && problem.m < problem.n;
  blocks.path = smaller_a && !(panels.packs_b_once && one_block) ? GemmPath::kPackA : GemmPath::kPackB;
  int64_t words = gemm_words(blocks, one_block ? std::max<int64_t>(problem.k, 16) : blocks.k);
  // With several blocks of k, the sums of a task wait in scratch: it is kept small enough for the second cache level.
  int64_t m_limit;
  int64_t n_limit;
  int64_t m_least;
  int64_t n_least;
  if (blocks.path == GemmPath::kPackB) {
    // The block of A fills half of the second cache level; it is packed again for each block of n.
    m_limit = std::clamp<int64_t>(machine.l2_bytes / 2 / 4 / words, 64, panels.most_rows);
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

GemmPlan plan_gemm(const GemmProblem& problem, const GemmMachine& machine) {
  CAUSEWAY_CHECK(machine.threads >= 1 && machine.l2_bytes > 0, "threads {}, l2 {}", machine.threads, machine.l2_bytes);
  for (const GemmMainloop* mainloop : gemm_mainloops())
    if (const std::optional<GemmBlocks> blocks = mainloop->choose(problem, machine)) return {mainloop, *blocks};
  CAUSEWAY_CHECK(false, "no mainloop serves a GEMM");
  return {};
}

GemmPlan plan_grouped_gemm(const GemmProblem& problem, const GemmMachine& machine) {
  // Both operands are packed for each block again, so blocks are large; together with the sums of one they take about
  // the second level of a core's cache.
  constexpr int64_t kRows = 192, kColumns = 384;
  GemmProblem unknown;
  unknown.bf16_operands = problem.bf16_operands;
  unknown.fixed_order = true;
  GemmPlan plan = plan_gemm(unknown, machine);
  plan.blocks.m = even_block(problem.m, kRows, plan.blocks.tile_rows);
  plan.blocks.n = even_block(problem.n, kColumns, plan.blocks.tile_columns);
  return plan;
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
