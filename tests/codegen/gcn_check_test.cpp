// The static check of AMD machine code: faults written by hand, one of each kind, beside the same code as it should be.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/compile/compiler.h"

namespace causeway::codegen {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A kernel of each text of instructions: planted0, planted1 and so on.
std::string image_of(const std::vector<std::string>& assembly, const std::string& processor) {
  std::string source;
  for (size_t i = 0; i < assembly.size(); ++i)
    source += fmt::format(
        "extern \"C\" __attribute__((amdgpu_kernel, annotate(\"causeway_launch_bounds 64 1\"))) void planted{}() {{\n"
        "asm volatile(R\"({})\");\n}}\n",
        i, assembly[i]);
  return compile_module(source, gpu_target(processor));
}

using Texts = std::vector<std::string>;

// Of each, as finding_text() writes them.
std::vector<Texts> findings_of_each(const std::vector<std::string>& assembly, const std::string& processor) {
  const Target target = gpu_target(processor);
  const auto checks = check_code(image_of(assembly, processor), target);
  std::vector<Texts> texts(assembly.size());
  EXPECT_TRUE(checks.has_value());
  EXPECT_EQ(checks->size(), assembly.size());
  for (const FunctionCheck& check : *checks)
    for (const CodeFinding& finding : check.findings)
      texts.at(std::stoul(check.function.substr(std::string("planted").size())))
          .push_back(finding_text(finding, target));
  return texts;
}

Texts findings(const std::string& assembly) { return findings_of_each({assembly}, "gfx942")[0]; }

TEST(GcnCheck, CountsWhatItLooksAt) {
  const auto checks = check_code(image_of({"s_nop 0\ns_barrier\ns_barrier"}, "gfx942"), gpu_target("gfx942"));
  ASSERT_TRUE(checks.has_value());
  ASSERT_EQ(checks->size(), 1u);
  EXPECT_EQ(checks->at(0).function, "planted0");
  EXPECT_EQ(checks->at(0).instructions, 4);  // and s_endpgm
  EXPECT_EQ(checks->at(0).barriers, 2);
  EXPECT_FALSE(check_code("", Target{}).has_value());
}

TEST(GcnCheck, ABarrierWaitsForLds) {
  EXPECT_THAT(findings("ds_write_b32 v0, v1\ns_barrier"),
              ElementsAre("+0x8 s_barrier: a write of LDS is under way: ds_write_b32 v0, v1 at +0x0"));
  EXPECT_THAT(findings("ds_add_u32 v0, v1\nds_write_b32 v0, v1\ns_waitcnt vmcnt(0)\ns_barrier"),
              ElementsAre(HasSubstr("ds_add_u32 v0, v1 at +0x0, and 1 more")));
  EXPECT_THAT(findings("ds_read_b32 v2, v0\ns_barrier"), ElementsAre(HasSubstr("a read of LDS is under way")));
  EXPECT_THAT(findings("flat_store_dword v[0:1], v2\ns_waitcnt vmcnt(0)\ns_barrier"),
              ElementsAre(HasSubstr("flat_store_dword")));
  EXPECT_THAT(findings("s_mov_b32 m0, 0\ns_nop 0\nglobal_load_lds_dword v[0:1], off\ns_waitcnt lgkmcnt(0)\ns_barrier"),
              ElementsAre(HasSubstr("global_load_lds_dword")));

  EXPECT_THAT(findings("ds_write_b32 v0, v1\ns_waitcnt lgkmcnt(0)\ns_barrier"), IsEmpty());
  EXPECT_THAT(findings("s_mov_b32 m0, 0\ns_nop 0\nglobal_load_lds_dword v[0:1], off\ns_waitcnt vmcnt(0)\ns_barrier"),
              IsEmpty());
  EXPECT_THAT(findings("global_store_dword v[0:1], v2, off\ns_barrier"), IsEmpty());
  EXPECT_THAT(findings("ds_bpermute_b32 v2, v0, v1\ns_barrier\ns_waitcnt lgkmcnt(0)"), IsEmpty());
  // The write has ended when at most the read after it has not.
  EXPECT_THAT(findings("ds_write_b32 v0, v1\nds_read_b32 v2, v0\ns_waitcnt lgkmcnt(1)\ns_barrier"),
              ElementsAre(HasSubstr("a read of LDS is under way: ds_read_b32")));
}

TEST(GcnCheck, EveryPathToABarrierCounts) {
  // Only by the way back is anything under way.
  const std::string loop = "again:\ns_barrier\nds_write_b32 v0, v1\ns_sub_u32 s0, s0, 1\n{}s_cbranch_scc0 again";
  EXPECT_THAT(findings(fmt::format(fmt::runtime(loop), "")), ElementsAre(HasSubstr("+0x0 s_barrier")));
  EXPECT_THAT(findings(fmt::format(fmt::runtime(loop), "s_waitcnt lgkmcnt(0)\n")), IsEmpty());
  // Only by one of two branches.
  const std::string branches =
      "s_cbranch_vccnz other\nds_write_b32 v0, v1\n{}s_branch together\nother:\nds_write_b32 v2, v3\n"
      "s_waitcnt lgkmcnt(0)\ntogether:\ns_barrier";
  EXPECT_THAT(findings(fmt::format(fmt::runtime(branches), "")), ElementsAre(HasSubstr("ds_write_b32 v0, v1 at +0x4")));
  EXPECT_THAT(findings(fmt::format(fmt::runtime(branches), "s_waitcnt lgkmcnt(0)\n")), IsEmpty());
}

TEST(GcnCheck, VectorLoadsEndInOrder) {
  const std::string loads =
      "global_load_dword v2, v[0:1], off\nglobal_load_dword v3, v[0:1], off\ns_waitcnt vmcnt({})\n{}";
  const auto with = [&](int count, const char* use) { return findings(fmt::format(fmt::runtime(loads), count, use)); };
  EXPECT_THAT(with(1, "v_add_f32 v4, v2, v2"), IsEmpty());
  EXPECT_THAT(with(1, "v_add_f32 v4, v3, v3"),
              ElementsAre("+0x14 v_add_f32_e32 v4, v3, v3: reads a register while the load into it is under way: "
                          "global_load_dword v3, v[0:1], off at +0x8"));
  EXPECT_THAT(with(0, "v_add_f32 v4, v3, v3"), IsEmpty());
  EXPECT_THAT(with(2, "v_add_f32 v4, v2, v2"), ElementsAre(HasSubstr("global_load_dword v2")));
  // Overwritten: by what is computed, by LDS; not by the next load, which ends later.
  EXPECT_THAT(with(1, "v_mov_b32 v3, 0"), ElementsAre(HasSubstr("writes a register while a load into it")));
  EXPECT_THAT(with(1, "ds_read_b32 v3, v5"), ElementsAre(HasSubstr("writes a register while a load into it")));
  EXPECT_THAT(with(1, "global_load_dword v3, v[0:1], off"), IsEmpty());
  // Stores count, and read their data.
  EXPECT_THAT(findings("global_load_dword v2, v[0:1], off\nglobal_store_dword v[0:1], v5, off\ns_waitcnt vmcnt(1)\n"
                       "global_store_dword v[0:1], v2, off"),
              IsEmpty());
  EXPECT_THAT(findings("buffer_load_dword v2, off, s[0:3], 0\nglobal_store_dword v[0:1], v2, off"),
              ElementsAre(HasSubstr("global_store_dword")));
  // Accumulation registers are loaded too, and vmcnt has six bits.
  EXPECT_THAT(findings("global_load_dwordx4 a[0:3], v[0:1], off\nv_accvgpr_read_b32 v5, a3"),
              ElementsAre(HasSubstr("v_accvgpr_read_b32")));
  std::string many = "global_load_dword v2, v[0:1], off\n";
  for (int i = 0; i < 20; ++i) many += fmt::format("global_load_dword v{}, v[0:1], off\n", 10 + i);
  EXPECT_THAT(findings(many + "s_waitcnt vmcnt(20)\nv_mov_b32 v3, v2"), IsEmpty());
  EXPECT_THAT(findings(many + "s_waitcnt vmcnt(21)\nv_mov_b32 v3, v2"), ElementsAre(HasSubstr("v_mov_b32")));
  EXPECT_THAT(findings(many + "s_waitcnt vmcnt(19)\nv_mov_b32 v3, v29"), ElementsAre(HasSubstr("v29")));
  for (int i = 0; i < 60; ++i) many += "global_store_dword v[0:1], v9, off\n";
  EXPECT_THAT(findings(many + "v_mov_b32 v3, v2"), ElementsAre(HasSubstr("v_mov_b32")));
  EXPECT_THAT(findings(many + "s_waitcnt vmcnt(62)\nv_mov_b32 v3, v2"), IsEmpty());
  // The wait is on one path only, and the load comes round again.
  const std::string loop =
      "again:\nv_mov_b32 v4, v2\n{}global_load_dword v2, v[0:1], off\ns_sub_u32 s0, s0, 1\ns_cbranch_scc0 again";
  EXPECT_THAT(findings(fmt::format(fmt::runtime(loop), "s_waitcnt vmcnt(0)\n")), ElementsAre(HasSubstr("+0x0 v_mov")));
  EXPECT_THAT(findings("s_waitcnt vmcnt(0)\nagain:\ns_waitcnt vmcnt(0)\nv_mov_b32 v4, v2\n"
                       "global_load_dword v2, v[0:1], off\ns_sub_u32 s0, s0, 1\ns_cbranch_scc0 again"),
              IsEmpty());
}

TEST(GcnCheck, LdsLoadsEndInOrderAndScalarOnesInAny) {
  const std::string reads = "ds_read_b32 v2, v0\nds_read2_b32 v[4:5], v0 offset1:1\n";
  EXPECT_THAT(findings(reads + "s_waitcnt lgkmcnt(1)\nv_mov_b32 v6, v2\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v7, v5"),
              IsEmpty());
  EXPECT_THAT(findings(reads + "s_waitcnt lgkmcnt(1)\nv_mov_b32 v6, v5"), ElementsAre(HasSubstr("ds_read2_b32")));
  EXPECT_THAT(findings(reads + "s_waitcnt vmcnt(0)\nv_mov_b32 v6, v2"), ElementsAre(HasSubstr("ds_read_b32 v2")));
  EXPECT_THAT(findings("ds_bpermute_b32 v2, v0, v1\nv_mov_b32 v6, v2"), ElementsAre(HasSubstr("ds_bpermute_b32")));

  const std::string scalar = "s_load_dword s4, s[0:1], 0x0\ns_load_dwordx2 s[6:7], s[0:1], 0x8\n";
  EXPECT_THAT(findings(scalar + "s_waitcnt lgkmcnt(0)\ns_add_u32 s8, s4, s7"), IsEmpty());
  EXPECT_THAT(findings(scalar + "s_waitcnt lgkmcnt(1)\ns_add_u32 s8, s4, s5"),
              ElementsAre(HasSubstr("s_load_dword s4")));
  EXPECT_THAT(findings(scalar + "s_mov_b32 s7, 0"), ElementsAre(HasSubstr("writes a register")));
  EXPECT_THAT(findings("s_memtime s[4:5]\ns_add_u32 s8, s4, s4"), ElementsAre(HasSubstr("s_memtime")));
  // A scalar load that is still under way does not make LDS's later than its own order says.
  EXPECT_THAT(findings("s_load_dword s4, s[0:1], 0x0\n" + reads + "s_waitcnt lgkmcnt(1)\nv_mov_b32 v6, v2"), IsEmpty());
  EXPECT_THAT(findings("s_load_dword s4, s[0:1], 0x0\n" + reads + "s_waitcnt lgkmcnt(1)\nv_mov_b32 v6, v4"),
              ElementsAre(HasSubstr("ds_read2_b32")));

  EXPECT_THAT(findings("flat_load_dword v2, v[0:1]\ns_waitcnt vmcnt(0)\nv_mov_b32 v3, v2"),
              ElementsAre(HasSubstr("flat_load_dword")));
  EXPECT_THAT(findings("flat_load_dword v2, v[0:1]\ns_waitcnt vmcnt(0) lgkmcnt(0)\nv_mov_b32 v3, v2"), IsEmpty());
}

// `between` wait states between two instructions.
std::string apart(const std::string& first, int between, const std::string& second) {
  std::string text = first + "\n";
  for (; between > 0; between -= 8) text += fmt::format("s_nop {}\n", std::min(between, 8) - 1);
  return text + second;
}

struct Distance {
  const char *processor, *first, *second;
  int needed;
};

TEST(GcnCheck, InstructionsStandAsFarApartAsTheHardwareNeeds) {
  const Distance distances[] = {
      // Read, overwritten, stored, multiplied after an MMA of 4, 8 and 16 passes, and of 32-bit floats.
      {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]", "v_add_f32 v4, v3, v3", 7},
      {"gfx942", "v_mfma_f32_16x16x16_f16 a[0:3], v[8:9], v[10:11], a[0:3]", "v_accvgpr_read_b32 v4, a3", 7},
      {"gfx942", "v_mfma_f32_32x32x8_f16 v[0:15], v[18:19], v[20:21], v[0:15]", "v_mov_b32 v0, 0", 11},
      {"gfx942", "v_mfma_f32_16x16x4_f32 v[0:3], v8, v9, v[0:3]", "v_mov_b32 v4, v0", 10},
      {"gfx942", "v_mfma_f32_16x16x8_xf32 v[0:3], v[8:9], v[10:11], v[0:3]", "v_mov_b32 v4, v0", 7},
      {"gfx942", "v_mfma_f32_16x16x32_fp8_bf8 v[0:3], v[8:9], v[10:11], v[0:3]", "v_mov_b32 v4, v0", 7},
      {"gfx942", "v_mfma_f32_4x4x4_16b_f16 v[0:3], v[8:9], v[10:11], v[0:3]", "v_mov_b32 v4, v0", 5},
      {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[0:3], v[8:9], v[10:11], v[0:3]", "v_mov_b32 v4, v0", 11},
      {"gfx90a", "v_mfma_f32_32x32x8bf16_1k a[0:15], v[8:9], v[10:11], a[0:15]", "ds_write_b32 v20, a15", 19},
      {"gfx90a", "v_mfma_f32_16x16x4f32 v[0:3], v8, v9, v[0:3]", "global_store_dword v[20:21], v2, off", 11},
      {"gfx90a", "v_mfma_f32_4x4x1f32 v[0:3], v8, v9, v[0:3]", "v_mov_b32 v4, v0", 5},
      {"gfx90a", "v_mfma_f64_16x16x4f64 v[0:7], v[8:9], v[10:11], v[0:7]", "v_mov_b32 v14, v0", 11},
      // Multiplied again: as A, as a part of C, as the same C.
      {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
       "v_mfma_f32_16x16x16_bf16 v[12:15], v[2:3], v[10:11], v[12:15]", 7},
      {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
       "v_mfma_f32_16x16x16_bf16 v[2:5], v[8:9], v[10:11], v[2:5]", 5},
      {"gfx942", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]",
       "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]", 0},
      {"gfx90a", "v_mfma_f32_16x16x4f32 v[0:3], v8, v9, v[0:3]", "v_mfma_f32_16x16x4f32 v[2:5], v8, v9, v[2:5]", 8},
      {"gfx90a", "v_mfma_f32_16x16x4f32 v[0:3], v8, v9, v[0:3]", "v_mfma_f32_16x16x4f32 v[4:7], v0, v9, v[4:7]", 11},
      {"gfx90a", "v_mfma_f32_16x16x4f32 v[0:3], v8, v9, v[0:3]", "v_mfma_f32_16x16x4f32 v[0:3], v8, v9, v[0:3]", 0},
      // What it adds to is overwritten, what it multiplies may be.
      {"gfx942", "v_mfma_f32_16x16x16_bf16 v[12:15], v[8:9], v[10:11], v[0:3]", "v_mov_b32 v1, 0", 3},
      {"gfx942", "v_mfma_f32_16x16x4_f32 v[12:15], v8, v10, v[0:3]", "v_mov_b32 v1, 0", 0},
      {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[12:15], v[8:9], v[10:11], v[0:3]", "v_mov_b32 v1, 0", 7},
      {"gfx90a", "v_mfma_f32_16x16x16bf16_1k v[12:15], v[8:9], v[10:11], v[0:3]", "v_mov_b32 v8, 0", 0},
      // A vector instruction before it.
      {"gfx942", "v_mov_b32 v8, 0", "v_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[0:3]", 2},
      {"gfx90a", "v_accvgpr_write_b32 a1, 0", "v_mfma_f32_16x16x4f32 a[0:3], v8, v10, a[0:3]", 2},
      {"gfx90a", "v_cmpx_lt_f32 v0, v1", "v_mfma_f32_16x16x4f32 a[0:3], v8, v10, a[0:3]", 4},
      // Scalar registers written by vector instructions.
      {"gfx90a", "v_readfirstlane_b32 s4, v0", "global_load_dword v1, v2, s[4:5]", 5},
      {"gfx942", "v_readfirstlane_b32 s4, v0", "buffer_load_dword v1, v2, s[8:11], s4 offen", 5},
      {"gfx90a", "v_readfirstlane_b32 s4, v0", "v_readlane_b32 s5, v1, s4", 4},
      {"gfx90a", "v_readfirstlane_b32 s4, v0", "v_mov_b32 v1, s4", 0},
      {"gfx942", "v_readfirstlane_b32 s4, v0", "v_mov_b32 v1, s4", 2},
      {"gfx942", "v_cmp_lt_f32 vcc, v0, v1", "v_cndmask_b32 v2, v3, v4, vcc", 2},
      {"gfx90a", "v_cmp_lt_f32 vcc, v0, v1", "v_div_fmas_f32 v2, v3, v4, v5", 4},
      {"gfx90a", "v_readfirstlane_b32 s4, v0", "s_add_u32 s5, s4, s4", 0},
      // Other lanes' registers, parts of registers, slow functions.
      {"gfx90a", "v_mov_b32 v0, 0", "v_mov_b32_dpp v1, v0 row_shl:1 row_mask:0xf bank_mask:0xf", 2},
      {"gfx90a", "v_cmpx_lt_f32 v0, v1", "v_mov_b32_dpp v2, v3 row_shl:1 row_mask:0xf bank_mask:0xf", 5},
      {"gfx942", "v_mov_b32 v0, 0", "v_readfirstlane_b32 s4, v0", 1},
      {"gfx942", "v_exp_f32 v0, v1", "v_add_f32 v2, v0, v0", 1},
      {"gfx942", "v_exp_f32 v0, v1", "v_log_f32 v2, v0", 0},
      {"gfx90a", "v_exp_f32 v0, v1", "v_add_f32 v2, v0, v0", 0},
      {"gfx942", "v_mov_b32_sdwa v0, v1 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0", "v_mov_b32 v2, v0",
       1},
      {"gfx942", "v_dot2_f32_f16 v0, v1, v2, v3", "v_mov_b32 v4, v0", 3},
      // The same opcode adds to it at once, and does not multiply it.
      {"gfx942", "v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2_f32_f16 v4, v1, v2, v0", 0},
      {"gfx942", "v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2_f32_f16 v4, v0, v2, v3", 3},
      {"gfx942", "v_dot2_f32_f16 v0, v1, v2, v3", "v_dot2_f32_f16 v4, v1, v0, 0", 3},
      // The data of a wide store, M0, the mode.
      {"gfx942", "global_store_dwordx4 v[0:1], v[4:7], off", "v_mov_b32 v6, 0", 2},
      {"gfx90a", "global_store_dwordx3 v[0:1], v[4:6], off", "v_mov_b32 v6, 0", 1},
      {"gfx942", "global_store_dwordx2 v[0:1], v[4:5], off", "v_mov_b32 v5, 0", 0},
      {"gfx942", "buffer_store_dwordx4 v[4:7], off, s[0:3], 0", "v_mov_b32 v5, 0", 2},
      {"gfx942", "buffer_store_dwordx4 v[4:7], off, s[0:3], s8", "v_mov_b32 v5, 0", 0},
      {"gfx942", "s_mov_b32 m0, 0", "global_load_lds_dword v[0:1], off", 1},
      {"gfx90a", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", "s_getreg_b32 s0, hwreg(HW_REG_MODE)", 2},
      {"gfx90a", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 3", "s_getreg_b32 s0, hwreg(HW_REG_HW_ID)", 0},
  };
  for (const char* processor : {"gfx90a", "gfx942"}) {
    std::vector<Distance> asked;
    std::vector<std::string> enough, too_few;
    for (const Distance& distance : distances) {
      if (std::string(distance.processor) != processor) continue;
      asked.push_back(distance);
      enough.push_back(apart(distance.first, distance.needed, distance.second));
      too_few.push_back(apart(distance.first, std::max(distance.needed - 1, 0), distance.second));
    }
    const std::vector<Texts> without = findings_of_each(enough, processor), with = findings_of_each(too_few, processor);
    for (size_t i = 0; i < asked.size(); ++i) {
      SCOPED_TRACE(fmt::format("{}: {}, {}", processor, asked[i].first, asked[i].second));
      const int needed = asked[i].needed;
      EXPECT_THAT(without[i], IsEmpty());
      if (needed > 0)
        EXPECT_THAT(with[i], ElementsAre(HasSubstr(fmt::format(" after {} wait states of {}: ", needed - 1, needed))));
    }
  }
}

TEST(GcnCheck, WaitStatesCountAlongTheShortestPath) {
  const std::string loop =
      "again:\nv_mov_b32 v4, v0\nv_mfma_f32_16x16x16_bf16 v[0:3], v[8:9], v[10:11], v[12:15]\n{}"
      "s_sub_u32 s0, s0, 1\ns_cbranch_scc0 again";
  EXPECT_THAT(findings(fmt::format(fmt::runtime(loop), "s_nop 3\n")),
              ElementsAre(HasSubstr("a matrix result is read after 6 wait states of 7")));
  EXPECT_THAT(findings(fmt::format(fmt::runtime(loop), "s_nop 4\n")), IsEmpty());
}

TEST(GcnCheck, WhatCannotBeFollowedIsAFinding) {
  EXPECT_THAT(findings("s_setpc_b64 s[0:1]"), ElementsAre(HasSubstr("the path cannot be followed")));
  EXPECT_THAT(findings("s_swappc_b64 s[30:31], s[0:1]"), ElementsAre(HasSubstr("the path cannot be followed")));
  EXPECT_THAT(findings("s_branch -20"), ElementsAre(HasSubstr("jumps to what is no instruction of the function")));
  EXPECT_THAT(findings(".long 0xffffffff"), testing::Contains(HasSubstr("is no instruction of this processor")));
}

TEST(GcnCheck, ADamagedImageIsRefused) {
  std::string image = image_of({"s_nop 0"}, "gfx942");
  image.resize(image.size() / 2);
  EXPECT_THROW(check_code(image, gpu_target("gfx942")), Error);
  EXPECT_THROW(check_code("no ELF file", gpu_target("gfx942")), Error);
}

}  // namespace
}  // namespace causeway::codegen
