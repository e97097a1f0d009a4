// What the writers of GPU loops decide, seen in the text they write.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/graph/parser.h"
#include "causeway/program/fusion.h"
#include "tests/fixtures/op_literal.h"

namespace causeway::program {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<GeneratedKernel> kernels(const std::string& text, Target target = gpu_target("sm_90a")) {
  const Graph graph = parse_graph(text);
  const FusionResult fusion = fuse(graph, target);
  std::vector<GeneratedKernel> result;
  for (const KernelRequest& request : fusion.kernels)
    result.push_back(generate_kernel(graph, fusion.materialized, request, target));
  return result;
}

std::string elementwise(const std::string& type) {
  return "%0 = input \"x\" : " + type + "\n%1 = neg(%0) : " + type + "\nreturn %1\n";
}

TEST(GpuKernelText, AThreadComputesSixteenBytesOfTheNarrowestTensor) {
  EXPECT_THAT(kernels(elementwise("bf16[64, 4096]"))[0].source, HasSubstr("store_lanes(b1 + (r0 * 8), v0)"));
  EXPECT_THAT(kernels(elementwise("f32[64, 4096]"))[0].source, HasSubstr("store_lanes(b1 + (r0 * 4), v0)"));
  EXPECT_THAT(kernels(elementwise("i64[64, 4096]"))[0].source, HasSubstr("store_lanes(b1 + (r0 * 2), v0)"));
}

// Of 22 bytes, or of 10, two are of the narrowest.
TEST(GpuKernelText, ATensorThatIsNextToNothingDoesNotDecide) {
  const std::string start = "%0 = input \"g\" : bf16[64, 4096]\n%1 = cast(%0) {dtype=f32} : f32[64, 4096]\n";
  std::string text = start, sum = "%1";
  for (int i = 0; i < 4; ++i) {
    const int at = 2 + 2 * i;
    text +=
        fmt::format("%{0} = input \"x{0}\" : f32[64, 4096]\n%{1} = add({2}, %{0}) : f32[64, 4096]\n", at, at + 1, sum);
    sum = fmt::format("%{}", at + 1);
    const std::string source = kernels(text + "return " + sum + "\n")[0].source;
    if (i == 0) EXPECT_THAT(source, HasSubstr("(r0 * 8), v0)"));
    if (i == 3) EXPECT_THAT(source, HasSubstr("(r0 * 4), v0)"));
  }
}

TEST(GpuKernelText, OneAndAnErfAreOneFunction) {
  const auto source = [](const std::string& type, const std::string& number) {
    return kernels(fmt::format(R"(%0 = input "x" : {0}[64, 4096]
%1 = erf(%0) : {0}[64, 4096]
%2 = constant {1} : {0}[64, 4096]
%3 = add(%2, %1) : {0}[64, 4096]
return %3
)",
                               type, number))[0]
        .source;
  };
  EXPECT_THAT(source("f32", "1"), HasSubstr("(one_plus_erf_f32(t0))"));
  EXPECT_THAT(source("f32", "2"), Not(HasSubstr("one_plus_erf_f32")));
  EXPECT_THAT(source("bf16", "1"), Not(HasSubstr("one_plus_erf_f32")));
}

