// The static check of PTX on small functions: what is right has no findings, and each wait, fence, barrier or group
// that is left out, or covers too little, has.
#include "causeway/codegen/checks/ptx_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "causeway/base/error.h"
#include "causeway/codegen/checks/ptx_text.h"
#include "causeway/codegen/checks/ptx_values.h"

namespace causeway::codegen {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string module_of(const std::string& body, int threads = 128) {
  return fmt::format(
      ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"
      ".visible .entry kernel(\n\t.param .u64 kernel_param_0\n)\n.maxntid {}, 1, 1\n{{\n\t.reg .pred %p<9>;\n"
      "\t.reg .b32 %r<99>;\n\t.reg .f32 %f<9>;\n\t.reg .b64 %rd<9>;\n{}}}\n",
      threads, body);
}

// The first finding, or nothing.
std::string first_finding(const std::string& body, int threads = 128) {
  const std::vector<FunctionCheck> checks = check_ptx(module_of(body, threads));
  EXPECT_EQ(checks.size(), 1u);
  if (checks[0].findings.empty()) return "";
  EXPECT_GT(checks[0].findings[0].place, 0u);
  return checks[0].findings[0].instruction + ": " + checks[0].findings[0].fault;
}

// `text` with `from`, which it holds once, replaced.
std::string with(const std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from;
  return std::string(text).replace(at, from.size(), to);
}

// Three stages of 2 KiB: while one is read, two are on their way.
const std::string kRing = R"(
	ld.param.u64 %rd1, [kernel_param_0];
	ld.global.u32 %r20, [%rd1];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 4;
	mov.u32 %r3, memory;
	add.s32 %r4, %r2, %r3;
	and.b32 %r6, %r2, 1008;
	cp.async.cg.shared.global [%r4], [%rd1], 16;
	cp.async.commit_group;  // the first
	add.s32 %r5, %r4, 2048;
	cp.async.cg.shared.global [%r5], [%rd1], 16;
	cp.async.commit_group;  // the second
	mov.b32 %r10, 0;
	mov.b32 %r11, 2;
	mov.b32 %r12, 0;
LOOP:
	cp.async.wait_group 1;
	bar.sync 0;
	mul.lo.s32 %r13, %r11, 2048;
	add.s32 %r14, %r4, %r13;
	setp.ge.s32 %p5, %r12, %r20;
	@%p5 bra NO_MORE;
	cp.async.cg.shared.global [%r14], [%rd1], 16;
NO_MORE:
	cp.async.commit_group;  // in the loop
	mul.lo.s32 %r15, %r10, 2048;
	add.s32 %r16, %r6, %r15;
	ld.shared.u32 %r17, [%r16];
	add.s32 %r18, %r10, 1;
	setp.eq.s32 %p1, %r18, 3;
	selp.b32 %r10, 0, %r18, %p1;
	add.s32 %r19, %r11, 1;
	setp.eq.s32 %p2, %r19, 3;
	selp.b32 %r11, 0, %r19, %p2;
	add.s32 %r12, %r12, 1;
	setp.lt.s32 %p3, %r12, %r20;
	@%p3 bra LOOP;
	ret;
)";

TEST(PtxCopies, ARingLeavesGroupsInFlight) {
  EXPECT_THAT(first_finding(kRing), IsEmpty());
  const std::string early = "before a cp.async.wait_group that covers it";
  EXPECT_THAT(first_finding(with(kRing, "wait_group 1;", "wait_group 2;")), HasSubstr(early));
  EXPECT_THAT(first_finding(with(kRing, "cp.async.wait_group 1;", "")), HasSubstr(early));
  EXPECT_THAT(first_finding(with(kRing, "bar.sync 0;", "")), HasSubstr("with no barrier of the block"));
  EXPECT_THAT(first_finding(with(kRing, "bar.sync 0;", "bar.sync 1, 32;")), HasSubstr("with no barrier of the block"));
  EXPECT_THAT(first_finding(with(kRing, "cp.async.commit_group;  // in the loop", "")), HasSubstr("is read before"));
  EXPECT_THAT(first_finding(with(kRing, "cp.async.commit_group;  // the second", "")), HasSubstr("is read before"));
  // A wait that may not be executed is none.
  EXPECT_THAT(first_finding(with(kRing, "cp.async.wait_group 1;", "@%p4 cp.async.wait_group 1;")), HasSubstr(early));
  // All groups but none: right, if slow.
  EXPECT_THAT(first_finding(with(kRing, "wait_group 1;", "wait_all;")), IsEmpty());
  // A stage too few: what is read may be copied at the same time.
  EXPECT_THAT(first_finding(with(with(kRing, "setp.eq.s32 %p1, %r18, 3;", "setp.eq.s32 %p1, %r18, 2;"),
                                 "setp.eq.s32 %p2, %r19, 3;", "setp.eq.s32 %p2, %r19, 2;")),
              HasSubstr("is read before"));
}

