#include "causeway/device/target.h"

#include <gtest/gtest.h>

#include <thread>

#include "causeway/device/cpu/host_target.h"

namespace causeway::device {
namespace {

TEST(Target, TextNamesEverythingAndOrderDoesNotMatter) {
  Target first{Target::Family::kX86, "x86-64-v4", {}, 64};
  first.add_feature("gfni");
  first.add_feature("avx512bf16");
  first.add_feature("gfni");
  Target second{Target::Family::kX86, "x86-64-v4", {}, 64};
  second.add_feature("avx512bf16");
  second.add_feature("gfni");
  EXPECT_EQ(first.text(), "x86:x86-64-v4:avx512bf16,gfni:64");
  EXPECT_EQ(first, second);
  second.vector_bytes = 32;
  EXPECT_NE(first.text(), second.text());
}

TEST(Target, PredicatesFollowTheLevel) {
  Target target{Target::Family::kX86, "x86-64-v3", {"amx-bf16", "avx512bf16"}, 32};
  EXPECT_TRUE(target.has_avx2());
  EXPECT_FALSE(target.has_avx512());
  EXPECT_FALSE(target.has_avx512_bf16());
  target.processor = "x86-64-v4";
  EXPECT_TRUE(target.has_avx512_bf16());
  EXPECT_TRUE(target.has_amx_bf16());
  target.features = {};
  EXPECT_FALSE(target.has_avx512_bf16());
  target.family = Target::Family::kEmulator;
  EXPECT_FALSE(target.has_avx512());
}

// The compiler's own detection agrees on what both know.
TEST(HostTarget, AgreesWithTheCompilersDetection) {
  const Target& target = host_target();
  EXPECT_EQ(target.family, Target::Family::kX86);
  EXPECT_EQ(target.has_avx2(),
            __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"));
  EXPECT_EQ(target.has_avx512(), __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"));
  EXPECT_EQ(target.has_avx512_bf16(), target.has_avx512() && __builtin_cpu_supports("avx512bf16"));
  EXPECT_EQ(target.vector_bytes, target.has_avx512() ? 64 : target.has_avx2() ? 32 : 16);
  EXPECT_FALSE(host_processor_name().empty());
}

}  // namespace
}  // namespace causeway::device