// Attention reads operands through TMA where they lie as rows. Keys that ranks gathered of several
// sequences do not: they are stored so beforehand, and not computed for every block that reads them.
TEST(GpuKernelText, AttentionsOperandsAreRows) {
  const auto sources = [](const std::string& keys) {
    std::vector<std::string> list;
    for (const GeneratedKernel& kernel : kernels(R"(%0 = input "q" : bf16[2, 256, 4, 128]
%1 = input "v" : bf16[2, 256, 2, 128]
)" + keys + R"(%5:2 = attention(%0, %4, %1) {scale=0.5, block_q=64, block_k=64} : bf16[2, 256, 4, 128], f32[2, 4, 256]
return %5
)"))
      list.push_back(kernel.source);
    return list;
  };
  const std::vector<std::string> gathered = sources(R"(%2 = input "k" : bf16[4, 2, 64, 2, 128]
%3 = permute(%2) {axes=[1, 0, 2, 3, 4]} : bf16[2, 4, 64, 2, 128]
%4 = reshape(%3) : bf16[2, 256, 2, 128]
)");
  ASSERT_EQ(gathered.size(), 2u);
  EXPECT_THAT(gathered[1], HasSubstr("kComputesOperands = false"));
  const std::vector<std::string> by_heads = sources(R"(%2 = input "k" : bf16[2, 2, 256, 128]
%3 = permute(%2) {axes=[0, 2, 1, 3]} : bf16[2, 256, 2, 128]
%4 = reshape(%3) : bf16[2, 256, 2, 128]
)");
  ASSERT_EQ(by_heads.size(), 1u);
  EXPECT_THAT(by_heads[0], HasSubstr("kComputesOperands = false"));
}

// What a mainloop asks of its problem is checked before its text is compiled for it.
TEST(GpuKernelText, AttentionWithoutWhatItsMainloopAsksForIsRefused) {
  const std::string graph = R"(%0 = input "q" : bf16[2, 256, 4, 64]
%1 = input "k" : bf16[2, 256, 2, 64]
%2:2 = attention(%0, %1, %1) {scale=0.5, block_q=64, block_k=64} : bf16[2, 256, 4, 64], f32[2, 4, 256]
return %2
)";
  const struct {
    const char* processor;
    std::string part, other, concept_name;
  } cases[] = {{"sm_90a", "static constexpr int kMapV = 2;\n", "", "AttentionByTma"},
               {"sm_90a", ".keys = 128", ".keys = 72", "HopperAttentionProblem"},
               {"gfx942", ".waves = 8", ".waves = 4", "CdnaAttentionProblem"},
               {"sm_80", "k_row(", "other_row(", "AttentionByAddress"}};
  for (const auto& [processor, part, other, concept_name] : cases) {
    const Target target = gpu_target(processor);
    std::string source = kernels(graph, target)[0].source;
    const size_t at = source.find(part);
    ASSERT_NE(at, std::string::npos) << source;
    source.replace(at, part.size(), other);
    try {
      codegen::compile_module(source, target);
      ADD_FAILURE() << concept_name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("'" + concept_name)) << processor;
    }
  }
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(GpuKernelText, EightBitFloatsAreConvertedOnceByInstructions) {
  const std::string text = R"(%0 = input "x" : f32[64, 4096]
%1 = cast(%0) {dtype=f8e4m3} : f8e4m3[64, 4096]
return %1
)";
  const std::string ptx = codegen::compile_module(kernels(text)[0].source, gpu_target("sm_90a"));
  EXPECT_EQ(occurrences(ptx, "cvt.rn.satfinite.e4m3x2.f32"), 8u) << ptx;
  EXPECT_EQ(occurrences(ptx, "e4m3x2"), 8u) << ptx;
  EXPECT_EQ(occurrences(ptx, "ld.global"), 2u) << ptx;
  EXPECT_EQ(occurrences(ptx, "ld.global.v4.b32"), 2u) << ptx;
  EXPECT_EQ(occurrences(ptx, "st.global"), 1u) << ptx;
  EXPECT_EQ(occurrences(ptx, "st.global.v2.b32"), 1u) << ptx;
  const Target older = gpu_target("sm_80");
  EXPECT_THAT(codegen::compile_module(kernels(text, older)[0].source, older), Not(HasSubstr("e4m3x2")));
}

TEST(GpuKernelText, EightBitFloatsMoveAsTheyAre) {
  const std::string ptx = codegen::compile_module(kernels(R"(%0 = input "x" : f8e5m2[640, 4096]
%1 = input "rows" : i32[64]
%2 = gather(%0, %1) {axes=[0]} : f8e5m2[64, 4096]
return %2
)")[0]
                                                      .source,
                                                  gpu_target("sm_90a"));
  EXPECT_THAT(ptx, Not(HasSubstr("cvt.rn"))) << ptx;
}

