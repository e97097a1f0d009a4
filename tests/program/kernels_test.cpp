// Kernels of every kind against the reference interpreter, on graphs written out by hand: those of this processor, and
// of one without AVX-512 where this one has it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "causeway/device/cpu/host_target.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "tests/comparison/bounds.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

class Kernels : public testing::Test {
 protected:
  // Runs the graph on random inputs and compares; integer inputs are drawn from [0, 4).
  void expect_reference(const std::string& text) {
    const Graph graph = parse_graph(text);
    std::vector<HostTensor> inputs;
    uint64_t seed = 1;
    for (const Value input : graph.inputs()) {
      const TensorType& type = graph.type(input);
      const bool floating = is_float(type.dtype);
      inputs.push_back(random_host_tensor(type.dtype, evaluate(type.shape, bindings_), seed++, floating ? -1 : 0,
                                          floating                     ? 1
                                          : type.dtype == DType::kBool ? 2
                                                                       : 4));
    }
    const std::vector<HostTensor> reference = interpret(graph, inputs, bindings_, Rounding::kRounded);
    source_ = expect_values(runner_, graph, inputs, reference);
    if (without_avx512_) avx2_source_ = expect_values(*without_avx512_, graph, inputs, reference);
  }

  // The first kernel's text.
  std::string expect_values(ProgramRunner& runner, const Graph& graph, const std::vector<HostTensor>& inputs,
                            const std::vector<HostTensor>& reference) {
    Program program(graph, runner.device(), runner.library(), runner.arena());
    kinds_.clear();
    for (const KernelReport& report : program.kernel_reports()) kinds_.push_back(report.kind);
    const std::vector<HostTensor> actual = runner.run(program, inputs, bindings_);
    EXPECT_EQ(actual.size(), reference.size());
    for (size_t i = 0; i < actual.size() && i < reference.size(); ++i) {
      const Comparison comparison = compare(actual[i], reference[i], bounds::of_graph(graph, bindings_));
      EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text << "\n" << program.sources()[0];
    }
    return program.sources()[0];
  }

  static std::optional<ProgramRunner> runner_without_avx512() {
    if (!host_target().has_avx2()) return std::nullopt;
    return std::optional<ProgramRunner>(std::in_place,
                                        std::make_shared<CpuDevice>(host_target_of_level("x86-64-v3"), 2));
  }

  ProgramRunner runner_{2};
  std::optional<ProgramRunner> without_avx512_ = runner_without_avx512();
  SymbolBindings bindings_;
  std::vector<std::string> kinds_;
  std::string source_;       // of the first kernel
  std::string avx2_source_;  // the same, without AVX-512; empty without AVX2
};

TEST_F(Kernels, ElementwiseChainIsOneLoop) {
  expect_reference(R"(%0 = input "x" : f32[5, 1000]
%1 = input "y" : f32[5, 1000]
%2 = mul(%0, %1) : f32[5, 1000]
%3 = exp2(%2) : f32[5, 1000]
%4 = add(%3, %0) : f32[5, 1000]
%5 = cast(%4) : bf16[5, 1000]
return %4, %5
)");
  EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
}

TEST_F(Kernels, BiasIsReadAlongItsOwnAxis) {
  expect_reference(R"(%0 = input "x" : f32[4, 7, 33]
%1 = input "bias" : f32[33]
%2 = input "row" : f32[7]
%3 = broadcast(%1) {axes=[2]} : f32[4, 7, 33]
%4 = broadcast(%2) {axes=[1]} : f32[4, 7, 33]
%5 = add(%0, %3) : f32[4, 7, 33]
%6 = mul(%5, %4) : f32[4, 7, 33]
return %6
)");
}

