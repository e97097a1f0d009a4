// Which mainloop, scheduler and epilogue GEMMs on GPUs have.
#include "causeway/codegen/gpu/gemm_plan.h"

#include <gtest/gtest.h>

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

GpuGemmPlan plan_on(const char* processor, const GpuGemmProblem& problem) {
  const std::optional<GpuGemmPlan> plan = plan_gemm(problem, device::gpu_architecture(processor));
  EXPECT_TRUE(plan.has_value());
  return plan.value_or(GpuGemmPlan{});
}

TEST(GemmPlan, EachArchitectureHasItsMainloop) {
  const GpuGemmProblem problem = problem_of(DType::kBF16, kM, kN, kK);
  const GpuGemmPlan hopper = plan_on("sm_90a", problem);
  ASSERT_NE(hopper.mainloop.hopper(), nullptr);
  EXPECT_TRUE(hopper.scheduler.persistent);
  EXPECT_TRUE(hopper.epilogue.stores_by_tma);
  for (const char* processor : {"sm_80", "gfx90a", "gfx942"}) {
    const GpuGemmPlan plan = plan_on(processor, problem);
    ASSERT_NE(plan.mainloop.portable(), nullptr) << processor;
    EXPECT_FALSE(plan.scheduler.persistent);
    EXPECT_FALSE(plan.epilogue.stores_by_tma);
    EXPECT_EQ(plan.epilogue.store_lanes, 8);
  }
}

TEST(GemmPlan, WhatTmaDoesNotTakeIsPortable) {
  GpuGemmProblem unaligned = problem_of(DType::kBF16, kM, kN, kK);
  unaligned.a.aligned = false;
  EXPECT_NE(plan_on("sm_90a", unaligned).mainloop.portable(), nullptr);
  GpuGemmProblem floats = problem_of(DType::kF32, kM, kN, kK);
  EXPECT_NE(plan_on("sm_90a", floats).mainloop.portable(), nullptr);
  floats.rounds_to_tf32 = true;
  EXPECT_NE(plan_on("sm_90a", floats).mainloop.hopper(), nullptr);
  floats.b.contiguous_in_k = false;
  const GpuGemmPlan across = plan_on("sm_90a", floats);
  EXPECT_NE(across.mainloop.portable(), nullptr);
  EXPECT_EQ(across.mainloop.type, GpuGemmType::kTf32);
  EXPECT_EQ(plan_on("gfx90a", floats).mainloop.type, GpuGemmType::kF32);
}

TEST(GemmPlan, AFixedOrderHasOneMainloop) {
  GpuGemmProblem problem = problem_of(DType::kBF16, kM, kN, kK);
  problem.fixed_order = true;
  const GpuGemmPlan plan = plan_on("sm_90a", problem);
  ASSERT_NE(plan.mainloop.portable(), nullptr);
  GpuGemmProblem few = problem_of(DType::kBF16, 4, kN, kK);
  few.fixed_order = few.b_never_changes = true;
  const GpuGemmPlan skinny = plan_on("sm_90a", few);
  ASSERT_NE(skinny.mainloop.portable(), nullptr);
  EXPECT_EQ(*skinny.mainloop.portable(), *plan.mainloop.portable());
}

TEST(GemmPlan, FewRowsOfWeightsAreStreamed) {
  GpuGemmProblem problem = problem_of(DType::kBF16, 4, kN, kK);
  EXPECT_NE(plan_on("sm_80", problem).mainloop.portable(), nullptr);
  problem.b_never_changes = true;
  EXPECT_NE(plan_on("sm_80", problem).mainloop.skinny(), nullptr);
  EXPECT_NE(plan_on("gfx942", problem).mainloop.portable(), nullptr);
  problem.threads_of_rows = 128;
  EXPECT_EQ(plan_on("sm_90a", problem).mainloop.skinny()->waves, 4);
}

TEST(GemmPlan, OperandsOf8BitsAreMultipliedInPairs) {
  GpuGemmProblem problem = problem_of(DType::kF8E4M3, kM, kN, kK);
  problem.epilogue = {{DType::kBF16}, {DType::kBF16}, {}};
  for (const char* processor : {"sm_90a", "gfx942"}) {
    const GpuGemmMainloop mainloop = plan_on(processor, problem).mainloop;
    EXPECT_EQ(mainloop.type, GpuGemmType::kF8Pair);
    EXPECT_TRUE(mainloop.k.is_constant(kK / 2));
    EXPECT_TRUE(mainloop.a.stride.is_constant(kK / 2));
  }
  EXPECT_EQ(plan_on("sm_80", problem).mainloop.type, GpuGemmType::kBF16);
  problem.scales = GpuGemmScales::kOfBlocks;
  EXPECT_NE(plan_on("sm_90a", problem).mainloop.hopper(), nullptr);
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
  problem.epilogue = {{DType::kBF16}, {}, {}};
  expect(false, "what is not computed in float");
  problem = problem_of(DType::kBF16, 8192, 8196, 1024);
  expect(false, "rows of 8 bytes more");
}

TEST(GemmPlan, SwappedOperandsAreThoseOfTheTransposes) {
  const GpuGemmPlan plan = plan_on("sm_90a", problem_of(DType::kBF16, 1440, 1024, 3072));
  ASSERT_TRUE(plan.mainloop.swaps_operands());
  EXPECT_TRUE(plan.mainloop.a.lines.is_constant(1024));
  EXPECT_TRUE(plan.mainloop.b.lines.is_constant(1440));
}

}  // namespace
}  // namespace causeway::codegen