TEST(GpuKernelText, ACopyInTheOtherOrderLoadsAllBeforeItWaits) {
  const std::string ptx = codegen::compile_module(kernels(R"(%0 = input "x" : f8e4m3[4096, 1024]
%1 = permute(%0) {axes=[1, 0]} : f8e4m3[1024, 4096]
return %1
)")[0]
                                                      .source,
                                                  gpu_target("sm_90a"));
  EXPECT_EQ(occurrences(ptx, "ld.global.v4.b32"), 4u) << ptx;
  EXPECT_LT(ptx.rfind("ld.global"), ptx.find("st.shared")) << ptx;
  EXPECT_EQ(occurrences(ptx, "st.global"), 4u) << ptx;
  EXPECT_EQ(occurrences(ptx, "st.global.v4.b32"), 4u) << ptx;
}

// Two loops read a product of three tensors, which takes two bytes in bf16 and four in f32.
TEST(GpuKernelText, WhatACastWidensIsStoredInItsPlace) {
  const Graph graph = parse_graph(R"(%0 = input "x" : bf16[64, 4096]
%1 = input "y" : bf16[64, 4096]
%2 = input "z" : bf16[64, 4096]
%3 = mul(%0, %1) : bf16[64, 4096]
%4 = mul(%3, %2) : bf16[64, 4096]
%5 = cast(%4) {dtype=f32} : f32[64, 4096]
%6 = abs(%5) : f32[64, 4096]
%7 = reduce_max(%6) {axes=[0, 1]} : f32[]
%8 = broadcast(%7) {axes=[]} : f32[64, 4096]
%9 = div(%5, %8) : f32[64, 4096]
%10 = permute(%5) {axes=[1, 0]} : f32[4096, 64]
%11 = exp2(%10) : f32[4096, 64]
return %9, %11
)");
  const FusionResult fusion = fuse(graph, gpu_target("sm_90a"));
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op != "cast"_op) continue;
    EXPECT_FALSE(fusion.materialized.contains({static_cast<int32_t>(i), 0}));
    EXPECT_TRUE(fusion.materialized.contains(node.inputs[0]));
  }
}

// However many kernels there are between; of a sum of GEMMs, the last one does; scaled, as 8-bit GEMMs are, too.
TEST(GpuKernelText, AGemmStoresWhatItsResultIsRoundedTo) {
  std::string text = R"(%0 = input "x" : bf16[64, 256]
%1 = input "y" : bf16[256, 128]
%2 = dot(%0, %1) : f32[64, 128]
%3 = dot(%0, %1) {backward} : f32[64, 128]
%4 = input "z" : bf16[128, 256]
%5 = dot(%0, %4) {transpose_b} : f32[64, 128]
%6 = add(%5, %3) : f32[64, 128]
%1000 = input "scale" : f32[1]
%1001 = dot(%0, %1) : f32[64, 128]
%1002 = reshape(%1000) : f32[]
%1003 = broadcast(%1002) {axes=[]} : f32[64, 128]
%1004 = mul(%1001, %1003) : f32[64, 128]
)";
  constexpr int kBetween = 20;
  std::vector<std::string> results;
  for (int i = 0; i < kBetween; ++i) {
    text +=
        fmt::format("%{0} = input \"v{0}\" : f32[{1}]\n%{2} = exp2(%{0}) : f32[{1}]\n", 7 + 2 * i, 100 + i, 8 + 2 * i);
    results.push_back(fmt::format("%{}", 8 + 2 * i));
  }
  int next = 7 + 2 * kBetween;
  for (const int source : {2, 6, 1004}) {
    text += fmt::format(
        "%{1} = cast(%{0}) {{dtype=bf16}} : bf16[64, 128]\n%{2} = cast(%{1}) {{dtype=f32}} : f32[64, 128]\n"
        "%{3} = mul(%{2}, %{2}) : f32[64, 128]\n%{4} = reduce_sum(%{3}) {{axes=[0, 1]}} : f32[]\n"
        "%{5} = broadcast(%{4}) {{axes=[]}} : f32[64, 128]\n%{6} = mul(%{2}, %{5}) : f32[64, 128]\n",
        source, next, next + 1, next + 2, next + 3, next + 4, next + 5);
    next += 6;
    results.push_back(fmt::format("%{}", next - 1));
  }
  const Graph graph = parse_graph(text + fmt::format("return {}\n", fmt::join(results, ", ")));
  std::vector<std::string> stored;
  for (const KernelRequest& request : fuse(graph, gpu_target("sm_90a")).kernels) {
    if (request.kind != KernelKind::kDot) continue;
    for (const Value member : request.members)
      if (request.stores(member))
        stored.push_back(std::string(op_name(graph.node(member).op)) + " " + graph.type(member).text());
  }
  EXPECT_THAT(stored, testing::UnorderedElementsAre("cast bf16[64, 128]", "dot f32[64, 128]", "cast bf16[64, 128]",
                                                    "cast bf16[64, 128]"));
}