// One buffer, which is filled again at the end of each turn.
const std::string kBackEdge = R"(
	ld.param.u64 %rd1, [kernel_param_0];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 4;
	and.b32 %r3, %r2, 1008;
	cp.async.cg.shared.global [%r2], [%rd1], 16;
	cp.async.commit_group;
	cp.async.wait_group 0;  // before
	bar.sync 0;  // before
LOOP:
	ld.shared.u32 %r4, [%r3];
	setp.eq.s32 %p1, %r4, 0;
	@%p1 bra END;
	bar.sync 0;  // when all have read
	cp.async.cg.shared.global [%r2], [%rd1], 16;
	cp.async.commit_group;
	cp.async.wait_group 0;  // after
	bar.sync 0;  // after
	bra LOOP;
END:
	ret;
)";

TEST(PtxCopies, FaultsAlongABackEdgeAlone) {
  EXPECT_THAT(first_finding(kBackEdge), IsEmpty());
  EXPECT_THAT(first_finding(with(kBackEdge, "cp.async.wait_group 0;  // after", "")),
              HasSubstr("ld.shared.u32 %r4, [%r3]: what the copy at line"));
  EXPECT_THAT(first_finding(with(kBackEdge, "bar.sync 0;  // after", "")), HasSubstr("no barrier of the block after"));
  EXPECT_THAT(first_finding(with(kBackEdge, "bar.sync 0;  // when all have read", "")), HasSubstr("is copied over"));
}

TEST(PtxCopies, OwnOnesNeedNoBarrier) {
  const std::string own = R"(
	ld.param.u64 %rd1, [kernel_param_0];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 4;
	cp.async.cg.shared.global [%r2], [%rd1], 16;
	cp.async.commit_group;
	cp.async.wait_group 0;
	mul.wide.u32 %rd2, %r1, 16;
	ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2];
	ret;
)";
  EXPECT_THAT(first_finding(own), IsEmpty());
  EXPECT_THAT(first_finding(with(own, "cp.async.wait_group 0;", "")), HasSubstr("before a cp.async.wait_group"));
  EXPECT_THAT(first_finding(with(own, "[%rd2]", "[%rd2+16]")), HasSubstr("no barrier of the block after the wait"));
}

// Copied unless the number is too large or the thread is one too many, and read after a barrier unless it is too large.
TEST(PtxCopies, ABranchOnOrTellsItsPartsAndOnAndToo) {
  const std::string skipped = R"(
	ld.param.u64 %rd1, [kernel_param_0];
	ld.global.u32 %r6, [%rd1];
	setp.ne.s32 %p5, %r6, 0;
	mov.u32 %r1, 9;
	@%p5 mov.u32 %r1, 7;
	mov.u32 %r2, %tid.x;
	shl.b32 %r3, %r2, 4;
	xor.b32 %r4, %r3, 512;
	setp.gt.s32 %p1, %r1, 7;
	setp.gt.u32 %p2, %r2, 99;
	or.pred %p3, %p1, %p2;
	@%p3 bra NONE;
	cp.async.cg.shared.global [%r3], [%rd1], 16;
NONE:
	cp.async.commit_group;
	cp.async.wait_group 0;
	setp.lt.s32 %p4, %r1, 8;
	@!%p4 bra READ;
	bar.sync 0;
READ:
	ld.shared.u32 %r5, [%r4];
	ret;
)";
  EXPECT_THAT(first_finding(skipped), IsEmpty());
  // Where the number is 7 no barrier is passed.
  EXPECT_THAT(first_finding(with(skipped, "setp.lt.s32 %p4, %r1, 8;", "setp.lt.s32 %p4, %r1, 7;")),
              HasSubstr("no barrier of the block"));
  // False, "and" does not tell which part is.
  EXPECT_THAT(first_finding(with(skipped, "or.pred", "and.pred")), HasSubstr("no barrier of the block"));
  std::string both = with(skipped, "@%p3 bra NONE;", "@!%p3 bra NONE;");
  both = with(with(both, "or.pred", "and.pred"), "setp.gt.s32 %p1, %r1, 7;", "setp.le.s32 %p1, %r1, 7;");
  EXPECT_THAT(first_finding(both), IsEmpty());
  EXPECT_THAT(first_finding(with(both, "and.pred", "or.pred")), HasSubstr("no barrier of the block"));
}

