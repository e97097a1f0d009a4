// The tables of schedules: every row fits the architectures it is for, every request finds one, and what the host takes
// for the shared memory of attention is what the kernels' own structures come to.
#include "causeway/codegen/gpu/schedules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/gpu/attention_geometry.h"
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
    for (const int operand_bytes : {2, 4})
      for (const int64_t head_dim : {1, 16, 64, 65, 96, 128, 192, 256})
        for (const bool has_score : {false, true}) {
          if (operand_bytes == 4 && head_dim > 128) continue;  // more than AMD's 64 KiB hold: refused by name
          const GpuAttentionRequest request = {head_dim, operand_bytes, 64, 64, has_score, false};
          const GpuAttentionTiles forward = gpu_attention_forward_tiles(request, architecture);
          EXPECT_LE(forward.shared_bytes * forward.blocks_per_unit, architecture.shared_bytes)
              << architecture.processor << ", heads of " << head_dim;
          const GpuAttentionTiles backward = gpu_attention_backward_tiles(request, architecture);
          EXPECT_LE(backward.shared_bytes * std::max(backward.blocks_per_unit, backward.key_blocks_per_unit),
                    architecture.shared_bytes)
              << architecture.processor << ", heads of " << head_dim;
          if (const auto tiles = hopper_attention_forward_tiles(request, architecture))
            EXPECT_LE(tiles->shared_bytes, architecture.shared_bytes);
          if (const auto tiles = hopper_attention_gradient_tiles(request, architecture))
            EXPECT_LE(tiles->shared_bytes, architecture.shared_bytes);
          if (const auto tiles = hopper_attention_joint_tiles(request, architecture))
            EXPECT_LE(tiles->shared_bytes, architecture.shared_bytes);
        }
}

TEST(Schedules, CdnaPingPongsOverTheHeadsOfLongSequences) {
  for (const char* processor : {"gfx90a", "gfx942"})
    for (const int64_t head_dim : {64, 128}) {
      const GpuArchitecture& architecture = gpu_architecture(processor);
      GpuAttentionRequest request = {.head_dim = head_dim, .has_key_rows = true, .has_rows = true};
      const GpuAttentionTiles tiles = gpu_attention_forward_tiles(request, architecture);
      EXPECT_TRUE(tiles.ping_pong);
      EXPECT_EQ(tiles.query_tile, 256);
      EXPECT_TRUE(tiles.map_is_usable);
      EXPECT_LE(tiles.shared_bytes, architecture.shared_bytes);
      const GpuAttentionTiles backward = gpu_attention_backward_tiles(request, architecture);
      EXPECT_TRUE(backward.ping_pong);
      EXPECT_EQ(backward.key_lines, head_dim == 64 ? 256 : 128);
      EXPECT_TRUE(backward.map_is_usable);
      EXPECT_LE(backward.shared_bytes, architecture.shared_bytes);
      request.queries = 100;
      EXPECT_FALSE(gpu_attention_forward_tiles(request, architecture).ping_pong);
      EXPECT_FALSE(gpu_attention_backward_tiles(request, architecture).ping_pong);
      EXPECT_FALSE(gpu_attention_forward_tiles({.head_dim = head_dim}, architecture).ping_pong);
      EXPECT_FALSE(gpu_attention_forward_tiles({.head_dim = 96, .has_key_rows = true}, architecture).ping_pong);
    }
}

// Kernel text that does not compile when the kernels' structures differ from the layout.
TEST(Schedules, SharedMemoryOfAttentionIsWhatKernelsDeclare) {
  std::string text =
      "#include \"causeway/kernels/attention_block_map.h\"\n#include \"causeway/kernels/gpu/attention_hopper.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_gradient.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_joint_gradient.h\"\n"
      "#include \"causeway/kernels/gpu/attention_tile_layout.h\"\n"
      "template <int dim, int groups, int key_tile, int stages, int gradient_stages> struct Problem {\n"
      "using Operand = bf16;\n"
      "static constexpr int kHeadDim = dim, kGroups = groups, kQueryStages = 2, kQueryTile = 64 * groups, kKeyTile = "
      "key_tile;\nstatic constexpr int kStages = stages, kGradientStages = gradient_stages, kGradientTile = 64;\n"
      "static constexpr int kOwnStages = stages;\n};\n";
  for (const HopperAttentionSchedule& schedule : hopper_attention_schedules()) {
    for (const HopperAttentionForward& forward : {schedule.forward, schedule.forward_computing}) {
      const std::string problem = fmt::format("Problem<{}, {}, {}, {}, 1>", schedule.head_dim, forward.groups,
                                              forward.key_tile, forward.stages);
      text += fmt::format(
          "static_assert(sizeof(attention_hopper::ForwardShared<{}>) == {});\n", problem,
          hopper_attention_shared_bytes(schedule.head_dim, forward.groups, 2, forward.key_tile, forward.stages));
    }
    for (const int groups : {schedule.gradient_groups, schedule.gradient_groups_computing}) {
      const std::string problem =
          fmt::format("Problem<{}, {}, 128, 2, {}>", schedule.head_dim, groups, schedule.gradient_stages);
      text +=
          fmt::format("static_assert(sizeof(attention_hopper::GradientShared<{}>) == {});\n", problem,
                      hopper_attention_gradient_shared_bytes(schedule.head_dim, groups, 64, schedule.gradient_stages));
    }
  }
  const auto joint = hopper_attention_joint_tiles({.head_dim = 128}, gpu_architecture("sm_90a"));
  ASSERT_TRUE(joint.has_value());
  text +=
      fmt::format("static_assert(sizeof(attention_hopper::JointGradientShared<Problem<128, 2, 128, {}, {}>>) == {});\n",
                  joint->own_stages, joint->stages, joint->shared_bytes);
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
