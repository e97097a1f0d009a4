// Which mainloop, scheduler and epilogue GEMMs on GPUs have, and that their tiles fit.
#include "causeway/codegen/gpu/gemm_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "causeway/codegen/gpu/gemm_hopper_model.h"
#include "causeway/codegen/gpu/gemm_mainloops.h"
#include "causeway/codegen/gpu/gemm_wave_tile.h"
#include "causeway/kernels/gpu/skinny_gemm_layout.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kM = 4096, kN = 2048, kK = 1024;

// Both operands contiguous in k, the result of the same type.
GpuGemmProblem problem_of(DType dtype, int64_t m, int64_t n, int64_t k) {
  const auto operand = [&](int64_t lines) {
    GpuGemmOperand one;
    one.dtype = dtype;
    one.element_bytes = static_cast<int64_t>(size_bytes(dtype));
    one.stride = Dim(k);
    one.lines = Dim(lines);
    one.k = Dim(k);
    one.aligned = one.element_bytes > 1 && one.is_multiple(16 / one.element_bytes);
    return one;
  };
  GpuGemmProblem problem;
  problem.type = gpu_gemm_type(dtype);
  problem.batch = Dim(1);
  problem.m = Dim(m);
  problem.n = Dim(n);
  problem.k = Dim(k);
  problem.a = operand(m);
  problem.b = operand(n);
  problem.epilogue = {{dtype}, {dtype}, {}};
  return problem;
}

GpuGemmPlan plan_on(std::string_view processor, const GpuGemmProblem& problem) {
  const std::optional<GpuGemmPlan> plan = plan_gemm(problem, device::gpu_architecture(processor));
  EXPECT_TRUE(plan.has_value());
  return plan.value_or(GpuGemmPlan{});
}

// The tile, where the mainloop is that one.
const HopperGemmTile* hopper_tile(const GpuGemmPlan& plan) { return plan.mainloop.tile_of<HopperGemmTile>(); }
const SkinnyGemmTile* skinny_tile(const GpuGemmPlan& plan) { return plan.mainloop.tile_of<SkinnyGemmTile>(); }
const GpuGemmTile* wave_tile(const GpuGemmPlan& plan) { return plan.mainloop.tile_of<GpuGemmTile>(); }

TEST(GemmPlan, EachArchitectureHasItsMainloop) {
  const GpuGemmProblem problem = problem_of(DType::kBF16, kM, kN, kK);
  const GpuGemmPlan hopper = plan_on("sm_90a", problem);
  ASSERT_NE(hopper_tile(hopper), nullptr);
  EXPECT_TRUE(hopper.scheduler.persistent);
  EXPECT_TRUE(hopper.epilogue.stores_by_tma);
  for (const char* processor : {"sm_80", "gfx90a", "gfx942"}) {
    const GpuGemmPlan plan = plan_on(processor, problem);
    ASSERT_NE(wave_tile(plan), nullptr) << processor;
    EXPECT_FALSE(plan.scheduler.persistent);
    EXPECT_FALSE(plan.epilogue.stores_by_tma);
    EXPECT_EQ(plan.epilogue.store_lanes, 8);
  }
}

// Lines that an odd number of 16 bytes lies between, or that begin with one, whatever the type.
TEST(GemmPlan, LinesThatSplitSectorsAreShared) {
  const auto cluster = [](const GpuGemmProblem& problem) {
    const GpuGemmPlan plan = plan_on("sm_90a", problem);
    EXPECT_NE(hopper_tile(plan), nullptr);
    return plan.scheduler.cluster;
  };
  EXPECT_EQ(cluster(problem_of(DType::kBF16, 8192, 4096, 2048)), 1);
  EXPECT_EQ(cluster(problem_of(DType::kBF16, 8192, 4096, 2056)), 2);
  EXPECT_EQ(cluster(problem_of(DType::kBF16, 8192, 4096, 2064)), 1);
  GpuGemmProblem shifted = problem_of(DType::kBF16, 8192, 4096, 2048);
  shifted.a.offset = shifted.b.offset = Dim(8);
  EXPECT_EQ(cluster(shifted), 2);
  GpuGemmProblem batches = problem_of(DType::kBF16, 8192, 4096, 2048);
  batches.batch = Dim(3);
  for (GpuGemmOperand* operand : {&batches.a, &batches.b})
    operand->batch = {{Dim(3), operand->lines * operand->stride + 8}};
  EXPECT_EQ(cluster(batches), 2);
}

