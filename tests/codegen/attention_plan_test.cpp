// Which mainloop attention on GPUs has, with which operands read how, and what is launched of it.
#include "causeway/codegen/gpu/attention_plan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/gpu/attention_launch.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kBatch = 2, kQueryHeads = 8, kKvHeads = 2, kLength = 4096;
constexpr GpuAttentionGradients kAllGradients = {true, true, true};

// [B, T, H, D], as a projection leaves it.
GpuAttentionRows rows_of(const GpuAttentionProblem& problem, const Dim& length, int64_t heads, int64_t width) {
  GpuAttentionRows rows;
  const int64_t row = heads * width;
  rows.offset = Dim(0);
  rows.strides = {length * Dim(row), Dim(width), Dim(row)};
  rows.shape = {problem.batch, length, Dim(heads), Dim(width)};
  rows.element_bytes = problem.element_bytes();
  return rows;
}

// All operands in memory.
GpuAttentionProblem problem_of(DType dtype, int64_t head_dim, const Dim& queries = Dim(kLength),
                               int64_t value_dim = 0) {
  GpuAttentionProblem problem;
  problem.dtype = dtype;
  problem.head_dim = head_dim;
  problem.value_dim = value_dim == 0 ? head_dim : value_dim;
  problem.batch = Dim(kBatch);
  problem.query_heads = Dim(kQueryHeads);
  problem.kv_heads = Dim(kKvHeads);
  problem.query_length = queries;
  problem.key_length = Dim(kLength);
  problem.block_q = problem.block_k = 64;
  problem.rows = {rows_of(problem, queries, kQueryHeads, head_dim), rows_of(problem, Dim(kLength), kKvHeads, head_dim),
                  rows_of(problem, Dim(kLength), kKvHeads, problem.value_dim)};
  return problem;
}

GpuAttentionProblem gradient_of(DType dtype, int64_t head_dim, GpuAttentionGradients gradients = kAllGradients,
                                const Dim& queries = Dim(kLength), int64_t value_dim = 0) {
  GpuAttentionProblem problem = problem_of(dtype, head_dim, queries, value_dim);
  problem.gradients = gradients;
  problem.rows.push_back(rows_of(problem, queries, kQueryHeads, problem.value_dim));
  return problem;
}

GpuAttentionProblem computing(GpuAttentionProblem problem, size_t operand) {
  problem.rows[operand].reset();
  return problem;
}

GpuAttentionProblem in_fixed_order(GpuAttentionProblem problem) {
  problem.fixed_order = true;
  return problem;
}

GpuAttentionProblem in_blocks_of(GpuAttentionProblem problem, int64_t block) {
  problem.block_q = problem.block_k = block;
  return problem;
}

// The kernels' header and what each launch calls: "attention_hopper.h: hopper_attention_forward".
std::string mainloop(const GpuAttentionProblem& problem, const GpuArchitecture& architecture) {
  const GpuAttentionLaunch launch = launch_attention(problem, plan_attention(problem, architecture), architecture);
  std::string text(launch.include.substr(launch.include.rfind('/') + 1));
  for (const GpuAttentionLaunch::Kernel& kernel : launch.kernels) text += " " + kernel.function;
  return text;
}

constexpr char kPortable[] = "attention.h gpu_attention_forward",
               kPingPong[] = "attention_cdna.h cdna_attention_forward",
               kHopper[] = "attention_hopper.h hopper_attention_forward",
               kOneQuery[] =
                   "attention_one_query.h gpu_attention_one_query<1> gpu_attention_one_query<4> "
                   "gpu_attention_combine_parts",
               kPortableGradient[] =
                   "attention_gradient.h gpu_attention_query_gradient gpu_attention_key_gradient<true, true>",
               kPingPongGradient[] =
                   "attention_cdna_gradient.h cdna_attention_query_gradient cdna_attention_key_gradient<true, true>",
               kHopperGradient[] =
                   "attention_hopper_gradient.h hopper_attention_query_gradient "
                   "hopper_attention_key_gradient<true, true>",
               kJointGradient[] =
                   "attention_hopper_joint_gradient.h hopper_attention_begin_turns "
                   "hopper_attention_joint_gradient hopper_attention_finish_queries",
               kWideGradient[] =
                   "attention_hopper_wide_gradient.h hopper_attention_wide_query_gradient "
                   "hopper_attention_wide_key_gradient",
               kTwoKeyGradients[] =
                   "attention_gradient.h gpu_attention_query_gradient gpu_attention_key_gradient<true, false> "
                   "gpu_attention_key_gradient<false, true>";

