// GEMMs with few rows, or few columns (kernels/x86/gemm_skinny.h): the other operand is streamed once.
#include <algorithm>

#include "causeway/codegen/x86/gemm_mainloops.h"

namespace causeway::codegen {
namespace {

std::optional<GemmBlocks> choose_skinny(const GemmProblem& problem, const GemmMachine& machine) {
  constexpr int64_t kUnit = 32;
  constexpr int64_t kLongRun = 192;
  constexpr int64_t kTasksPerThread = 3;
  GemmBlocks blocks = vector_gemm_blocks(problem, machine);
  // They multiply in f32: half as fast as pairs, where memory no longer bounds them.
  const int64_t most_rows = blocks.pairs ? kSkinnyRows / 2 : kSkinnyRows;
  const auto is_skinny = [&](int64_t size) { return size >= 1 && size <= most_rows; };
  if (problem.fixed_order || problem.k == kUnknownSize || !(is_skinny(problem.m) || is_skinny(problem.n)))
    return std::nullopt;
  // Of two skinny operands the thinner one is kept.
  const bool few_rows = is_skinny(problem.m) && (!is_skinny(problem.n) || problem.m <= problem.n);
  blocks.path = few_rows ? GemmPath::kSkinny : GemmPath::kSkinnySwapped;
  const int64_t rows = few_rows ? problem.m : problem.n, columns = few_rows ? problem.n : problem.m;
  // Sums that take some more than a third of the first cache level; wider blocks of many rows crowd out what they meet.
  const int64_t most = std::clamp<int64_t>(3072 / rows / kUnit * kUnit, 128, 1024);
  int64_t block = std::min<int64_t>(most, 512);
  if (columns != kUnknownSize) {
    // Every row of B is read in long runs, and workers have equally many blocks.
    int64_t tasks = std::clamp<int64_t>(columns / kLongRun, machine.threads, kTasksPerThread * machine.threads);
    tasks = gemm_round_up(std::max(tasks, gemm_ceil_div(columns, most)), machine.threads);
    block = std::clamp<int64_t>(gemm_round_up(gemm_ceil_div(columns, tasks), kUnit), 64, most);
  }
  blocks.m = few_rows ? rows : block;
  blocks.n = few_rows ? block : rows;
  blocks.k = 1024;
  return blocks;
}

// What is streamed, wanted in the second cache level: terms of k often lie a multiple of 4 KiB apart.
GemmMainloop::Prefetches skinny_prefetches(const GemmBlocks& blocks) {
  return {.a = blocks.path == GemmPath::kSkinnySwapped, .b = blocks.path == GemmPath::kSkinny};
}

}  // namespace

const GemmMainloop& x86_skinny_gemm_mainloop() {
  static constexpr GemmMainloop kMainloop = {.header = "causeway/kernels/x86/gemm_skinny.h",
                                             .pack = std::nullopt,
                                             .run = "gemm_skinny_run",
                                             .choose = choose_skinny,
                                             .prefetches = skinny_prefetches};
  return kMainloop;
}

}  // namespace causeway::codegen