TEST(GemmPlan, WhatTmaDoesNotTakeIsPortable) {
  GpuGemmProblem unaligned = problem_of(DType::kBF16, kM, kN, kK);
  unaligned.a.aligned = false;
  EXPECT_NE(wave_tile(plan_on("sm_90a", unaligned)), nullptr);
  GpuGemmProblem floats = problem_of(DType::kF32, kM, kN, kK);
  EXPECT_NE(wave_tile(plan_on("sm_90a", floats)), nullptr);
  floats.rounds_to_tf32 = true;
  EXPECT_NE(hopper_tile(plan_on("sm_90a", floats)), nullptr);
  floats.b.contiguous_in_k = false;
  const GpuGemmPlan across = plan_on("sm_90a", floats);
  EXPECT_NE(wave_tile(across), nullptr);
  EXPECT_EQ(across.mainloop.type, GpuGemmType::kTf32);
  EXPECT_EQ(plan_on("gfx90a", floats).mainloop.type, GpuGemmType::kF32);
}

TEST(GemmPlan, AFixedOrderHasOneMainloop) {
  GpuGemmProblem problem = problem_of(DType::kBF16, kM, kN, kK);
  problem.fixed_order = true;
  const GpuGemmPlan plan = plan_on("sm_90a", problem);
  ASSERT_NE(wave_tile(plan), nullptr);
  GpuGemmProblem few = problem_of(DType::kBF16, 4, kN, kK);
  few.fixed_order = few.b_never_changes = true;
  const GpuGemmPlan skinny = plan_on("sm_90a", few);
  ASSERT_NE(wave_tile(skinny), nullptr);
  EXPECT_EQ(*wave_tile(skinny), *wave_tile(plan));
}

TEST(GemmPlan, FewRowsOfWeightsAreStreamed) {
  GpuGemmProblem problem = problem_of(DType::kBF16, 4, kN, kK);
  EXPECT_NE(wave_tile(plan_on("sm_80", problem)), nullptr);
  problem.b_never_changes = true;
  EXPECT_NE(skinny_tile(plan_on("sm_80", problem)), nullptr);
  EXPECT_NE(wave_tile(plan_on("gfx942", problem)), nullptr);
  problem.threads_of_rows = 128;
  EXPECT_EQ(skinny_tile(plan_on("sm_90a", problem))->waves, 4);
}

// Few rows of weights: tiles that give all multiprocessors about as much to read, a block each, which begin early. Not
// where weights may change, where rows are more, and where there are more tiles than multiprocessors.
TEST(GemmPlan, WeightsOfFewRowsAreSharedOutEvenly) {
  const auto planned = [](int64_t m, int64_t n, int64_t k, bool never_changes = true) {
    GpuGemmProblem problem = problem_of(DType::kBF16, m, n, k);
    problem.b_never_changes = never_changes;
    return plan_on("sm_90a", problem);
  };
  struct Case {
    int64_t m, n, k;
    int columns, splits;
  };
  for (const Case& c : {Case{32, 6144, 4096, 64, 1}, Case{32, 28672, 4096, 224, 1}, Case{32, 4096, 4096, 48, 1},
                        Case{17, 1024, 14336, 48, 4}, Case{64, 1152, 896, 48, 1}}) {
    SCOPED_TRACE(testing::Message() << c.m << " x " << c.n << " x " << c.k);
    const GpuGemmPlan plan = planned(c.m, c.n, c.k);
    ASSERT_NE(hopper_tile(plan), nullptr);
    const HopperGemmTile& tile = *hopper_tile(plan);
    EXPECT_FALSE(plan.scheduler.persistent);
    EXPECT_EQ(tile.m, 64);
    EXPECT_EQ(tile.n, c.columns);
    EXPECT_EQ(plan.scheduler.splits, c.splits);
    EXPECT_TRUE(tile.results_in_stages);
    EXPECT_LE((c.n + tile.n - 1) / tile.n * plan.scheduler.splits, 132);
    EXPECT_LE(hopper_gemm_shared_bytes(tile), kHopperGemmMostShared);
  }
  EXPECT_TRUE(planned(32, 6144, 4096, false).scheduler.persistent);
  EXPECT_TRUE(planned(65, 6144, 4096).scheduler.persistent);
  EXPECT_TRUE(planned(32, 128256, 4096).scheduler.persistent);
  EXPECT_NE(skinny_tile(planned(16, 6144, 4096)), nullptr);
}