TEST_F(Kernels, LayerNormIsOneLoop) {
  expect_reference(R"(%0 = input "x" : f32[37, 96]
%1 = reduce_sum(%0) {axes=[1]} : f32[37]
%2 = constant 0.010416667 : f32[37]
%3 = mul(%1, %2) : f32[37]
%4 = broadcast(%3) {axes=[0]} : f32[37, 96]
%5 = sub(%0, %4) : f32[37, 96]
%6 = mul(%5, %5) : f32[37, 96]
%7 = reduce_sum(%6) {axes=[1]} : f32[37]
%8 = mul(%7, %2) : f32[37]
%9 = constant 1e-05 : f32[37]
%10 = add(%8, %9) : f32[37]
%11 = rsqrt(%10) : f32[37]
%12 = broadcast(%11) {axes=[0]} : f32[37, 96]
%13 = mul(%5, %12) : f32[37, 96]
%14 = cast(%13) : bf16[37, 96]
return %14, %11
)");
  EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
}

TEST_F(Kernels, SoftmaxIsOneLoop) {
  expect_reference(R"(%0 = input "x" : f32[9, 5, 77]
%1 = reduce_max(%0) {axes=[2]} : f32[9, 5]
%2 = broadcast(%1) {axes=[0, 1]} : f32[9, 5, 77]
%3 = sub(%0, %2) : f32[9, 5, 77]
%4 = exp2(%3) : f32[9, 5, 77]
%5 = reduce_sum(%4) {axes=[2]} : f32[9, 5]
%6 = broadcast(%5) {axes=[0, 1]} : f32[9, 5, 77]
%7 = div(%4, %6) : f32[9, 5, 77]
return %7
)");
  EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
}

// The first pass over a row asks for what the next block reads; the second one finds it in the cache.
TEST_F(Kernels, LongRowsComeInBlocks) {
  expect_reference(R"(%0 = input "x" : bf16[3, 4171]
%1 = cast(%0) : f32[3, 4171]
%2 = reduce_max(%1) {axes=[1]} : f32[3]
%3 = broadcast(%2) {axes=[0]} : f32[3, 4171]
%4 = sub(%1, %3) : f32[3, 4171]
%5 = exp2(%4) : f32[3, 4171]
%6 = reduce_sum(%5) {axes=[1]} : f32[3]
%7 = broadcast(%6) {axes=[0]} : f32[3, 4171]
%8 = div(%5, %7) : f32[3, 4171]
return %8
)");
  EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
  EXPECT_THAT(source_, testing::HasSubstr("prefetch_elements(b0 + r0 * 4171 + c1_block + 512, 512);"));
  EXPECT_EQ(source_.find("prefetch_elements"), source_.rfind("prefetch_elements"));
  // Without rows, all operands.
  expect_reference(R"(%0 = input "x" : f32[9001]
%1 = input "y" : bf16[9001]
%2 = cast(%1) : f32[9001]
%3 = mul(%0, %2) : f32[9001]
return %3
)");
  for (const char* read :
       {"prefetch_elements(b0 + c0_block + 512, 512);", "prefetch_elements(b1 + c0_block + 512, 512);"})
    EXPECT_THAT(source_, testing::HasSubstr(read));
}

TEST_F(Kernels, ColumnsOfLaterRowsAreAskedFor) {
  expect_reference(R"(%0 = input "x" : f32[5, 24, 136]
%1 = input "y" : bf16[5, 24, 136]
%2 = cast(%1) : f32[5, 24, 136]
%3 = mul(%0, %2) : f32[5, 24, 136]
%4 = reduce_sum(%3) {axes=[0, 1]} : f32[136]
return %4
)");
  EXPECT_THAT(kinds_, testing::ElementsAre("column_reduce"));
  for (const char* buffer : {"b0", "b1"})
    EXPECT_THAT(source_, testing::HasSubstr(std::string("prefetch_elements(") + buffer +
                                            " + k0 * 3264 + k1 * 136 + 1088 + begin, end - begin);"));
}