TEST(AttentionPlan, EachProblemHasItsMainloop) {
  const struct {
    const char* what;
    const char* processor;
    GpuAttentionProblem problem;
    std::string expected;
  } cases[] = {
      {"an A100", "sm_80", problem_of(DType::kBF16, 128), kPortable},
      {"Hopper", "sm_90a", problem_of(DType::kBF16, 128), kHopper},
      {"f16", "sm_90a", problem_of(DType::kF16, 64), kHopper},
      {"computed keys", "sm_90a", computing(problem_of(DType::kBF16, 64), 1), kHopper},
      {"other heads", "sm_90a", problem_of(DType::kBF16, 96), kHopper},
      {"the widest heads", "sm_90a", problem_of(DType::kBF16, 256), kHopper},
      {"wider heads", "sm_90a", problem_of(DType::kBF16, 272), kPortable},
      {"narrower heads", "sm_90a", problem_of(DType::kBF16, 48), kPortable},
      {"heads of no whole steps along k", "sm_90a", problem_of(DType::kBF16, 72), kPortable},
      {"computed values of wide heads", "sm_90a", computing(problem_of(DType::kBF16, 256), 2), kHopper},
      {"f32", "sm_90a", problem_of(DType::kF32, 64), kPortable},
      {"a fixed order", "sm_90a", in_fixed_order(problem_of(DType::kBF16, 64)), kPortable},
      {"CDNA 2", "gfx90a", problem_of(DType::kBF16, 128), kPingPong},
      {"CDNA 3", "gfx942", problem_of(DType::kF16, 64), kPingPong},
      {"computed queries", "gfx942", computing(problem_of(DType::kBF16, 64), 0), kPingPong},
      {"computed values", "gfx942", computing(problem_of(DType::kBF16, 64), 2), kPortable},
      {"other heads", "gfx942", problem_of(DType::kBF16, 96), kPortable},
      {"f32", "gfx942", problem_of(DType::kF32, 64), kPortable},
      {"few queries", "gfx942", problem_of(DType::kBF16, 64, Dim(128)), kPortable},
      {"some more", "gfx942", problem_of(DType::kBF16, 64, Dim(129)), kPingPong},
      {"any number", "gfx942", problem_of(DType::kBF16, 64, Dim::symbol("T")), kPingPong},
      {"small blocks", "gfx942", in_blocks_of(problem_of(DType::kBF16, 64), 16), kPortable},
      {"a fixed order", "gfx942", in_fixed_order(problem_of(DType::kBF16, 64)), kPortable},
      {"decode", "sm_80", problem_of(DType::kBF16, 128, Dim(1)), kOneQuery},
      {"decode", "sm_90a", problem_of(DType::kF32, 64, Dim(1)), kOneQuery},
      {"decode", "gfx942", problem_of(DType::kBF16, 64, Dim(1)), kOneQuery},
      {"decode, rows of 12 pieces", "sm_80", problem_of(DType::kBF16, 96, Dim(1)), kPortable},
      {"decode, rows wider than a warp's pieces", "sm_80", problem_of(DType::kF32, 256, Dim(1)), kPortable},
      {"decode, computed keys", "sm_80", computing(problem_of(DType::kBF16, 64, Dim(1)), 1), kPortable},
      {"decode in a fixed order", "sm_90a", in_fixed_order(problem_of(DType::kBF16, 64, Dim(1))), kPortable},
      {"an A100", "sm_80", gradient_of(DType::kBF16, 128), kPortableGradient},
      {"wide heads", "sm_80", gradient_of(DType::kBF16, 256), kTwoKeyGradients},
      {"wide heads", "sm_90a", gradient_of(DType::kBF16, 256), kWideGradient},
      {"wide heads of f16", "sm_90a", gradient_of(DType::kF16, 256), kWideGradient},
      {"wide heads, a computed operand", "sm_90a", computing(gradient_of(DType::kBF16, 256), 3), kTwoKeyGradients},
      {"wide heads, values alone", "sm_90a", gradient_of(DType::kBF16, 256, {false, false, true}),
       "attention_gradient.h gpu_attention_key_gradient<false, true>"},
      {"wide heads in a fixed order", "sm_90a", in_fixed_order(gradient_of(DType::kBF16, 256)), kTwoKeyGradients},
      {"wide heads of f32", "sm_90a", gradient_of(DType::kF32, 256), kTwoKeyGradients},
      {"heads of 128", "sm_90a", gradient_of(DType::kBF16, 128), kJointGradient},
      {"heads of 96", "sm_90a", gradient_of(DType::kBF16, 96), kJointGradient},
      {"heads of 64", "sm_90a", gradient_of(DType::kBF16, 64), kHopperGradient},
      {"heads of 96, a computed operand", "sm_90a", computing(gradient_of(DType::kBF16, 96), 0), kHopperGradient},
      {"a computed operand", "sm_90a", computing(gradient_of(DType::kBF16, 128), 3), kHopperGradient},
      {"values alone", "sm_90a", gradient_of(DType::kBF16, 128, {false, false, true}),
       "attention_hopper_gradient.h hopper_attention_key_gradient<false, true>"},
      {"queries alone", "sm_90a", gradient_of(DType::kBF16, 128, {true, false, false}),
       "attention_hopper_gradient.h hopper_attention_query_gradient"},
      {"a fixed order", "sm_90a", in_fixed_order(gradient_of(DType::kBF16, 128)), kPortableGradient},
      {"f32", "sm_90a", gradient_of(DType::kF32, 128), kPortableGradient},
      {"CDNA 2", "gfx90a", gradient_of(DType::kBF16, 64), kPingPongGradient},
      {"one query", "gfx942", gradient_of(DType::kBF16, 64, kAllGradients, Dim(1)), kPortableGradient},
      {"a computed operand", "gfx942", computing(gradient_of(DType::kBF16, 64), 0), kPortableGradient},
      {"a fixed order", "gfx942", in_fixed_order(gradient_of(DType::kBF16, 64)), kPortableGradient},
  };
  for (const auto& [what, processor, problem, expected] : cases)
    EXPECT_EQ(mainloop(problem, gpu_architecture(processor)), expected) << what << " on " << processor;
}

