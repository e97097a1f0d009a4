// The tables of attention's schedules: every row fits the architectures it is for, every request finds one, and what
// the host takes for shared memory is what the kernels' own structures come to.
#include "causeway/codegen/gpu/schedules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/gpu/attention_launch.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"

namespace causeway::codegen {
namespace {

// Operands in memory have other tiles than computed ones: on Hopper, and where waves ping-pong on CDNA.
TEST(Schedules, EveryHeadFindsTilesThatFit) {
  std::set<std::string_view> includes;
  for (const GpuArchitecture& architecture : gpu_architectures())
    for (const DType dtype : {DType::kBF16, DType::kF32})
      for (const int64_t head_dim : {1, 16, 64, 65, 96, 128, 192, 256})
        for (const bool has_score : {false, true})
          for (const bool fixed_order : {false, true})
            for (const auto& [backward, in_memory] :
                 {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
              if (dtype == DType::kF32 && head_dim > 128) continue;  // more than AMD's 64 KiB hold: refused by name
              GpuAttentionProblem problem;
              problem.dtype = dtype;
              problem.head_dim = problem.value_dim = head_dim;
              problem.batch = problem.query_heads = problem.kv_heads = Dim(1);
              problem.query_length = problem.key_length = Dim(4096);
              problem.block_q = problem.block_k = 64;
              problem.has_score = has_score;
              problem.fixed_order = fixed_order;
              problem.rows.resize(backward ? 4 : 3);
              if (in_memory)
                for (std::optional<GpuAttentionRows>& rows : problem.rows) rows.emplace();
              if (backward) problem.gradients = {true, true, true};
              const GpuAttentionPlan plan = plan_attention(problem, architecture);
              EXPECT_EQ(plan.computes_operands(), !in_memory);
              const GpuAttentionLaunch launch = launch_attention(problem, plan, architecture);
              includes.insert(launch.include.substr(launch.include.rfind('/') + 1));
              for (const GpuAttentionLaunch::Kernel& kernel : launch.kernels)
                EXPECT_LE(kernel.run.shared_bytes * kernel.blocks_per_unit, architecture.shared_bytes)
                    << architecture.processor << ", heads of " << head_dim << ", " << kernel.run.function;
            }
  EXPECT_THAT(includes,
              testing::ElementsAre("attention.h", "attention_cdna.h", "attention_cdna_gradient.h",
                                   "attention_gradient.h", "attention_hopper.h", "attention_hopper_gradient.h",
                                   "attention_hopper_joint_gradient.h", "attention_hopper_wide_gradient.h"));
}

// Kernel text that does not compile when the kernels' structures differ from the layout.
TEST(Schedules, SharedMemoryOfAttentionIsWhatKernelsDeclare) {
  std::string text =
      "#include \"causeway/kernels/attention_block_map.h\"\n#include \"causeway/kernels/gpu/attention_hopper.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_gradient.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_joint_gradient.h\"\n"
      "#include \"causeway/kernels/gpu/attention_hopper_wide_gradient.h\"\n";
  int problems = 0;
  const auto expect = [&](const char* structure, int64_t head_dim, int64_t value_dim, const auto& tile, int bytes) {
    EXPECT_LE(bytes, gpu_architecture("sm_90a").shared_bytes);
    GpuAttentionPlan plan;
    plan.tile = tile;
    text += fmt::format(
        "struct Problem{0} {{\nusing Operand = bf16;\nstatic constexpr int kHeadDim = {1};\n"
        "static constexpr int kValueDim = {2};\n{3}}};\n"
        "static_assert(sizeof(attention_hopper::{4}<Problem{0}>) == {5});\n",
        problems++, head_dim, value_dim, attention_tile_text(plan), structure, bytes);
  };
  for (const HopperAttentionSchedule& schedule : hopper_attention_schedules()) {
    // The widest heads and the narrowest, whose columns are not whole boxes.
    const int64_t widest = schedule.most_head_dim, widest_value = schedule.most_value_dim;
    for (const auto& [head_dim, value_dim] :
         {std::pair(widest, widest_value),
          {std::max<int64_t>(64, widest - 48), std::max<int64_t>(64, widest_value - 48)}}) {
      for (const HopperAttentionTile& tile :
           {schedule.forward, schedule.forward_with_score, schedule.forward_computing})
        expect("ForwardShared", head_dim, value_dim, tile, hopper_attention_shared_bytes(head_dim, value_dim, tile));
      for (const auto& tile : {schedule.gradient, schedule.gradient_computing})
        if (tile)
          expect("GradientShared", head_dim, value_dim, *tile,
                 hopper_attention_gradient_shared_bytes(head_dim, value_dim, *tile));
      if (const auto& tile = schedule.all_gradients)
        expect(tile->wide() ? "WideGradientShared" : "JointGradientShared", head_dim, value_dim, *tile,
               hopper_attention_gradient_shared_bytes(head_dim, value_dim, *tile));
      if (const auto& tile = schedule.all_gradients; tile && tile->wide())
        expect("WideQueryShared", head_dim, value_dim, hopper_attention_wide_queries(*tile),
               hopper_attention_wide_queries_shared_bytes(head_dim, value_dim, *tile));
    }
  }
  EXPECT_EQ(problems, 74);
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