TEST_F(Kernels, ReductionsOverAnyAxes) {
  expect_reference(R"(%0 = input "x" : f32[6, 5, 33]
%1 = reduce_sum(%0) {axes=[0]} : f32[5, 33]
%2 = reduce_sum(%0) {axes=[1]} : f32[6, 33]
%3 = reduce_max(%0) {axes=[0, 1]} : f32[33]
%4 = reduce_sum(%0) {axes=[0, 2]} : f32[5]
%5 = reduce_max(%0) {axes=[0, 1, 2]} : f32[]
%6 = reduce_sum(%0) {axes=[1, 2]} : f32[6]
return %1, %2, %3, %4, %5, %6
)");
}

TEST_F(Kernels, MovementInsideLoops) {
  expect_reference(R"(%0 = input "x" : f32[4, 6, 8]
%1 = slice(%0) {start=[0, 0, 0], limit=[4, 6, 4], strides=[1, 1, 1]} : f32[4, 6, 4]
%2 = slice(%0) {start=[0, 0, 4], limit=[4, 6, 8], strides=[1, 1, 1]} : f32[4, 6, 4]
%3 = neg(%2) : f32[4, 6, 4]
%4 = concat(%3, %1) {axes=[2]} : f32[4, 6, 8]
%5 = permute(%4) {axes=[2, 0, 1]} : f32[8, 4, 6]
%6 = pad(%5) {start=[1, 0, 2], limit=[0, 1, 0], value=0.5} : f32[9, 5, 8]
%7 = reshape(%6) : f32[45, 8]
%8 = reshape(%7) : f32[9, 40]
return %4, %5, %8
)");
}

// Elements that are chosen by their place, narrower than masked loads of AVX2: as rotary embeddings.
TEST_F(Kernels, PartsOfRowsAreLoopsOfTheirOwnWithoutAvx512) {
  expect_reference(R"(%0 = input "x" : bf16[5, 7, 40]
%1 = slice(%0) {start=[0, 0, 0], limit=[5, 7, 16], strides=[1, 1, 1]} : bf16[5, 7, 16]
%2 = slice(%0) {start=[0, 0, 16], limit=[5, 7, 40], strides=[1, 1, 1]} : bf16[5, 7, 24]
%3 = neg(%2) : bf16[5, 7, 24]
%4 = concat(%3, %1) {axes=[2]} : bf16[5, 7, 40]
return %4
)");
  if (avx2_source_.empty()) GTEST_SKIP() << "this processor has no AVX2";
  EXPECT_THAT(avx2_source_, testing::HasSubstr(" = 0; c2 < 24; ++c2"));
  EXPECT_THAT(avx2_source_, testing::HasSubstr(" = 24; c2 < 40; ++c2"));
}

TEST_F(Kernels, GatherAndScatterAdd) {
  expect_reference(R"(%0 = input "table" : f32[4, 40]
%1 = input "indices" : i32[3, 5]
%2 = gather(%0, %1) {axes=[0]} : f32[3, 5, 40]
%3 = constant 0 : f32[4, 40]
%4 = scatter_add(%3, %1, %2) {axes=[0]} : f32[4, 40]
return %2, %4
)");
}

TEST_F(Kernels, ScatterAddMayReplaceRows) {
  expect_reference(R"(%0 = input "table" : f32[4, 240]
%1 = input "indices" : i32[3, 5]
%2 = input "updates" : f32[3, 5, 240]
%3 = scatter_add(%0, %1, %2) {axes=[0], replaces} : f32[4, 240]
%4 = input "kept" : bf16[4, 40]
%5 = input "one" : i32[1]
%6 = input "narrow" : bf16[1, 40]
%7 = scatter_add(%4, %5, %6) {axes=[0], replaces} : bf16[4, 40]
assign %4 = %7
return %3
)");
}

TEST_F(Kernels, WalksAlongAnAxis) {
  expect_reference(R"(%0 = input "x" : f32[6, 9]
%1 = argmax(%0) {axes=[1]} : i32[6]
%2 = cumsum(%0) {axes=[0]} : f32[6, 9]
%3:2 = topk(%0) {count=3} : f32[6, 3], i32[6, 3]
return %1, %2, %3.0, %3.1
)");
}