// A GEMM of few rows reads its weights while earlier launches of the program run. So none of those may write them: not
// where they are assigned, themselves or behind a view, nor where the program casts or computes them.
TEST(GpuKernelText, OnlyWeightsThatTheProgramLeavesAreReadEarly) {
  for (const int rows : {4, 32, 64}) {
    SCOPED_TRACE(rows);
    const auto begins_early = [&](const std::string& weights, const std::string& assignment = "") {
      const std::string text = fmt::format(
          "%0 = input \"x\" : bf16[{0}, 512]\n{1}%9 = dot(%0, %8) {{transpose_b}} : bf16[{0}, 256]\n{2}return %9\n",
          rows, weights, assignment);
      int gemms = 0;
      bool is_early = false;
      for (const GeneratedKernel& kernel : kernels(text)) {
        if (kernel.source.find("gemm") == std::string::npos) continue;
        ++gemms;
        is_early = kernel.source.find("CAUSEWAY_EARLY_KERNEL(") != std::string::npos;
        if (rows > 16) EXPECT_EQ(kernel.source.find("kBeginsEarly = true") != std::string::npos, is_early);
      }
      EXPECT_EQ(gemms, 1) << text;
      return is_early;
    };
    const std::string input = "%8 = input \"w\" : bf16[256, 512]\n";
    const std::string viewed =
        "%1 = input \"w\" : bf16[512, 512]\n"
        "%8 = slice(%1) {start=[256, 0], limit=[512, 512], strides=[1, 1]} : bf16[256, 512]\n";
    EXPECT_TRUE(begins_early(input));
    EXPECT_TRUE(begins_early(viewed));
    EXPECT_FALSE(begins_early(input, "%10 = neg(%8) : bf16[256, 512]\nassign %8 = %10\n"));
    EXPECT_FALSE(begins_early(viewed, "%10 = neg(%1) : bf16[512, 512]\nassign %1 = %10\n"));
    EXPECT_FALSE(begins_early("%1 = input \"w\" : f32[256, 512]\n%8 = cast(%1) {dtype=bf16} : bf16[256, 512]\n"));
    EXPECT_FALSE(begins_early("%1 = input \"w\" : bf16[256, 512]\n%8 = neg(%1) : bf16[256, 512]\n"));
  }
}

TEST(GpuKernelText, OnlyARaggedEndIsChecked) {
  EXPECT_THAT(kernels(elementwise("f32[1024]"))[0].source, Not(HasSubstr("return;")));
  EXPECT_THAT(kernels(elementwise("f32[1020]"))[0].source, Not(HasSubstr("const int lanes")));
  EXPECT_THAT(kernels(elementwise("f32[1021]"))[0].source, HasSubstr("const int lanes = "));
}

TEST(GpuKernelText, IndicesAreNarrowWhereTheyFit) {
  EXPECT_THAT(kernels(elementwise("f32[32768, 32768]"))[0].source, HasSubstr("const int32_t position"));
  EXPECT_THAT(kernels(elementwise("f32[65536, 32768]"))[0].source, HasSubstr("const int64_t position"));
  EXPECT_THAT(kernels(elementwise("f32[B, 64]"))[0].source, HasSubstr("const int64_t position"));
}

