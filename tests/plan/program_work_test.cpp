#include "causeway/plan/program_work.h"

#include <gtest/gtest.h>

#include "causeway/graph/parser.h"

namespace causeway::plan {
namespace {

std::vector<KernelWork> work_of(const std::string& text) {
  return work_of_kernels(parse_graph(text), gpu_target("sm_90a"));
}

TEST(KernelWork, OfALoopIsWhatItReadsAndWrites) {
  const std::vector<KernelWork> work = work_of(R"(%0 = input "x" : f32[64, 4096]
%1 = cast(%0) {dtype=f8e4m3} : f8e4m3[64, 4096]
return %1
)");
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].bytes, 64 * 4096 * 5.0);
  EXPECT_EQ(work[0].flops, 0);
}

TEST(KernelWork, OfAGemmIsItsOperandsAndResult) {
  const std::vector<KernelWork> work = work_of(R"(%0 = input "x" : bf16[256, 512]
%1 = input "w" : bf16[512, 128]
%2 = dot(%0, %1) {dtype=f32} : f32[256, 128]
return %2
)");
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].bytes, 2.0 * (256 * 512 + 512 * 128) + 4.0 * 256 * 128);
  EXPECT_EQ(work[0].flops, 2.0 * 256 * 512 * 128);
  EXPECT_EQ(work[0].operand, "bf16");
}

TEST(KernelWork, OfTablesIsTheRowsThatAreTouched) {
  const std::vector<KernelWork> read = work_of(R"(%0 = input "table" : f32[100000, 64]
%1 = input "rows" : i32[16]
%2 = gather(%0, %1) {axes=[0]} : f32[16, 64]
return %2
)");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].bytes, 2 * 4.0 * 16 * 64 + 4.0 * 16);
  const std::vector<KernelWork> added = work_of(R"(%0 = input "table" : f32[100000, 64]
%1 = input "rows" : i32[16]
%2 = input "updates" : f32[16, 64]
%3 = scatter_add(%0, %1, %2) {axes=[0]} : f32[100000, 64]
return %3
)");
  ASSERT_EQ(added.size(), 1u);
  EXPECT_EQ(added[0].bytes, 3 * 4.0 * 16 * 64 + 4.0 * 16);
}

}  // namespace
}  // namespace causeway::plan