TEST(GemmPlan, OperandsOf8BitsAreMultipliedInPairs) {
  GpuGemmProblem problem = problem_of(DType::kF8E4M3, kM, kN, kK);
  problem.epilogue = {{DType::kBF16}, {DType::kBF16}, {}};
  for (const char* processor : {"sm_90a", "gfx942"}) {
    const GpuGemmMainloopPlan mainloop = plan_on(processor, problem).mainloop;
    EXPECT_EQ(mainloop.type, GpuGemmType::kF8Pair);
    EXPECT_TRUE(mainloop.k.is_constant(kK / 2));
    EXPECT_TRUE(mainloop.a.stride.is_constant(kK / 2));
  }
  EXPECT_EQ(plan_on("sm_80", problem).mainloop.type, GpuGemmType::kBF16);
  problem.scales = GpuGemmScales::kOfBlocks;
  EXPECT_NE(hopper_tile(plan_on("sm_90a", problem)), nullptr);
  EXPECT_FALSE(plan_gemm(problem, device::gpu_architecture("gfx942")).has_value());
  GpuGemmProblem odd = problem_of(DType::kF8E4M3, kM, kN + 1, kK);
  odd.scales = GpuGemmScales::kOfColumns;
  EXPECT_FALSE(plan_gemm(odd, device::gpu_architecture("sm_90a")).has_value());
}

// What fusion is told is what the plan does.
TEST(GemmPlan, TmaStoresHideTheEpilogue) {
  const device::GpuArchitecture& hopper = device::gpu_architecture("sm_90a");
  GpuGemmProblem problem = problem_of(DType::kBF16, 8192, 8192, 1024);
  const auto expect = [&](bool hidden, const char* what) {
    EXPECT_EQ(hides_epilogue(problem, hopper), hidden) << what;
    EXPECT_EQ(plan_on("sm_90a", problem).epilogue.stores_by_tma, hidden) << what;
    EXPECT_FALSE(hides_epilogue(problem, device::gpu_architecture("gfx942"))) << what;
  };
  expect(true, "one tensor");
  problem.epilogue = {{DType::kBF16, DType::kBF16}, {DType::kBF16, DType::kBF16}, {}};
  expect(true, "two tensors");
  problem.epilogue.fetched = {DType::kBF16};
  expect(false, "two over another");
  problem.epilogue = {{DType::kBF16, DType::kF16}, {DType::kBF16, DType::kF16}, {}};
  expect(false, "two types");
  problem.epilogue = {{DType::kBF16}, {DType::kBF16}, {DType::kBool}};
  expect(false, "over what has a byte");
  problem.epilogue = {{DType::kBF16}, {}, {}};
  expect(false, "what is not computed in float");
  problem = problem_of(DType::kBF16, 8192, 8196, 1024);
  expect(false, "rows of 8 bytes more");
}

TEST(GemmPlan, SwappedOperandsAreThoseOfTheTransposes) {
  const GpuGemmPlan plan = plan_on("sm_90a", problem_of(DType::kBF16, 1440, 1024, 3072));
  ASSERT_TRUE(hopper_tile(plan)->swapped);
  EXPECT_TRUE(plan.mainloop.a.lines.is_constant(1024));
  EXPECT_TRUE(plan.mainloop.b.lines.is_constant(1440));
}