// What is asked of an architecture is what a mainloop needs.
TEST(AttentionPlan, HopperKernelsNeedTmaAndWgmma) {
  const GpuAttentionProblem problem = problem_of(DType::kBF16, 128);
  for (bool GpuArchitecture::* capability : {&GpuArchitecture::has_tma, &GpuArchitecture::has_warpgroup_matrix}) {
    GpuArchitecture architecture = gpu_architecture("sm_90a");
    EXPECT_EQ(mainloop(problem, architecture), kHopper);
    architecture.*capability = false;
    EXPECT_EQ(mainloop(problem, architecture), kPortable);
    EXPECT_EQ(mainloop(gradient_of(DType::kBF16, 128), architecture), kPortableGradient);
  }
}

TEST(AttentionPlan, OperandsAreReadWhereTheyLie) {
  const GpuArchitecture& hopper = gpu_architecture("sm_90a");
  GpuAttentionProblem problem = problem_of(DType::kBF16, 64);
  GpuAttentionPlan plan = plan_attention(problem, hopper);
  EXPECT_TRUE(plan.loads_by_tma);
  EXPECT_FALSE(plan.computes_operands());
  ASSERT_NE(plan.hopper(), nullptr);
  EXPECT_EQ(plan.hopper()->groups, 3);
  problem = computing(problem, 1);
  plan = plan_attention(problem, hopper);
  EXPECT_EQ(plan.in_memory, (std::vector<bool>{true, false, true}));
  ASSERT_NE(plan.hopper(), nullptr);
  EXPECT_EQ(plan.hopper()->groups, 2);
  EXPECT_EQ(launch_attention(problem, plan, hopper).tensor_maps, 2);
  EXPECT_TRUE(plan_attention(problem, gpu_architecture("sm_80")).computes_operands());
  EXPECT_FALSE(plan_attention(problem, gpu_architecture("sm_80")).loads_by_tma);
  const GpuAttentionPlan gradient = plan_attention(computing(gradient_of(DType::kBF16, 64), 2), hopper);
  EXPECT_EQ(gradient.in_memory, (std::vector<bool>{true, true, false, true}));
  ASSERT_NE(gradient.hopper_gradient(), nullptr);
  EXPECT_EQ(gradient.hopper_gradient()->groups, 2);
}