TEST(GpuKernelText, ShortRowsShareABlockAndLongOnesHaveTheirOwn) {
  const auto sum = [](int rows, int columns) {
    return fmt::format("%0 = input \"x\" : f32[{0}, {1}]\n%1 = reduce_sum(%0) {{axes=[1]}} : f32[{0}]\nreturn %1\n",
                       rows, columns);
  };
  const GeneratedKernel wave = kernels(sum(64, 512))[0];
  EXPECT_THAT(wave.source, HasSubstr("team_reduce<32>"));
  EXPECT_EQ(wave.phases[0].tasks({}), 8);
  EXPECT_EQ(wave.phases[0].shared_bytes, 0);
  const GeneratedKernel block = kernels(sum(512, 4096))[0];
  EXPECT_THAT(block.source, HasSubstr("team_reduce<256>"));
  EXPECT_EQ(block.phases[0].tasks({}), 512);
  EXPECT_EQ(block.phases[0].threads, 256);
  // Of few rows each has as many threads as there are vectors.
  EXPECT_EQ(kernels(sum(16, 4096))[0].phases[0].threads, 512);
}

// Results must not depend on how many multiprocessors the device has.
TEST(GpuKernelText, PartsDependOnSizesOnly) {
  const std::string text = R"(%0 = input "x" : f32[1000000]
%1 = reduce_sum(%0) {axes=[0]} : f32[]
%2 = sqrt(%1) : f32[]
%3 = input "y" : f32[8192, 768]
%4 = reduce_sum(%3) {axes=[0]} : f32[768]
return %2, %4
)";
  Target large = gpu_target("sm_90a");
  Target small = large;
  small.parallel_units = 1;
  large.parallel_units = 300;
  const std::vector<GeneratedKernel> a = kernels(text, large), b = kernels(text, small);
  ASSERT_EQ(a.size(), 2u);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].source, b[i].source);
    ASSERT_EQ(a[i].phases.size(), 2u);
    EXPECT_GT(a[i].phases[0].tasks({}), 50);
    EXPECT_GT(a[i].workspace_bytes({}), 0);
  }
}

TEST(GpuKernelText, RowsStayInRegistersBetweenPasses) {
  const std::string source = kernels(R"(%0 = input "x" : f32[64, 768]
%1 = reduce_max(%0) {axes=[1]} : f32[64]
%2 = broadcast(%1) {axes=[0]} : f32[64, 768]
%3 = sub(%0, %2) : f32[64, 768]
return %3
)")[0]
                                 .source;
  EXPECT_THAT(source, HasSubstr("float k0["));
  EXPECT_EQ(source.find("b0[", source.find("b0[") + 1), std::string::npos) << "read twice:\n" << source;
}