// Rows of A that blocks compute themselves: one or two, one after the other, and no more than there is room for.
TEST(GemmPlan, BlocksComputeFewRowsThemselves) {
  const device::GpuArchitecture& a100 = device::gpu_architecture("sm_80");
  GpuGemmProblem problem = problem_of(DType::kBF16, 2, kN, kK);
  EXPECT_FALSE(plan_own_rows(problem, a100).has_value());
  problem.b_never_changes = true;
  EXPECT_TRUE(plan_own_rows(problem, a100).has_value());
  EXPECT_FALSE(plan_own_rows(problem, device::gpu_architecture("gfx942")).has_value());
  problem.a.stride = Dim(2 * kK);
  EXPECT_FALSE(plan_own_rows(problem, a100).has_value());
  for (const auto& [m, k] : {std::array<int64_t, 2>{3, kK}, {2, 8192}}) {
    GpuGemmProblem more = problem_of(DType::kBF16, m, kN, k);
    more.b_never_changes = true;
    EXPECT_FALSE(plan_own_rows(more, a100).has_value()) << m << " x " << k;
  }
  // Of 864 blocks in two rounds, each of 16 columns, and of more.
  for (const auto& [n, in_blocks] : {std::pair<int64_t, bool>{13824, true}, {13840, false}}) {
    GpuGemmProblem wide = problem_of(DType::kBF16, 1, n, kK);
    wide.b_never_changes = true;
    EXPECT_EQ(plan_own_rows(wide, a100).has_value(), in_blocks) << n;
  }
}

// Views that lie across k are copied for matrix instructions of 8 bits, and for Hopper's of f32 where that pays.
TEST(GemmPlan, CopiesAreWorthWhatTheyGain) {
  const auto gains = [](GpuGemmProblem problem, std::string_view processor) {
    problem.b.contiguous_in_k = false;
    problem.b.is_view = true;
    return gains_from_copy(problem, problem.b, device::gpu_architecture(processor));
  };
  const GpuGemmProblem pairs = problem_of(DType::kF8E4M3, kM, kN, kK);
  EXPECT_TRUE(gains(pairs, "sm_90a"));
  EXPECT_TRUE(gains(pairs, "gfx942"));
  EXPECT_FALSE(gains(pairs, "sm_80"));
  EXPECT_FALSE(gains(problem_of(DType::kF8E4M3, kM, kN, kK + 2), "gfx942"));
  EXPECT_FALSE(gains(problem_of(DType::kF8E4M3, 16, kN, kK), "gfx942"));
  GpuGemmProblem floats = problem_of(DType::kF32, kM, kN, kK);
  EXPECT_FALSE(gains(floats, "sm_90a"));
  floats.rounds_to_tf32 = true;
  EXPECT_TRUE(gains(floats, "sm_90a"));
  EXPECT_FALSE(gains(floats, "sm_80"));
  // A lies in registers, as it is.
  floats.a.contiguous_in_k = false;
  floats.a.is_view = true;
  EXPECT_FALSE(gains_from_copy(floats, floats.a, device::gpu_architecture("sm_90a")));
  GpuGemmProblem few = problem_of(DType::kF32, 128, kN, kK);
  few.rounds_to_tf32 = true;
  EXPECT_FALSE(gains(few, "sm_90a"));
}

GpuGemmProblem float_problem(bool tf32, int64_t m, int64_t n, int64_t k) {
  GpuGemmProblem problem = problem_of(DType::kF32, m, n, k);
  problem.rounds_to_tf32 = tf32;
  return problem;
}
// Of each kind of operands, as no TMA takes them.
std::vector<GpuGemmProblem> problems_of_waves(int64_t m, int64_t n, int64_t k) {
  std::vector<GpuGemmProblem> problems = {problem_of(DType::kBF16, m, n, k), float_problem(false, m, n, k),
                                          float_problem(true, m, n, k)};
  for (GpuGemmProblem& problem : problems) problem.a.aligned = false;
  return problems;
}

TEST(GemmPlan, TilesOfWavesFollowTheSizes) {
  const auto plan = [](int64_t m, int64_t n, int64_t k) { return plan_on("sm_80", problem_of(DType::kBF16, m, n, k)); };
  EXPECT_EQ(wave_tile(plan(8192, 4096, 1024))->m, 128);
  EXPECT_EQ(plan(8192, 4096, 1024).scheduler.splits, 1);
  EXPECT_EQ(wave_tile(plan(256, 256, 256))->m, 64);
  EXPECT_EQ(wave_tile(plan(8, 4096, 256))->m, 16);
  EXPECT_EQ(wave_tile(plan(4096, 8, 256))->n, 16);
  EXPECT_GT(plan(384, 384, 32768).scheduler.splits, 1);
  GpuGemmProblem unknown = problem_of(DType::kBF16, 384, 384, 32768);
  unknown.k = Dim::symbol("k");
  EXPECT_EQ(plan_on("sm_80", unknown).scheduler.splits, 1);
}