TEST(AttentionPlan, MmaSyncRoundsToTf32) {
  GpuAttentionProblem problem = problem_of(DType::kF32, 64);
  EXPECT_FALSE(plan_attention(problem, gpu_architecture("sm_80")).rounds_to_tf32);
  problem.rounds_to_tf32 = true;
  EXPECT_TRUE(plan_attention(problem, gpu_architecture("sm_80")).rounds_to_tf32);
  EXPECT_FALSE(plan_attention(problem, gpu_architecture("gfx942")).rounds_to_tf32);
  problem = problem_of(DType::kF32, 64, Dim(1));
  problem.rounds_to_tf32 = true;
  EXPECT_FALSE(plan_attention(problem, gpu_architecture("sm_80")).rounds_to_tf32);
}

TEST(AttentionPlan, TilesSkipBlocksOfTheMapThatTheyDoNotStraddle) {
  const auto usable = [](const char* processor, const GpuAttentionProblem& problem) {
    const GpuAttentionPlan plan = plan_attention(problem, gpu_architecture(processor));
    if (const GpuAttentionTile* tile = plan.portable()) return tile->map_is_usable;
    return plan.portable_gradient()->map_is_usable;
  };
  for (const char* processor : {"sm_80", "gfx942"}) {
    EXPECT_TRUE(usable(processor, problem_of(DType::kBF16, 64)));
    EXPECT_TRUE(usable(processor, gradient_of(DType::kBF16, 64)));
    EXPECT_FALSE(usable(processor, in_blocks_of(problem_of(DType::kBF16, 64), 96)));
    EXPECT_FALSE(usable(processor, in_blocks_of(gradient_of(DType::kBF16, 64), 96)));
  }
}

TEST(AttentionPlan, PingPongHas256QueriesAndFewerWideKeys) {
  for (const int64_t head_dim : {64, 128}) {
    const GpuArchitecture& architecture = gpu_architecture("gfx942");
    const GpuAttentionPlan forward = plan_attention(problem_of(DType::kBF16, head_dim), architecture);
    ASSERT_NE(forward.portable(), nullptr);
    EXPECT_EQ(forward.portable()->queries, 256);
    const GpuAttentionPlan gradient = plan_attention(gradient_of(DType::kBF16, head_dim), architecture);
    ASSERT_NE(gradient.portable_gradient(), nullptr);
    EXPECT_EQ(gradient.portable_gradient()->queries, 256);
    EXPECT_EQ(gradient.portable_gradient()->keys, head_dim == 64 ? 256 : 128);
  }
}

TEST(AttentionPlan, AScoreTakesTheRegistersOfABlock) {
  GpuAttentionProblem problem = problem_of(DType::kBF16, 32), gradient = gradient_of(DType::kBF16, 32);
  const GpuArchitecture& architecture = gpu_architecture("sm_80");
  const auto blocks = [&] {
    return std::vector<int>{plan_attention(problem, architecture).portable()->blocks_per_unit,
                            plan_attention(gradient, architecture).portable_gradient()->blocks_per_unit,
                            plan_attention(gradient, architecture).portable_gradient()->key_blocks_per_unit};
  };
  EXPECT_EQ(blocks(), (std::vector<int>{2, 4, 3}));
  problem.has_score = gradient.has_score = true;
  EXPECT_EQ(blocks(), (std::vector<int>{1, 3, 2}));
}

