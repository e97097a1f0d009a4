// Which rules of fusion a target gets, and that fuse() goes by them.
#include "causeway/program/fusion_rules.h"

#include <gtest/gtest.h>

#include "causeway/program/fusion.h"
#include "tests/program/fusion_graphs.h"

namespace causeway::program {
namespace {

TEST(FusionRules, OfAnEmulatedGpuAreThoseOfTheGpu) {
  for (const GpuArchitecture& architecture : gpu_architectures()) {
    const FusionRules rules = fusion_rules(gpu_target(architecture.processor), false);
    const FusionRules emulated = fusion_rules(gpu_target(architecture.processor, true), false);
    EXPECT_EQ(rules.cheap_epilogue, emulated.cheap_epilogue);
    EXPECT_EQ(rules.shares_launches, emulated.shares_launches);
  }
}

TEST(FusionRules, AFixedOrderLeavesKernelsApart) {
  const FusionRules rules = fusion_rules(gpu_target("sm_90a"), true);
  EXPECT_FALSE(rules.joins_column_sums);
  EXPECT_FALSE(rules.shares_launches);
}

TEST(FusionRules, OfProcessorsPayForArithmetic) {
  const FusionRules rules = fusion_rules(Target(), false), gpu = fusion_rules(gpu_target("sm_80"), false);
  EXPECT_LT(rules.cheap_to_repeat, gpu.cheap_to_repeat);
  EXPECT_GT(rules.cheap_epilogue, gpu.cheap_epilogue);
  EXPECT_TRUE(rules.packs_operands);
  EXPECT_FALSE(gpu.packs_operands);
}

// A graph on which every part of fusion has something to do: a column sum beside a loop over rows, a norm before a
// skinny GEMM, two small loops that are alike.
TEST(Fusion, ComposesItsParts) {
  const Graph graph = parse_graph(R"(%0 = input "x" : f32[640, 64]
%1 = reduce_sum(%0) {axes=[1]} : f32[640]
%2 = reduce_sum(%0) {axes=[0]} : f32[64]
%3 = input "row" : bf16[1, 320]
%4 = input "w" : bf16[320, 320]
%5 = reduce_sum(%3) {axes=[1]} : bf16[1]
%6 = broadcast(%5) {axes=[0]} : bf16[1, 320]
%7 = sub(%3, %6) : bf16[1, 320]
%8 = dot(%7, %4) {transpose_b} : f32[1, 320]
%9 = input "a" : f32[40]
%10 = input "b" : f32[40]
%11 = neg(%9) : f32[40]
%12 = neg(%10) : f32[40]
return %1, %2, %8, %11, %12
)");
  const auto text = [&](const Target& target, bool fixed_order = false) {
    std::string kernels;
    for (const KernelRequest& request : fuse(graph, target, fixed_order).kernels) {
      kernels += fmt::format("{}{}{}", kernels.empty() ? "" : ", ", kernel_kind_name(request.kind),
                             members_text(request.members));
      if (!request.row_members.empty()) kernels += " with rows" + members_text(request.row_members);
      for (const std::vector<Value>& members : request.alike) kernels += " beside" + members_text(members);
      EXPECT_EQ(request.fixed_order, fixed_order);
    }
    return kernels;
  };
  EXPECT_EQ(text(gpu_target("sm_80")), "loop 1 2, dot 8 with rows 5 7, loop 11 beside 12");
  EXPECT_EQ(text(gpu_target("sm_80"), true), "loop 1, column_reduce 2, loop 5 7, dot 8, loop 11, loop 12");
  EXPECT_EQ(text(Target()), "loop 1, column_reduce 2, loop 5 7, dot 8, loop 11, loop 12");
}

}  // namespace
}  // namespace causeway::program