TEST(GemmPlan, LargeGemmsOfCdnaPingPong) {
  for (const char* processor : {"gfx90a", "gfx942"}) {
    const GpuGemmPlan large = plan_on(processor, problem_of(DType::kBF16, 16384, 8192, 1024));
    EXPECT_EQ(large.mainloop.kind, &cdna_gemm_mainloop()) << processor;
    EXPECT_TRUE(wave_tile(large)->ping_pong) << processor;
    EXPECT_EQ(gpu_gemm_shared_bytes(*wave_tile(large), false, false, 2),
              device::gpu_architecture(processor).shared_bytes)
        << processor;
    for (const GpuGemmProblem& problem :
         {problem_of(DType::kBF16, 512, 512, 512), problem_of(DType::kF32, 16384, 8192, 1024),
          problem_of(DType::kBF16, 16384, 8192, 0)}) {
      const GpuGemmPlan other = plan_on(processor, problem);
      EXPECT_EQ(other.mainloop.kind, &portable_gemm_mainloop()) << processor;
      EXPECT_FALSE(wave_tile(other)->ping_pong) << processor;
    }
  }
}

TEST(GemmPlan, SkinnyTilesFollowTheSizes) {
  const auto tile = [](std::string_view processor, int64_t m, int64_t n, int64_t k) {
    GpuGemmProblem problem = problem_of(DType::kBF16, m, n, k);
    problem.b_never_changes = true;
    const GpuGemmPlan plan = plan_on(processor, problem);
    EXPECT_EQ(plan.mainloop.kind, &skinny_gemm_mainloop());
    return skinny_tile(plan) != nullptr ? *skinny_tile(plan) : SkinnyGemmTile{};
  };
  EXPECT_EQ(tile("sm_90a", 1, 4800, 1600), (SkinnyGemmTile{16, 8, 1}));
  EXPECT_EQ(tile("sm_90a", 1, 1600, 1600), (SkinnyGemmTile{16, 16, 1}));
  EXPECT_EQ(tile("sm_90a", 1, 1600, 6400), (SkinnyGemmTile{16, 8, 4}));
  EXPECT_EQ(tile("sm_80", 1, 1600, 6400), (SkinnyGemmTile{16, 16, 1}));
  EXPECT_EQ(tile("sm_90a", 16, 6400, 1600), (SkinnyGemmTile{32, 8, 1}));
  // 6,432 is no multiple of 64.
  EXPECT_EQ(tile("sm_90a", 1, 1600, 6432), (SkinnyGemmTile{16, 16, 1}));
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{1, 1600, 6400}, {16, 1600, 6400}, {16, 50257, 768}, {16, 64, 65536}}) {
    const SkinnyGemmTile one = tile("sm_90a", m, n, k);
    EXPECT_LE(skinny_gemm_shared_bytes(one, static_cast<int>(m), k), kSkinnyGemmBlockBytes)
        << m << ' ' << n << ' ' << k;
    EXPECT_GE(skinny_gemm_slots(one, static_cast<int>(m), k), 1) << m << ' ' << n << ' ' << k;
  }
}