const std::string kWgmmaText = R"(
	ld.param.u64 %rd1, [kernel_param_0];
	mov.f32 %f1, 0f00000000;
	mov.f32 %f2, 0f00000000;
	ld.global.u32 %r1, [%rd1];
LOOP:
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2}, {%r5, %r6, %r7, %r8}, %rd1, 1, 1, 1, 0;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	ld.global.u32 %r5, [%rd1+4];
	setp.ne.s32 %p1, %r5, 0;
	@%p1 bra LOOP;
	add.f32 %f3, %f1, %f2;
	st.global.f32 [%rd1], %f3;
	ret;
)";

TEST(PtxWgmma, RegistersAreLeftAloneWhileWgmmaUsesThem) {
  EXPECT_THAT(first_finding(kWgmmaText), IsEmpty());
  EXPECT_THAT(first_finding(with(kWgmmaText, "wgmma.wait_group.sync.aligned 0;", "")),
              HasSubstr("%r5 is written while"));
  EXPECT_THAT(first_finding(with(kWgmmaText, "aligned 0;", "aligned 1;")), HasSubstr("%r5 is written while"));
  EXPECT_THAT(first_finding(with(kWgmmaText, "wgmma.commit_group.sync.aligned;", "")), HasSubstr("is written while"));
  EXPECT_THAT(first_finding(with(kWgmmaText, "wgmma.fence.sync.aligned;", "")), HasSubstr("no wgmma.fence"));
  // The first turn has one.
  EXPECT_THAT(first_finding(
                  with(with(kWgmmaText, "wgmma.fence.sync.aligned;", ""), "LOOP:", "wgmma.fence.sync.aligned;\nLOOP:")),
              HasSubstr("is used with no wgmma.fence since line"));
  // Read on one of two ways.
  EXPECT_THAT(
      first_finding(with(kWgmmaText, "wgmma.wait_group.sync.aligned 0;",
                         "setp.eq.s32 %p2, %r1, 0;\n@%p2 bra READ;\nwgmma.wait_group.sync.aligned 0;\nbra GO_ON;\n"
                         "READ: mov.f32 %f4, %f1;\nwgmma.wait_group.sync.aligned 0;\nGO_ON:")),
      HasSubstr("mov.f32 %f4, %f1: %f1 is read while the wgmma"));
}

// The first warp loads two stages in turn, the second warpgroup multiplies them and has the sums stored.
const std::string kPipeline = R"(
	ld.param.u64 %rd1, [kernel_param_0];
	mov.u32 %r1, %tid.x;
	setp.ne.s32 %p1, %r1, 0;
	@%p1 bra READY;
	mbarrier.init.shared::cta.b64 [memory+65536], 1;
	mbarrier.init.shared::cta.b64 [memory+65544], 1;
	mbarrier.init.shared::cta.b64 [memory+65552], 1;
	mbarrier.init.shared::cta.b64 [memory+65560], 1;
	fence.mbarrier_init.release.cluster;
READY:
	bar.sync 0;
	{
	.reg .pred chosen;
	elect.sync _|chosen, 0xffffffff;
	selp.u32 %r2, 1, 0, chosen;
	}
	setp.eq.s32 %p3, %r2, 0;
	setp.gt.u32 %p2, %r1, 127;
	mov.b32 %r3, 0;
	@%p2 bra MULTIPLY;
	@%p3 bra END;
LOAD:
	shl.b32 %r4, %r3, 3;
	add.s32 %r5, %r4, 65552;
	{
	.reg .pred done;
	WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 done, [%r5], %r30;  // for room
	@!done bra WAIT;
	}
	add.s32 %r6, %r4, 65536;
	mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 8192;
	shl.b32 %r7, %r3, 13;
	cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r7], [%rd1, {%r31, %r31}], [%r6];
	xor.b32 %r3, %r3, 1;
	ld.global.u32 %r8, [%rd1];
	setp.ne.s32 %p4, %r8, 0;
	@%p4 bra LOAD;
	bra END;
