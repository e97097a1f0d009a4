// The tables of schedules: every row fits the architectures it is for, every request finds one, and what the host takes
// for the shared memory of attention is what the kernels' own structures come to.
#include "causeway/codegen/gpu/schedules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/gpu/attention_launch.h"
#include "causeway/codegen/gpu/gemm_geometry.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"

namespace causeway::codegen {
namespace {

TEST(Schedules, TilesOfGemmsFitSharedMemory) {
  for (const GpuArchitecture& architecture : gpu_architectures())
    for (const GemmSchedule& schedule : gemm_schedules())
      for (const bool k_major : {false, true})
        if (schedule.instructions == architecture.wave_matrix)
          EXPECT_LE(gpu_gemm_shared_bytes(schedule.tile, k_major, k_major, operand_bytes(schedule.operand)) *
                        schedule.tile.blocks_per_unit,
                    architecture.shared_bytes)
              << architecture.processor << " " << schedule.tile.m << " x " << schedule.tile.n;
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

TEST(Schedules, EveryGemmFindsOne) {
  for (const GpuArchitecture& architecture : gpu_architectures())
    for (const GemmOperand operand : {GemmOperand::kHalf, GemmOperand::kTf32, GemmOperand::kFloat}) {
      EXPECT_GT(gemm_multiply_adds(architecture, operand), 0);
      for (const int64_t m : {1, 16, 17, 4096})
        for (const int64_t n : {1, 16, 17, 4096}) {
          const GpuGemmTile tile = choose_gpu_gemm(architecture, operand, 1, m, n, 512).tile;
          EXPECT_EQ(tile.m == 16, m <= 16) << architecture.processor << " " << m << " x " << n;
          EXPECT_EQ(tile.n == 16, m > 16 && n <= 16) << architecture.processor << " " << m << " x " << n;
        }
    }
}

TEST(Schedules, EveryHeadFindsTilesThatFit) {
  for (const GpuArchitecture& architecture : gpu_architectures())
    for (const DType dtype : {DType::kBF16, DType::kF32})
      for (const int64_t head_dim : {1, 16, 64, 65, 96, 128, 192, 256})
        for (const bool has_score : {false, true})
          for (const bool fixed_order : {false, true})
            for (const bool backward : {false, true}) {
              if (dtype == DType::kF32 && head_dim > 128) continue;  // more than AMD's 64 KiB hold: refused by name
              GpuAttentionProblem problem;
              problem.dtype = dtype;
              problem.head_dim = head_dim;
              problem.batch = problem.query_heads = problem.kv_heads = Dim(1);
              problem.query_length = problem.key_length = Dim(4096);
              problem.block_q = problem.block_k = 64;
              problem.has_score = has_score;
              problem.fixed_order = fixed_order;
              problem.rows.resize(backward ? 4 : 3);
              if (backward) problem.gradients = {true, true, true};
              const GpuAttentionPlan plan = plan_attention(problem, architecture);
              EXPECT_TRUE(plan.computes_operands());
              for (const GpuAttentionLaunch::Kernel& kernel : launch_attention(problem, plan, architecture).kernels)
                EXPECT_LE(kernel.run.shared_bytes * kernel.blocks_per_unit, architecture.shared_bytes)
                    << architecture.processor << ", heads of " << head_dim << ", " << kernel.run.function;
            }
}

// Kernel text that does not compile when the kernels' structures differ from the layout.
TEST(Schedules, SharedMemoryOfAttentionIsWhatKernelsDeclare) {
  std::string text =
      "#include \"causeway/kernels/attention_block_map.h\"\n#include \"causeway/kernels/gpu/attention_hopper.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_gradient.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_joint_gradient.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_wide_gradient.h\"\n";
  int problems = 0;
  const auto expect = [&](const char* structure, int64_t head_dim, const auto& tile, int bytes) {
    EXPECT_LE(bytes, gpu_architecture("sm_90a").shared_bytes);
    GpuAttentionPlan plan;
    plan.tile = tile;
    text += fmt::format(
        "struct Problem{0} {{\nusing Operand = bf16;\nstatic constexpr int kHeadDim = {1};\n{2}}};\n"
        "static_assert(sizeof(attention_hopper::{3}<Problem{0}>) == {4});\n",
        problems++, head_dim, attention_tile_text(plan), structure, bytes);
  };
  for (const HopperAttentionSchedule& schedule : hopper_attention_schedules()) {
    // The widest heads and the narrowest, whose columns are not whole boxes.
    const int64_t widest = schedule.most_head_dim, narrowest = std::max<int64_t>(64, widest - 48);
    for (const int64_t head_dim : {widest, narrowest}) {
      for (const HopperAttentionTile& tile :
           {schedule.forward, schedule.forward_with_score, schedule.forward_computing})
        expect("ForwardShared", head_dim, tile, hopper_attention_shared_bytes(head_dim, tile));
      for (const auto& tile : {schedule.gradient, schedule.gradient_computing})
        if (tile) expect("GradientShared", head_dim, *tile, hopper_attention_gradient_shared_bytes(head_dim, *tile));
      if (const auto& joint = schedule.joint_gradient)
        expect(joint->wide ? "WideGradientShared" : "JointGradientShared", head_dim, *joint,
               hopper_attention_gradient_shared_bytes(head_dim, *joint));
      if (const auto& tile = schedule.joint_gradient; tile && tile->wide)
        expect("WideQueryShared", head_dim, hopper_attention_wide_queries(*tile),
               hopper_attention_wide_queries_shared_bytes(head_dim, *tile));
    }
  }
  EXPECT_EQ(problems, 64);
  EXPECT_NO_THROW(compile_module(text + "CAUSEWAY_KERNEL(kernel, 32, 1, 0, 0, 0) {}\n", gpu_target("sm_90a")));

  const std::string portable =
      "#include \"causeway/kernels/gpu/attention_tile.h\"\n#include \"causeway/kernels/gpu/attention_tile_layout.h\"\n"
      "template <class T, int dim> constexpr bool same = attention_tile::row_stride<T>(dim) * sizeof(T) == "
      "gpu_attention_row_bytes(dim, sizeof(T));\n"
      "static_assert(same<bf16, 64> && same<float, 64> && same<f16, 128> && same<float, 256>);\n"
      "CAUSEWAY_KERNEL(kernel, 64, 1, 0, 0, 0) {}\n";
  for (const char* processor : {"sm_80", "gfx942"}) EXPECT_NO_THROW(compile_module(portable, gpu_target(processor)));
}

}  // namespace
}  // namespace causeway::codegen