// Read once from memory, by copies past registers, where the architecture has them and rows fit.
TEST(GpuKernelText, LongerRowsStayInSharedMemory) {
  const auto loop = [](int columns, const std::string& processor) {
    const std::string whole = fmt::format("bf16[640, {}]\n", columns);
    std::vector<GeneratedKernel> all =
        kernels("%0 = input \"x\" : " + whole + "%1 = reduce_max(%0) {axes=[1]} : bf16[640]\n" +
                    "%2 = broadcast(%1) {axes=[0]} : " + whole + "%3 = sub(%0, %2) : " + whole + "return %3\n",
                gpu_target(processor));
    EXPECT_EQ(all.size(), 1u);
    return all.front();
  };
  const GeneratedKernel two_blocks = loop(50304, "sm_90a");
  const std::string ptx = codegen::compile_module(two_blocks.source, gpu_target("sm_90a"));
  EXPECT_EQ(occurrences(ptx, "ld.global"), 0u) << ptx;
  EXPECT_GE(occurrences(ptx, "ld.shared.v4.b32"), 2u) << ptx;
  EXPECT_EQ(two_blocks.phases[0].threads, 512);
  EXPECT_EQ(two_blocks.phases[0].shared_bytes, 256 + 50304 * 2);
  // One block of a multiprocessor has all of its threads.
  EXPECT_EQ(loop(100000, "sm_90a").phases[0].threads, 1024);
  EXPECT_EQ(loop(50304, "sm_80").phases[0].threads, 1024);
  // Four blocks have parts of a row that none has room for.
  const GeneratedKernel four_blocks = loop(128256, "sm_90a");
  EXPECT_EQ(occurrences(codegen::compile_module(four_blocks.source, gpu_target("sm_90a")), "ld.global"), 0u);
  EXPECT_EQ(four_blocks.phases[0].cluster, 4);
  EXPECT_EQ(four_blocks.phases[0].tasks({}), 4 * 640);
  EXPECT_EQ(four_blocks.phases[0].shared_bytes, 256 + 256 + 128256 / 4 * 2);
  // Too long, without clusters or for them; short enough for registers; no such copies.
  EXPECT_THAT(loop(128256, "sm_80").source, Not(HasSubstr("copy_async_16")));
  EXPECT_THAT(loop(1 << 20, "sm_90a").source, Not(HasSubstr("copy_async_16")));
  EXPECT_THAT(loop(4096, "sm_90a").source, Not(HasSubstr("copy_async_16")));
  EXPECT_THAT(loop(20000, "gfx942").source, Not(HasSubstr("copy_async_16")));
}

// What goes over the same rows without reading one, as a token's share of a loss, takes no launch of its own, so that
// what reads it and the rows is not held up either.
TEST(GpuKernelText, ANumberOfEachRowGoesWithTheLoopOverRows) {
  const std::vector<GeneratedKernel> all = kernels(R"(%0 = input "logits" : bf16[64, 4096]
%1 = input "all_targets" : i32[128]
%2 = slice(%1) {start=[0], limit=[64], strides=[1]} : i32[64]
%3 = reduce_max(%0) {axes=[1]} : bf16[64]
%4 = broadcast(%2) {axes=[0]} : i32[64, 4096]
%5 = iota {axes=[1]} : i32[64, 4096]
%6 = eq(%4, %5) : bool[64, 4096]
%7 = cast(%6) {dtype=bf16} : bf16[64, 4096]
%8 = mul(%7, %0) : bf16[64, 4096]
%9 = reduce_max(%8) {axes=[1]} : bf16[64]
%10 = add(%3, %9) : bf16[64]
%11 = reduce_sum(%10) {axes=[0]} : bf16[]
%12 = cast(%2) {dtype=f32} : f32[64]
%13 = tanh(%12) : f32[64]
%14 = cast(%13) {dtype=bf16} : bf16[64]
%15 = broadcast(%14) {axes=[0]} : bf16[64, 4096]
%16 = broadcast(%3) {axes=[0]} : bf16[64, 4096]
%17 = sub(%0, %16) : bf16[64, 4096]
%18 = mul(%17, %15) : bf16[64, 4096]
return %11, %18
)");
  EXPECT_EQ(all.size(), 2u);
}

TEST(GpuKernelText, ConditionsOfWholeVectorsAreDecidedOnce) {
  EXPECT_THAT(kernels(R"(%0 = input "q" : bf16[64, 768]
%1 = input "k" : bf16[64, 768]
%2 = concat(%0, %1) {axes=[1]} : bf16[64, 1536]
return %2
)")[0]
                  .source,
              HasSubstr("if (r1 * 8 < 768)"));
}