MULTIPLY:
	shl.b32 %r11, %r3, 3;
	add.s32 %r12, %r11, 65536;
	{
	.reg .pred done;
	WAIT:
	mbarrier.try_wait.parity.shared::cta.b64 done, [%r12], %r30;  // for a load
	@!done bra WAIT;
	}
	shl.b32 %r13, %r3, 13;
	shr.u32 %r14, %r13, 4;
	cvt.u64.u32 %rd2, %r14;
	or.b64 %rd3, %rd2, 4611686293305294848;
	wgmma.fence.sync.aligned;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd3, %rd3, 0, 1, 1, 0, 0;
	wgmma.commit_group.sync.aligned;
	wgmma.wait_group.sync.aligned 0;
	add.s32 %r15, %r11, 65552;
	mbarrier.arrive.shared::cta.b64 _, [%r15];
	xor.b32 %r3, %r3, 1;
	add.f32 %f5, %f1, %f2;
	@%p3 bra WAITED;
	cp.async.bulk.wait_group.read 0;  // for room
WAITED:
	bar.sync 1, 128;  // for room
	st.shared.f32 [memory+32768], %f5;
	fence.proxy.async.shared::cta;
	bar.sync 1, 128;  // for sums
	@%p3 bra SENT;
	cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r31, %r31}], [memory+32768];
	cp.async.bulk.commit_group;
SENT:
	ld.global.u32 %r8, [%rd1];
	setp.ne.s32 %p4, %r8, 0;
	@%p4 bra MULTIPLY;
	@%p3 bra END;
	cp.async.bulk.wait_group.read 0;  // at the end
END:
	ret;
)";

TEST(PtxBulkCopies, EachWaitFenceAndBarrierIsNeeded) {
  EXPECT_THAT(first_finding(kPipeline, 256), IsEmpty());
  const std::string wait = "\tmbarrier.try_wait.parity.shared::cta.b64 done, ";
  const std::pair<const char*, const char*> left_out[] = {
      {"\tfence.mbarrier_init.release.cluster;\n", "initialised with no fence.mbarrier_init"},
      {"\tbar.sync 0;\n", "with no barrier of the block after it was initialised"},
      {"\tmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 8192;\n", "not announced by mbarrier.arrive.expect_tx"},
      {"\twgmma.wait_group.sync.aligned 0;\n", "is handed back before a wgmma.wait_group"},
      {"\tcp.async.bulk.wait_group.read 0;  // for room\n", "is written before a cp.async.bulk.wait_group"},
      {"\tbar.sync 1, 128;  // for room\n", "is written with no barrier after the wait for it"},
      {"\tfence.proxy.async.shared::cta;\n", "was written with no fence.proxy.async after it"},
      {"\tbar.sync 1, 128;  // for sums\n", "with no barrier after its fence.proxy.async"},
      {"\tcp.async.bulk.commit_group;\n", "before a cp.async.bulk.wait_group that covers it"},
      {"\tcp.async.bulk.wait_group.read 0;  // at the end\n", "the thread ends before"},
  };
  // A barrier of some threads is none of the block, and a fence of global memory none of shared memory.
  EXPECT_THAT(first_finding(with(kPipeline, "bar.sync 0;", "bar.sync 2, 32;"), 256),
              HasSubstr("with no barrier of the block after it was initialised"));
  EXPECT_THAT(first_finding(with(kPipeline, "fence.proxy.async.shared::cta;", "fence.proxy.async.global;"), 256),
              HasSubstr("was written with no fence.proxy.async after it"));
  EXPECT_THAT(first_finding(with(kPipeline, "fence.proxy.async.shared::cta;", "fence.proxy.async;"), 256), IsEmpty());
  // The third of four warpgroups.
  const std::string third = with(kPipeline, "setp.gt.u32 %p2, %r1, 127;",
                                 "setp.gt.u32 %p2, %r1, 127;\n\tshr.u32 %r16, %r1, 7;\n\tsetp.eq.s32 %p5, %r16, 2;\n"
                                 "\tsetp.eq.s32 %p6, %r16, 3;\n\t@%p6 bra END;");
  EXPECT_THAT(first_finding(third, 512), IsEmpty());
  EXPECT_THAT(first_finding(with(third, "\tcp.async.bulk.wait_group.read 0;  // at the end\n",
                                 "\t@%p5 bra END;\n\tcp.async.bulk.wait_group.read 0;\n"),
                            512),
              HasSubstr("the thread ends before"));
  for (const auto& [text, fault] : left_out)
    EXPECT_THAT(first_finding(with(kPipeline, text, ""), 256), HasSubstr(fault)) << text;
  EXPECT_THAT(first_finding(with(kPipeline, wait + "[%r5], %r30;  // for room\n\t@!done bra WAIT;\n", "\n"), 256),
              HasSubstr("announced again before its room was handed back"));
  EXPECT_THAT(first_finding(with(kPipeline, wait + "[%r12], %r30;  // for a load\n\t@!done bra WAIT;\n", "\n"), 256),
              HasSubstr("read with no wait for its mbarrier"));
  // Asked once, not waited for.
  EXPECT_THAT(
      first_finding(
          with(kPipeline, "[%r12], %r30;  // for a load\n\t@!done bra WAIT;\n", "[%r12], %r30;  // for a load\n"), 256),
      HasSubstr("read with no wait for its mbarrier"));
}