TEST(GemmPlan, TilesFitTheirArchitecture) {
  const auto fits = [](const GpuGemmTile& tile, WaveGemmOperand operand, const device::GpuArchitecture& architecture) {
    for (const bool k_major : {false, true})
      EXPECT_LE(gpu_gemm_shared_bytes(tile, k_major, k_major, operand_bytes(operand)) * tile.blocks_per_unit,
                architecture.shared_bytes)
          << architecture.processor << " " << tile.m << " x " << tile.n;
  };
  for (const device::GpuArchitecture& architecture : device::gpu_architectures()) {
    for (const WaveGemmSchedule& schedule : portable_gemm_schedules())
      if (schedule.instructions == architecture.wave_matrix) fits(schedule.tile, schedule.operand, architecture);
    for (const int64_t m : {1, 16, 17, 64, 100, 5000})
      for (const int64_t n : {1, 16, 17, 64, 100, 5000})
        for (const GpuGemmProblem& problem : problems_of_waves(m, n, 700)) {
          const GpuGemmPlan plan = plan_on(architecture.processor, problem);
          ASSERT_NE(wave_tile(plan), nullptr);
          const GpuGemmTile& tile = *wave_tile(plan);
          const WaveGemmOperand operand = wave_gemm_operand(plan.mainloop.type);
          fits(tile, operand, architecture);
          EXPECT_EQ(tile.m == 16, m <= 16) << architecture.processor << " " << m << " x " << n;
          EXPECT_EQ(tile.n == 16, m > 16 && n <= 16) << architecture.processor << " " << m << " x " << n;
          EXPECT_EQ(tile.m % tile.wave_m, 0);
          EXPECT_EQ(tile.n % tile.wave_n, 0);
          // Those of NVIDIA's compute capabilities 8.6 and 8.9, which run sm_80's kernels.
          if (architecture.processor == "sm_80" && operand != WaveGemmOperand::kHalf)
            EXPECT_LE(gpu_gemm_shared_bytes(tile, true, true, operand_bytes(operand)), 99 * 1024);
        }
  }
  for (const HopperGemmSchedule& schedule : hopper_gemm_schedules())
    for (const bool b_along_k : {false, true}) {
      HopperGemmTile tile = {schedule.m, schedule.n, 0, 1, schedule.ping_pong, b_along_k};
      tile.stages = hopper_gemm_best_stages(tile);
      EXPECT_GE(tile.stages, 3) << tile.m << " x " << tile.n;
      EXPECT_GE(hopper_gemm_boxes(tile), kHopperGemmBoxesOfPiece) << tile.m << " x " << tile.n;
      EXPECT_LE(hopper_gemm_shared_bytes(tile), kHopperGemmMostShared) << tile.m << " x " << tile.n;
      // With a fifth stage, where it is taken.
      ++tile.stages;
      if (hopper_gemm_boxes(tile) < kHopperGemmBoxesOfPiece) continue;
      EXPECT_LE(hopper_gemm_shared_bytes(tile), kHopperGemmMostShared) << tile.m << " x " << tile.n;
    }
}

// Where groups of rows end is not known: sums are not split, and as many tiles are launched as any groups can have.
TEST(GemmPlan, GroupsOfRows) {
  for (const char* processor : {"sm_80", "sm_90a", "gfx942"}) {
    GpuGemmProblem problem = problem_of(DType::kBF16, 1000, 512, 4096);
    problem.groups = GpuGemmGroups::kOfRows;
    problem.slabs = 1;
    for (const auto& [groups, rows] : {std::pair(2, 128), std::pair(100, 16)}) {
      problem.group_count = groups;
      const GpuGemmPlan plan = plan_on(processor, problem);
      EXPECT_EQ(plan.mainloop.kind, &portable_grouped_gemm_mainloop());
      EXPECT_EQ(plan.scheduler.splits, 1);
      const GpuGemmTile tile = *plan.mainloop.tile_of<GpuGemmTile>();
      // Groups of ten rows have tiles of their own.
      EXPECT_LE(tile.m, rows) << processor;
      const GpuGemmLaunch launch =
          plan.mainloop.kind->launch(problem, plan, device::gpu_target(processor).architecture());
      EXPECT_EQ(launch.run.tasks({}), ((1000 + tile.m - 1) / tile.m + groups) * ((512 + tile.n - 1) / tile.n));
      EXPECT_FALSE(launch.combine.has_value());
    }
  }
}

// None of the table stands behind others that serve all of what it would.
TEST(GemmPlan, EveryMainloopServesSomething) {
  std::vector<GpuGemmProblem> problems = problems_of_waves(kM, kN, kK);
  problems.push_back(problem_of(DType::kBF16, 16384, 8192, kK));
  problems.push_back(problem_of(DType::kBF16, 4, kN, kK));
  problems.back().b_never_changes = true;
  problems.push_back(problem_of(DType::kBF16, kM, kN, kK));
  problems.back().groups = GpuGemmGroups::kOfRows;
  problems.back().slabs = problems.back().group_count = 1;
  std::vector<const GpuGemmMainloop*> serving;
  for (const device::GpuArchitecture& architecture : device::gpu_architectures())
    for (const GpuGemmProblem& problem : problems)
      serving.push_back(plan_on(architecture.processor, problem).mainloop.kind);
  for (const GpuGemmMainloop* mainloop : gpu_gemm_mainloops())
    EXPECT_NE(std::ranges::find(serving, mainloop), serving.end()) << mainloop->header;
}

}  // namespace
}  // namespace causeway::codegen