TEST(AttentionPlan, OneQuerySharesItsKeysOutWhereBlocksAreFew) {
  const GpuArchitecture& architecture = gpu_architecture("sm_90a");
  GpuAttentionProblem problem = problem_of(DType::kBF16, 128, Dim(1));
  OneQueryAttentionTile tile = *plan_attention(problem, architecture).one_query();
  EXPECT_TRUE(plan_attention(problem, architecture).spreads_heads);
  EXPECT_EQ(tile, (OneQueryAttentionTile{.waves = 16, .heads = 4, .most_parts = architecture.parallel_units / 4}));
  GpuAttentionLaunch launch = launch_attention(problem, plan_attention(problem, architecture), architecture);
  ASSERT_EQ(launch.kernels.size(), 3u);
  EXPECT_TRUE(launch.kernels.front().begins_early);
  // 4,096 keys are 16 parts of at least 256, for 2 x 2 blocks.
  EXPECT_EQ(launch.kernels[0].run.tasks({}), 0);
  EXPECT_EQ(launch.kernels[1].run.tasks({}), 4 * 16);
  EXPECT_EQ(launch.kernels[2].run.tasks({}), kBatch * kQueryHeads);
  EXPECT_EQ(launch.workspace_bytes({}), kBatch * kQueryHeads * 16 * (2 + 128) * 4);
  // Many sequences: a block for each, without parts. Three query heads of a key head share a block.
  problem.batch = Dim(256);
  problem.query_heads = Dim(6);
  const GpuAttentionPlan many = plan_attention(problem, architecture);
  EXPECT_FALSE(many.spreads_heads);
  EXPECT_EQ(*many.one_query(), (OneQueryAttentionTile{.waves = 4, .heads = 3, .most_parts = 1}));
  launch = launch_attention(problem, many, architecture);
  ASSERT_EQ(launch.kernels.size(), 1u);
  EXPECT_EQ(launch.kernels.front().run.tasks({}), 256 * 2);
  EXPECT_EQ(launch.kernels.front().blocks_per_unit, 4);
  // Two for each multiprocessor have half of the threads each.
  problem.batch = Dim(132);
  const GpuAttentionPlan pairs = plan_attention(problem, architecture);
  EXPECT_EQ(*pairs.one_query(), (OneQueryAttentionTile{.waves = 8, .heads = 3, .most_parts = 1}));
  launch = launch_attention(problem, pairs, architecture);
  EXPECT_EQ(launch.kernels.front().blocks_per_unit, 2);
  EXPECT_TRUE(launch.takes_workspace);
  EXPECT_EQ(launch.workspace_bytes, nullptr);
}

TEST(AttentionPlan, TheJointGradientTakesTurns) {
  const GpuAttentionProblem problem = gradient_of(DType::kBF16, 128);
  const GpuArchitecture& architecture = gpu_architecture("sm_90a");
  const GpuAttentionLaunch launch = launch_attention(problem, plan_attention(problem, architecture), architecture);
  ASSERT_EQ(launch.kernels.size(), 3u);
  const int64_t query_tiles = kBatch * kQueryHeads * kLength / 64;
  EXPECT_EQ(launch.kernels[0].run.tasks({}), query_tiles / 128);
  EXPECT_EQ(launch.kernels[1].run.tasks({}), kBatch * kKvHeads * kLength / 128);
  EXPECT_EQ(launch.kernels[2].run.tasks({}), query_tiles);
  EXPECT_FALSE(launch.kernels[0].run.persistent);
  EXPECT_TRUE(launch.kernels[1].run.persistent);
  EXPECT_EQ(launch.tensor_maps, 4);
  EXPECT_EQ(launch.workspace_bytes({}), query_tiles * (64 * 128 + 1) * 4);
}

// Blocks have 128 queries in one launch and 64 keys in the other.
TEST(AttentionPlan, TheWideGradientHasALaunchOfQueriesAndOneOfKeys) {
  const GpuAttentionProblem problem = gradient_of(DType::kBF16, 256);
  const GpuArchitecture& architecture = gpu_architecture("sm_90a");
  const GpuAttentionLaunch launch = launch_attention(problem, plan_attention(problem, architecture), architecture);
  ASSERT_EQ(launch.kernels.size(), 2u);
  EXPECT_EQ(launch.kernels[0].run.tasks({}), kBatch * kQueryHeads * kLength / 128);
  EXPECT_EQ(launch.kernels[1].run.tasks({}), kBatch * kKvHeads * kLength / 64);
  for (const GpuAttentionLaunch::Kernel& kernel : launch.kernels) EXPECT_TRUE(kernel.run.persistent);
  EXPECT_EQ(launch.tensor_maps, 4);
  EXPECT_FALSE(launch.takes_workspace);
}