// Results that a block keeps to itself, behind what loads bring: no MMA reads them, wherever within a load one begins.
TEST(PtxBulkCopies, MemoryBehindLoadsIsNoOperand) {
  std::string kept = with(kPipeline, "\tor.b64 %rd3, %rd2,", "\tadd.s64 %rd2, %rd2, 2;\n\tor.b64 %rd3, %rd2,");
  for (const char* text :
       {"\tcp.async.bulk.wait_group.read 0;  // for room\n", "\tfence.proxy.async.shared::cta;\n",
        "\tcp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r31, %r31}], [memory+32768];\n",
        "\tcp.async.bulk.commit_group;\n", "\tcp.async.bulk.wait_group.read 0;  // at the end\n"})
    kept = with(kept, text, "");
  EXPECT_THAT(first_finding(kept, 256), IsEmpty());
  for (const char* operand : {"memory+8240", "memory+16368"})
    EXPECT_THAT(first_finding(with(kept, "memory+32768", operand), 256),
                HasSubstr("was written with no fence.proxy.async after it"))
        << operand;
}

TEST(PtxCheck, APathThatCannotBeFollowedIsSaid) {
  const std::string products = with(kPipeline, "\tbra END;\n", "\tcall.uni other, (%r1);\n\tbra END;\n");
  EXPECT_THAT(first_finding(products, 256), HasSubstr("the path cannot be followed"));
  EXPECT_THAT(first_finding("\tmov.b32 %r1, 0;\n\tbrx.idx %r1, targets;\n\tret;\n"),
              HasSubstr("what comes after is not checked"));
}

// Thread 128 is its wave's first: what it computed from its number, other lanes have not.
TEST(PtxValues, LanesDifferInWhatIsComputedFromTheirNumbers) {
  const std::string wave_of = "shfl.sync.idx.b32 %r31, %r30, 0, 31, -1;";
  for (const auto& [computed, known] : {std::pair("and.b32 %r30, %r1, 96", true),
                                        {"shr.u32 %r30, %r1, 5", true},
                                        {"and.b32 %r30, %r1, 127", false},
                                        {"mul.lo.s32 %r30, %r1, 8", false},
                                        {"add.s32 %r30, %r1, 1", false},
                                        {"rem.u32 %r30, %r1, 128", false}}) {
    const std::string body = std::string("\tmov.u32 %r1, %tid.x;\n\t") + computed + ";\n\t" + wave_of + "\n";
    const PtxModule module = parse_ptx(module_of(body + "\tret;\n", 256));
    const PtxValues values(module, module.functions[0], {128, 256, true});
    const std::vector<std::string>& names = module.functions[0].register_names;
    const auto found = std::ranges::find(names, "%r31");
    ASSERT_NE(found, names.end());
    EXPECT_EQ(values.value(static_cast<int>(found - names.begin()), {}).exact(), known) << computed;
  }
}

TEST(PtxText, CountsAndNames) {
  const std::vector<FunctionCheck> checks = check_ptx(module_of(kPipeline, 256));
  EXPECT_EQ(checks[0].function, "kernel");
  EXPECT_EQ(checks[0].barriers, 3);
  EXPECT_EQ(checks[0].waits, 5);
  EXPECT_GT(checks[0].instructions, 60);
}

TEST(PtxText, WhatIsNoPtxIsSaid) {
  for (const char* text : {".visible .entry kernel(", ".visible .entry kernel()\n{\n\tbra NOWHERE;\n}\n",
                           ".visible .entry kernel()\n{\n\t@ ret;\n}\n", ".visible .entry kernel()\n{\n\tret\n",
                           ".visible .entry kernel()\n{\n\t.reg .pred;\n\tret;\n}\n"})
    EXPECT_THROW(check_ptx(text), Error) << text;
  EXPECT_THAT(check_ptx(""), IsEmpty());
}

}  // namespace
}  // namespace causeway::codegen