TEST_F(Kernels, DotWithEpilogue) {
  expect_reference(R"(%0 = input "a" : f32[2, 19, 40]
%1 = input "w" : f32[40, 50]
%2 = input "bias" : f32[50]
%3 = reshape(%0) : f32[38, 40]
%4 = dot(%3, %1) : f32[38, 50]
%5 = broadcast(%2) {axes=[1]} : f32[38, 50]
%6 = add(%4, %5) : f32[38, 50]
%7 = tanh(%6) : f32[38, 50]
%8 = reshape(%7) : f32[2, 19, 50]
return %8
)");
  EXPECT_THAT(kinds_, testing::ElementsAre("dot"));
}

// Whole panels and parts of them, along K and across it, and what the epilogue reads where it stores.
TEST_F(Kernels, DotOfPanelsFetchesWhatItsEpilogueReads) {
  for (const char* dtype : {"bf16", "f32"}) {
    for (const bool along : {true, false}) {
      expect_reference(fmt::format(R"(%0 = input "a" : {0}[{1}]
%1 = input "b" : {0}[{2}]
%2 = input "c" : f32[75, 101]
%3 = dot(%0, %1) {{{3}}} : f32[75, 101]
%4 = add(%3, %2) : f32[75, 101]
return %4
)",
                                   dtype, along ? "75, 90" : "90, 75", along ? "101, 90" : "90, 101",
                                   along ? "transpose_b" : "transpose_a"));
      if (avx2_source_.empty()) continue;
      EXPECT_THAT(avx2_source_, testing::HasSubstr("void prefetch_epilogue("));
      EXPECT_EQ(avx2_source_.find("kOperandsAreRounded = true") != std::string::npos, std::string(dtype) == "bf16");
    }
  }
}

// Sizes that processors stream on skinny paths (but for pairs of bf16), and those that every processor packs.
TEST_F(Kernels, DotInEveryOrientation) {
  for (const auto& [m, n] : {std::pair(21, 30), std::pair(45, 70)}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        std::vector<std::string> flags;
        if (transpose_a) flags.push_back("transpose_a");
        if (transpose_b) flags.push_back("transpose_b");
        expect_reference(fmt::format(R"(%0 = input "a" : bf16[{}]
%1 = input "b" : bf16[{}]
%2 = dot(%0, %1){} : f32[3, {}, {}]
return %2
)",
                                     transpose_a ? fmt::format("3, 17, {}", m) : fmt::format("3, {}, 17", m),
                                     transpose_b ? fmt::format("3, {}, 17", n) : fmt::format("3, 17, {}", n),
                                     flags.empty() ? "" : fmt::format(" {{{}}}", fmt::join(flags, ", ")), m, n));
      }
    }
  }
}

TEST_F(Kernels, SymbolicSizes) {
  bindings_[Dim::symbol_id("B")] = 3;
  bindings_[Dim::symbol_id("T")] = 11;
  expect_reference(R"(%0 = input "x" : f32[B, T, 24]
%1 = input "w" : f32[24, 10]
%2 = reshape(%0) : f32[B*T, 24]
%3 = dot(%2, %1) : f32[B*T, 10]
%4 = reshape(%3) : f32[B, T, 10]
%5 = reduce_sum(%4) {axes=[1]} : f32[B, 10]
%6 = broadcast(%5) {axes=[0, 2]} : f32[B, T, 10]
%7 = mul(%4, %6) : f32[B, T, 10]
return %7
)");
}

// Few heads and many blocks of queries: what the launch thinks of them must be what the kernel was written for.
TEST_F(Kernels, AttentionOfSymbolicLengths) {
  bindings_[Dim::symbol_id("T")] = 260;
  expect_reference(R"(%0 = input "q" : f32[1, T, 4, 16]
%1 = input "k" : f32[1, T, 2, 16]
%2 = input "v" : f32[1, T, 2, 16]
%3:2 = attention(%0, %1, %2) {scale=0.25} : f32[1, T, 4, 16], f32[1, 4, T]
return %3.0
)");
}

}  // namespace
}  // namespace causeway::program