// Of a vector in which no position is the row's, and all come before an end, comparisons cost nothing.
TEST(GpuKernelText, ComparisonsOfPositionsAreSettledForAVector) {
  const auto source = [](int columns, const std::string& comparison) {
    const std::string whole = fmt::format("[640, {}]\n", columns);
    return kernels("%0 = input \"x\" : bf16" + whole + "%1 = input \"of_row\" : i32[640]\n" +
                   "%2 = input \"of_each\" : i32" + whole + "%3 = iota {axes=[1]} : i32" + whole +
                   "%4 = broadcast(%1) {axes=[0]} : i32" + whole + "%5 = " + comparison + " : bool" + whole +
                   "%6 = neg(%0) : bf16" + whole + "%7 = select(%5, %6, %0) : bf16" + whole +
                   "%8 = reduce_max(%7) {axes=[1]} : bf16[640]\n%9 = broadcast(%8) {axes=[0]} : bf16" + whole +
                   "%10 = sub(%0, %9) : bf16" + whole + "return %10\n")[0]
        .source;
  };
  const std::string equal = source(50304, "eq(%3, %4)");
  EXPECT_EQ(occurrences(equal, "constexpr bool settled = true;"), 1u) << equal;
  EXPECT_THAT(equal, HasSubstr("c1 * 8 + 7)) {"));
  EXPECT_THAT(source(50304, "eq(%4, %3)"), HasSubstr("!settled && "));
  EXPECT_THAT(source(50304, "lt(%3, %4)"), HasSubstr("if (c1 * 8 + 7 < "));
  EXPECT_THAT(source(50304, "le(%3, %4)"), HasSubstr("if (c1 * 8 + 7 <= "));
  // Either outcome is frequent; each lane has its own; there is no loop at run time.
  EXPECT_THAT(source(50304, "lt(%4, %3)"), Not(HasSubstr("settled")));
  EXPECT_THAT(source(50304, "eq(%3, %2)"), Not(HasSubstr("settled")));
  EXPECT_THAT(source(4096, "eq(%3, %4)"), Not(HasSubstr("settled")));
  EXPECT_THAT(kernels(R"(%0 = iota {axes=[1]} : i32[640, 50304]
%1 = constant 50257 : i32[640, 50304]
%2 = lt(%0, %1) : bool[640, 50304]
return %2
)")[0]
                  .source,
              Not(HasSubstr("settled")));
}

// A wave reads whole sectors of f32, whatever narrower type it stores.
TEST(GpuKernelText, RowsInRegistersAreReadSixteenBytesOfTheWidestTensorAtATime) {
  const auto norm = [](int columns) {
    const std::string whole = fmt::format("[640, {}]\n", columns);
    return kernels("%0 = input \"x\" : f32" + whole + "%1 = reduce_max(%0) {axes=[1]} : f32[640]\n" +
                   "%2 = broadcast(%1) {axes=[0]} : f32" + whole + "%3 = sub(%0, %2) : f32" + whole +
                   "%4 = cast(%3) : bf16" + whole + "return %4\n")[0];
  };
  EXPECT_THAT(norm(1600).source, HasSubstr("bf16 v1[4];"));
  EXPECT_EQ(norm(1600).phases[0].threads, 128);
  // A wave for a row.
  EXPECT_THAT(norm(1024).source, HasSubstr("team_reduce<32>"));
  EXPECT_THAT(norm(1028).source, HasSubstr("team_reduce<128>"));
}

TEST(GpuKernelText, TransposesWorkOnTiles) {
  const GeneratedKernel kernel = kernels(R"(%0 = input "x" : f32[96, 256]
%1 = permute(%0) {axes=[1, 0]} : f32[256, 96]
return %1
)")[0];
  EXPECT_THAT(kernel.source, HasSubstr("transpose_tile"));
  EXPECT_EQ(kernel.phases[0].tasks({}), 8 * 3);
  // With arithmetic on the way, threads are tiled and nothing passes through shared memory.
  const GeneratedKernel scaled = kernels(R"(%0 = input "x" : f32[96, 256]
%1 = permute(%0) {axes=[1, 0]} : f32[256, 96]
%2 = exp2(%1) : f32[256, 96]
return %2
)")[0];
  EXPECT_THAT(scaled.source, HasSubstr("read_tiles"));
  EXPECT_EQ(scaled.phases[0].tasks({}), 16 * 2);
}

}  // namespace
}  // namespace causeway::program