// Each direction is planned by itself: what the forward pass leaves is the same whatever computes it.
TEST(AttentionPlan, WideHeadsHaveGradientsInTwoLaunchesOrPortableTiles) {
  for (const int64_t head_dim : {144, 160, 176, 192, 208, 224, 240, 256}) {
    const GpuArchitecture& architecture = gpu_architecture("sm_90a");
    EXPECT_EQ(mainloop(problem_of(DType::kBF16, head_dim), architecture), kHopper);
    const GpuAttentionPlan gradient = plan_attention(gradient_of(DType::kBF16, head_dim), architecture);
    ASSERT_NE(gradient.hopper_gradient(), nullptr) << head_dim;
    EXPECT_TRUE(gradient.hopper_gradient()->wide());
    EXPECT_TRUE(gradient.loads_by_tma);
    EXPECT_NE(
        plan_attention(gradient_of(DType::kBF16, head_dim, {true, true, false}), architecture).portable_gradient(),
        nullptr);
  }
}

// Values of another width: the first row of the table that has both.
TEST(AttentionPlan, ValuesOfAnotherWidthHaveTheMainloopsOfTheWiderOne) {
  const GpuArchitecture& hopper = gpu_architecture("sm_90a");
  const Dim length(kLength);
  EXPECT_EQ(mainloop(problem_of(DType::kBF16, 192, length, 128), hopper), kHopper);
  EXPECT_EQ(mainloop(gradient_of(DType::kBF16, 192, kAllGradients, length, 128), hopper), kWideGradient);
  EXPECT_EQ(mainloop(gradient_of(DType::kBF16, 64, kAllGradients, length, 144), hopper), kWideGradient);
  EXPECT_EQ(mainloop(gradient_of(DType::kBF16, 96, kAllGradients, length, 64), hopper), kJointGradient);
  EXPECT_EQ(mainloop(problem_of(DType::kBF16, 128, length, 72), hopper), kPortable);
  EXPECT_EQ(mainloop(problem_of(DType::kBF16, 128, Dim(1), 64), hopper), kHopper);
  EXPECT_EQ(mainloop(problem_of(DType::kBF16, 128, length, 64), gpu_architecture("gfx942")), kPortable);
  const GpuAttentionPlan latent = plan_attention(problem_of(DType::kBF16, 192, length, 128), hopper);
  const GpuAttentionPlan same = plan_attention(problem_of(DType::kBF16, 192), hopper);
  EXPECT_EQ(latent.hopper()->groups, 3);
  EXPECT_EQ(same.hopper()->groups, 2);
}

TEST(AttentionPlan, WideHeadsHaveAsManyKeysAsRegistersAllow) {
  const GpuArchitecture& architecture = gpu_architecture("sm_90a");
  GpuAttentionProblem problem = problem_of(DType::kBF16, 256);
  const GpuAttentionPlan plan = plan_attention(problem, architecture);
  ASSERT_NE(plan.hopper(), nullptr);
  EXPECT_EQ(plan.hopper()->keys, 80);
  // Of keys and of values; queries are in whole boxes of 64.
  EXPECT_EQ(plan.box_lines(0), 64);
  EXPECT_EQ(plan.box_lines(1), 80);
  EXPECT_EQ(plan.box_lines(2), 80);
  problem.has_score = true;
  EXPECT_EQ(plan_attention(problem, architecture).hopper()->keys, 64);
  EXPECT_EQ(plan_attention(problem, architecture).box_lines(1), 64);
  problem = problem_of(DType::kBF16, 128);
  EXPECT_EQ(plan_attention(problem, architecture).box_lines(1), 64);
}

TEST(AttentionPlan, HeadsThatDoNotFitAreRefusedByName) {
  for (const GpuAttentionProblem& problem : {problem_of(DType::kF32, 2048), gradient_of(DType::kF32, 2048)}) {
    try {
      plan_attention(problem, gpu_architecture("gfx90a"));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kResource);
      EXPECT_NE(error.message().find("heads of 2048 elements of 4 bytes"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find("gfx90a"), std::string::npos) << error.message();
    }
  }
}

TEST(AttentionPlan, TilesAreWrittenByName) {
  EXPECT_EQ(
      attention_tile_text(plan_attention(problem_of(DType::kBF16, 64), gpu_architecture("sm_90a"))),
      "static constexpr HopperAttentionTile kTile = {.groups = 3, .keys = 128, .stages = 5, .query_stages = 2};\n");
}

}  // namespace
}  // namespace causeway::codegen
