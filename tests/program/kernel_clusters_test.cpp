// Which kernels of small graphs the values in memory join. Each test has a pair that joins and one that does not.
#include "causeway/program/kernel_clusters.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/program/fusion_graphs.h"

namespace causeway::program {
namespace {

const Target kOneProcessor;

std::string clustered(const std::string& text, const Target& target, bool fixed_order = false) {
  const Graph graph = parse_graph(text);
  return kernels_text(clusters(FusionProblem(graph, target, fixed_order)));
}
std::string clustered_on_gpu(const std::string& text, const std::string& architecture = "sm_80",
                             bool fixed_order = false) {
  return clustered(text, gpu_target(architecture), fixed_order);
}

TEST(KernelClusters, ShareWhatTheyRead) {
  const auto text = [](const std::string& operand, const std::string& type) {
    return "%0 = input \"x\" : f32[64]\n%1 = input \"y\" : " + type + "\n%2 = neg(%0) : f32[64]\n%3 = abs(" + operand +
           ") : " + (operand == "%0" ? "f32[64]" : type) + "\nreturn %2, %3\n";
  };
  for (const Target& target : {kOneProcessor, gpu_target("sm_80")}) {
    EXPECT_EQ(clustered(text("%0", "f32[64]"), target), "loop 2 3");
    EXPECT_EQ(clustered(text("%1", "f32[64]"), target), "loop 2, loop 3");
    // What it reads itself computes, of as many elements.
    EXPECT_EQ(clustered(text("%2", "f32[64]"), target), "loop 2 3");
  }
}

TEST(KernelClusters, HaveOneNumberOfElements) {
  EXPECT_EQ(clustered(R"(%0 = input "x" : f32[64]
%1 = neg(%0) : f32[64]
%2 = slice(%0) {start=[0], limit=[32], strides=[1]} : f32[32]
%3 = abs(%2) : f32[32]
return %1, %3
)",
                      kOneProcessor),
            "loop 1, loop 3");
  EXPECT_EQ(clustered(R"(%0 = input "x" : f32[64]
%1 = slice(%0) {start=[0], limit=[32], strides=[1]} : f32[32]
%2 = abs(%1) : f32[32]
%3 = neg(%0) : f32[64]
return %2, %3
)",
                      kOneProcessor),
            "loop 2, loop 3");
}

// Sums of one element each have rows of a single column, which is not what else is done to those elements.
TEST(KernelClusters, NotOfSumsOverAnAxisOfOne) {
  EXPECT_EQ(clustered(R"(%0 = input "x" : f32[1, 64]
%1 = neg(%0) : f32[1, 64]
%2 = reduce_sum(%0) {axes=[0]} : f32[64]
%3 = abs(%2) : f32[64]
return %1, %2, %3
)",
                      kOneProcessor),
            "loop 1, loop 2, loop 3");
}

// The sums of a row, what follows from them for the row and for its elements, and a second sum.
TEST(KernelClusters, OfRows) {
  const std::string text = R"(%0 = input "x" : f32[8, 64]
%1 = reduce_max(%0) {axes=[1]} : f32[8]
%2 = broadcast(%1) {axes=[0]} : f32[8, 64]
%3 = sub(%0, %2) : f32[8, 64]
%4 = reduce_sum(%3) {axes=[1]} : f32[8]
%5 = neg(%4) : f32[8]
return %3, %5
)";
  EXPECT_EQ(clustered(text, kOneProcessor), "loop 1 3 4 5");
  EXPECT_EQ(clustered_on_gpu(text), "loop 1 3 4 5");
}

// Rows of other lengths, and sums over other axes.
TEST(KernelClusters, NotOfOtherRows) {
  EXPECT_EQ(clustered(R"(%0 = input "x" : f32[8, 64]
%1 = reduce_sum(%0) {axes=[1]} : f32[8]
%2 = reshape(%0) : f32[16, 32]
%3 = reduce_sum(%2) {axes=[1]} : f32[16]
%4 = reduce_sum(%0) {axes=[0]} : f32[64]
return %1, %3, %4
)",
                      kOneProcessor),
            "loop 1, loop 3, column_reduce 4");
}

// A number for each row that shares a tensor with a loop over rows would be a launch of its own.
TEST(KernelClusters, OfNumbersForEachRowWhereLaunchesCost) {
  const std::string text = R"(%0 = input "x" : f32[8, 64]
%1 = reduce_sum(%0) {axes=[1]} : f32[8]
%2 = slice(%0) {start=[0, 0], limit=[8, 1], strides=[1, 1]} : f32[8, 1]
%3 = abs(%2) : f32[8, 1]
return %1, %3
)";
  EXPECT_EQ(clustered_on_gpu(text), "loop 1 3");
  EXPECT_EQ(clustered(text, kOneProcessor), "loop 1, loop 3");
}

// Reading one bias twice costs nothing.
TEST(KernelClusters, NotOfWhatSharesLittle) {
  EXPECT_EQ(clustered(R"(%0 = input "x" : f32[8, 64]
%1 = input "y" : f32[8, 64]
%2 = input "bias" : f32[64]
%3 = broadcast(%2) {axes=[1]} : f32[8, 64]
%4 = add(%0, %3) : f32[8, 64]
%5 = add(%1, %3) : f32[8, 64]
return %4, %5
)",
                      kOneProcessor),
            "loop 4, loop 5");
}

TEST(KernelClusters, HaveTwelveMembersAtMost) {
  std::string text = "%0 = input \"x\" : f32[64]\n", results;
  for (int i = 1; i <= 13; ++i) {
    text += fmt::format("%{} = pow(%0, %{}) : f32[64]\n", i, i - 1);
    results += fmt::format("{}%{}", i == 1 ? "" : ", ", i);
  }
  EXPECT_EQ(clustered(text + "return " + results + "\n", kOneProcessor), "loop 1 2 3 4 5 6 7 8 9 10 11 12, loop 13");
}

// `reads` tensors for the first value, and three others for one that shares one of the first.
TEST(KernelClusters, ReadTwentyFourTensorsAtMost) {
  const auto text = [](int reads) {
    std::string inputs;
    for (int i = 0; i < reads + 3; ++i) inputs += fmt::format("%{0} = input \"x{0}\" : f32[64]\n", i);
    int next = reads + 3;
    const auto sum = [&](int first, int last, int shared) {
      int so_far = shared;
      for (int i = first; i < last; ++i) {
        inputs += fmt::format("%{} = add(%{}, %{}) : f32[64]\n", next, so_far, i);
        so_far = next++;
      }
      return so_far;
    };
    const int first = sum(1, reads, 0), second = sum(reads, reads + 3, 0);
    return inputs + fmt::format("return %{}, %{}\n", first, second);
  };
  EXPECT_EQ(clustered(text(21), kOneProcessor), "loop 43 46");
  EXPECT_EQ(clustered(text(22), kOneProcessor), "loop 45, loop 48");
}

// Kernels that nothing joins, between two values of %0.
std::string apart(int kernels_between) {
  std::string text = "%0 = input \"x\" : f32[64]\n%1 = neg(%0) : f32[64]\n", results = "%1";
  for (int i = 0; i < kernels_between; ++i) {
    text += fmt::format("%{0} = input \"y{0}\" : f32[9, {1}]\n%{2} = cumsum(%{0}) {{axes=[1]}} : f32[9, {1}]\n",
                        2 + 2 * i, 3 + i, 3 + 2 * i);
    results += fmt::format(", %{}", 3 + 2 * i);
  }
  return text + fmt::format("%{0} = abs(%0) : f32[64]\nreturn {1}, %{0}\n", 2 + 2 * kernels_between, results);
}

TEST(KernelClusters, LookBackTwelveKernels) {
  EXPECT_TRUE(clustered(apart(11), kOneProcessor).starts_with("loop 1 24, cumsum"));
  EXPECT_TRUE(clustered(apart(12), kOneProcessor).ends_with("cumsum 25, loop 26"));
}

// A kernel that comes before what a value reads moves behind it, unless something between needs its results.
TEST(KernelClusters, WaitForWhatAValueReads) {
  const auto text = [](const std::string& scanned) {
    return "%0 = input \"x\" : f32[9, 64]\n%1 = input \"y\" : f32[9, 64]\n%2 = neg(%0) : f32[9, 64]\n%3 = cumsum(" +
           scanned + ") {axes=[1]} : f32[9, 64]\n%4 = add(%0, %3) : f32[9, 64]\nreturn %2, %3, %4\n";
  };
  EXPECT_EQ(clustered(text("%1"), kOneProcessor), "cumsum 3, loop 2 4");
  EXPECT_EQ(clustered(text("%2"), kOneProcessor), "loop 2, cumsum 3, loop 4");
}

// A GEMM of [m, 96] and [96, n], of which `node` follows as %2 or later.
std::string gemm_with(int m, int n, const std::string& nodes, const std::string& type = "f32",
                      const std::string& result = "f32") {
  std::string text = fmt::format(R"(%0 = input "a" : {2}[{0}, 96]
%1 = input "b" : {2}[96, {1}]
%2 = dot(%0, %1) : {3}[{0}, {1}]
)",
                                 m, n, type, result) +
                     nodes;
  const std::string shape = fmt::format("[{}, {}]", m, n);
  for (size_t at = text.find("[]"); at != std::string::npos; at = text.find("[]", at)) text.replace(at, 2, shape);
  return text;
}

// tanh is 8 operations, what takes tiles of a GPU's GEMM longer than a launch is more than 6.
TEST(KernelClusters, OfEpilogues) {
  const std::string cheap = "%3 = neg(%2) : f32[]\nreturn %3\n", costly = "%3 = tanh(%2) : f32[]\nreturn %3\n";
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, cheap)), "dot 2 3");
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, costly)), "dot 2, loop 3");
  EXPECT_EQ(clustered(gemm_with(64, 128, costly), kOneProcessor), "dot 2 3");
  // Reading the weights of a skinny GEMM takes longer than that.
  EXPECT_EQ(clustered_on_gpu(gemm_with(16, 128, costly)), "dot 2 3");
  EXPECT_EQ(clustered_on_gpu(gemm_with(17, 128, costly)), "dot 2, loop 3");
}

// An epilogue has the elements of the result, one by one.
TEST(KernelClusters, NotOfWhatIsNoEpilogue) {
  EXPECT_EQ(clustered(gemm_with(64, 128, "%3 = reduce_sum(%2) {axes=[1]} : f32[64]\nreturn %3\n"), kOneProcessor),
            "dot 2, loop 3");
  // It shares an operand, and that is not what blocks of a GEMM walk over.
  EXPECT_EQ(clustered(gemm_with(96, 96, "%3 = neg(%0) : f32[]\nreturn %2, %3\n"), kOneProcessor), "dot 2, loop 3");
}

// The rounded result is written by the GEMM, however much was placed since.
TEST(KernelClusters, OfRoundedGemms) {
  std::string between, results;
  for (int i = 0; i < 13; ++i) {
    between += fmt::format("%{0} = input \"y{0}\" : f32[9, {1}]\n%{2} = cumsum(%{0}) {{axes=[1]}} : f32[9, {1}]\n",
                           3 + 2 * i, 3 + i, 4 + 2 * i);
    results += fmt::format(", %{}", 4 + 2 * i);
  }
  const std::string rounded = between + "%29 = cast(%2) : bf16[]\nreturn %29" + results + "\n";
  EXPECT_TRUE(clustered(gemm_with(64, 128, rounded), kOneProcessor).starts_with("dot 2 29, cumsum"));
  const std::string negative = between + "%29 = neg(%2) : f32[]\nreturn %29" + results + "\n";
  EXPECT_TRUE(clustered(gemm_with(64, 128, negative), kOneProcessor).ends_with(", loop 29"));
}

// tanh of a wgmma GEMM's result, which TMA stores.
TEST(KernelClusters, OfHiddenEpilogues) {
  const std::string once = "%3 = tanh(%2) : bf16[]\nreturn %3\n";
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, once, "bf16", "bf16"), "sm_90a"), "dot 2 3");
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, once, "bf16", "bf16"), "sm_80"), "dot 2, loop 3");
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, once, "bf16", "bf16"), "sm_90a", true), "dot 2, loop 3");
  // Rows of 16 bytes, of one type of 16 bits.
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 124, once, "bf16", "bf16"), "sm_90a"), "dot 2, loop 3");
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, "%3 = tanh(%2) : f32[]\nreturn %3\n", "bf16"), "sm_90a"),
            "dot 2, loop 3");
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, once, "f32", "bf16"), "sm_90a"), "dot 2, loop 3");
  const std::string wider = "%3 = cast(%2) : f32[]\n%4 = tanh(%3) : f32[]\nreturn %4\n";
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, wider, "bf16", "bf16"), "sm_90a"), "dot 2, loop 4");
  // Two results at most.
  const std::string twice = "%3 = tanh(%2) : bf16[]\n%4 = sin(%2) : bf16[]\nreturn %3, %4\n";
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, twice, "bf16", "bf16"), "sm_90a"), "dot 2 3, loop 4");
  // More than 30 operations are not hidden.
  const std::string costlier = "%3 = pow(%2, %2) : bf16[]\n%4 = tanh(%3) : bf16[]\n%5 = exp2(%4) : bf16[]\nreturn %5\n";
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, costlier, "bf16", "bf16"), "sm_90a"), "dot 2, loop 5");
  // Nor is reading another tensor of the result's size.
  const std::string more = "%3 = input \"x\" : bf16[]\n%4 = tanh(%2) : bf16[]\n%5 = add(%4, %3) : bf16[]\nreturn %5\n";
  EXPECT_EQ(clustered_on_gpu(gemm_with(64, 128, more, "bf16", "bf16"), "sm_90a"), "dot 2, loop 5");
}

// A GPU transposes in shared memory.
TEST(KernelClusters, OfCopiesInAnotherOrder) {
  const std::string text = R"(%0 = input "x" : f32[64, 64]
%1 = permute(%0) {axes=[1, 0]} : f32[64, 64]
%2 = neg(%0) : f32[64, 64]
return %1, %2
)";
  EXPECT_EQ(clustered_on_gpu(text), "loop 1, loop 2");
  EXPECT_EQ(clustered(text, kOneProcessor), "loop 1 2");
  // What is computed as well is no copy.
  EXPECT_EQ(clustered_on_gpu(R"(%0 = input "x" : f32[64, 64]
%1 = neg(%0) : f32[64, 64]
%2 = permute(%1) {axes=[1, 0]} : f32[64, 64]
%3 = abs(%0) : f32[64, 64]
return %2, %3
)"),
            "loop 2 3");
}

// A matrix of 8 bits that is computed is stored in the other order, too.
TEST(KernelClusters, OfEightBitsInBothOrders) {
  const auto text = [](const std::string& type, const std::string& columns, const std::string& rest) {
    const std::string across = type + "[" + columns + ", 64]\n", along = type + "[64, " + columns + "]\n";
    return "%0 = input \"x\" : f32[64, " + columns + "]\n%1 = cast(%0) : " + along +
           "%2 = permute(%1) {axes=[1, 0]} : " + across + "return %1, %2" + rest + "\n";
  };
  EXPECT_EQ(clustered_on_gpu(text("f8e4m3", "32", "")), "loop 1 2");
  EXPECT_EQ(clustered_on_gpu(text("f8e4m3", "24", "")), "loop 1, loop 2");
  EXPECT_EQ(clustered_on_gpu(text("bf16", "32", "")), "loop 1, loop 2");
  EXPECT_EQ(clustered(text("f8e4m3", "32", ""), kOneProcessor), "loop 1, loop 2");
  // The sums of rows with it keep the tiles away.
  EXPECT_EQ(clustered_on_gpu(R"(%0 = input "x" : f32[64, 32]
%1 = reduce_max(%0) {axes=[1]} : f32[64]
%2 = broadcast(%1) {axes=[0]} : f32[64, 32]
%3 = mul(%0, %2) : f32[64, 32]
%4 = cast(%3) : f8e4m3[64, 32]
%5 = permute(%4) {axes=[1, 0]} : f8e4m3[32, 64]
return %1, %4, %5
)"),
            "loop 1 4, loop 5");
}

// However far back it was computed, unless it is read as late as its transpose.
TEST(KernelClusters, OfBothOrdersWhereOneIsKeptForTheOther) {
  const auto text = [](const std::string& read_early, const std::string& read_late) {
    std::string text =
        "%0 = input \"x\" : f32[64, 32]\n%1 = cast(%0) : f8e4m3[64, 32]\n%2 = " + read_early + " : f32[64, 32]\n";
    for (int i = 3; i < 40; ++i) text += fmt::format("%{} = input \"y{}\" : f32[{}]\n", i, i, 16 * i);
    for (int i = 40; i < 77; ++i) text += fmt::format("%{} = neg(%{}) : f32[{}]\n", i, i - 37, 16 * (i - 37));
    text += "%77 = cast(" + read_late + ") : bf16[64, 32]\n%78 = permute(%1) {axes=[1, 0]} : f8e4m3[32, 64]\nreturn %2";
    for (int i = 40; i < 79; ++i) text += fmt::format(", %{}", i);
    return text + ", %1\n";
  };
  EXPECT_TRUE(clustered_on_gpu(text("cast(%1)", "%0")).starts_with("loop 1 2 78, "));
  EXPECT_TRUE(clustered_on_gpu(text("abs(%0)", "%1")).ends_with(", loop 77, loop 78"));
}

// A loop over rows gets a number of each, in place of a later one over such numbers.
TEST(KernelClusters, OfNumbersForEachRowWithTheirRows) {
  EXPECT_EQ(clustered_on_gpu(R"(%0 = input "x" : f32[8, 64]
%1 = input "w" : f32[8]
%2 = broadcast(%1) {axes=[0]} : f32[8, 64]
%3 = mul(%0, %2) : f32[8, 64]
%4 = reduce_sum(%3) {axes=[1]} : f32[8]
%5 = mul(%4, %1) : f32[8]
%6 = reduce_sum(%5) {axes=[0]} : f32[]
%7 = neg(%1) : f32[8]
return %4, %6, %7
)"),
            "loop 4 7, loop 6");
}

// A sum of x's columns as %1 and more of the same rows as `rest`.
std::string column_sum(const std::string& rest) {
  return "%0 = input \"x\" : f32[640, 64]\n%1 = reduce_sum(%0) {axes=[0]} : f32[64]\n" + rest;
}

TEST(KernelClusters, OfColumnSums) {
  const std::string value = column_sum("%2 = neg(%0) : f32[640, 64]\nreturn %1, %2\n");
  EXPECT_EQ(clustered_on_gpu(value), "column_reduce 1 2");
  EXPECT_EQ(clustered(value, kOneProcessor), "column_reduce 1, loop 2");
  // Which sums share a pass would decide how they are added up.
  EXPECT_EQ(clustered_on_gpu(value, "sm_80", true), "column_reduce 1, loop 2");
  // The sum comes first, whichever comes first in the graph.
  EXPECT_EQ(clustered_on_gpu(R"(%0 = input "x" : f32[640, 64]
%1 = neg(%0) : f32[640, 64]
%2 = reduce_sum(%0) {axes=[0]} : f32[64]
return %1, %2
)"),
            "column_reduce 2 1");
  const std::string squares = "%2 = mul(%0, %0) : f32[640, 64]\n%3 = reduce_sum(%2) {axes=[0]} : f32[64]\n";
  EXPECT_EQ(clustered_on_gpu(column_sum(squares + "return %1, %3\n")), "column_reduce 3 1");
}

TEST(KernelClusters, NotOfOtherColumnSums) {
  // Maxima, sums of another type or over other axes, other tensors, and tensors that the other one does not read.
  for (const std::string rest :
       {"%2 = reduce_max(%0) {axes=[0]} : f32[64]\nreturn %1, %2\n",
        "%2 = reshape(%0) : f32[320, 128]\n%3 = reduce_sum(%2) {axes=[0]} : f32[128]\nreturn %1, %3\n",
        "%2 = input \"y\" : f32[640, 64]\n%3 = reduce_sum(%2) {axes=[0]} : f32[64]\nreturn %1, %3\n"}) {
    const std::string text = clustered_on_gpu(column_sum(rest));
    EXPECT_NE(text.find(", "), std::string::npos) << rest << text;
  }
  EXPECT_EQ(clustered_on_gpu(R"(%0 = input "x" : f32[640, 64]
%1 = input "y" : f32[640, 64]
%2 = input "z" : f32[640, 64]
%3 = mul(%0, %1) : f32[640, 64]
%4 = reduce_sum(%3) {axes=[0]} : f32[64]
%5 = mul(%0, %2) : f32[640, 64]
%6 = reduce_sum(%5) {axes=[0]} : f32[64]
return %4, %6
)"),
            "column_reduce 4, column_reduce 6");
}

// What follows from the sum, sums whose axes lie apart, and what reads nothing.
TEST(KernelClusters, NotOfColumnSumsAndWhatSharesNoPass) {
  EXPECT_EQ(
      clustered_on_gpu(column_sum("%2 = broadcast(%1) {axes=[1]} : f32[640, 64]\n%3 = sub(%0, %2) : f32[640, 64]\n"
                                  "return %1, %3\n")),
      "column_reduce 1, loop 3");
  EXPECT_EQ(clustered_on_gpu(column_sum("%2 = constant 1 : f32[640, 64]\nreturn %1, %2\n")), "column_reduce 1, loop 2");
  EXPECT_EQ(clustered_on_gpu(R"(%0 = input "x" : f32[4, 8, 16, 32]
%1 = reduce_sum(%0) {axes=[0, 2]} : f32[8, 32]
%2 = neg(%0) : f32[4, 8, 16, 32]
return %1, %2
)"),
            "column_reduce 1, loop 2");
}

// What a row's sum reads belongs to that kernel, and a new value of an input to one that may overwrite it.
TEST(KernelClusters, NotOfColumnSumsAndWhatBelongsElsewhere) {
  EXPECT_EQ(clustered_on_gpu(column_sum("%2 = exp2(%0) : f32[640, 64]\n%3 = reduce_sum(%2) {axes=[1]} : f32[640]\n"
                                        "return %1, %2, %3\n")),
            "column_reduce 1, loop 2 3");
  EXPECT_EQ(clustered_on_gpu(column_sum("%2 = neg(%0) : f32[640, 64]\nassign %0 = %2\nreturn %1\n")),
            "column_reduce 1, loop 2");
  // Copies go through shared memory.
  EXPECT_EQ(clustered_on_gpu(column_sum("%2 = permute(%0) {axes=[1, 0]} : f32[64, 640]\nreturn %1, %2\n")),
            "column_reduce 1, loop 2");
}

TEST(KernelClusters, HaveFourColumnMembersAtMost) {
  EXPECT_EQ(clustered_on_gpu(column_sum("%2 = neg(%0) : f32[640, 64]\n%3 = abs(%0) : f32[640, 64]\n"
                                        "%4 = sqrt(%0) : f32[640, 64]\n%5 = exp2(%0) : f32[640, 64]\n"
                                        "return %1, %2, %3, %4, %5\n")),
            "column_reduce 1 2 3 4, loop 5");
}

// A collective is a kernel of its own, and so is a message, in the order of the graph.
TEST(KernelClusters, KeepCollectivesInOrder) {
  EXPECT_EQ(clustered_on_gpu(R"(%0 = input "x" : f32[64]
%1 = neg(%0) : f32[64]
%2 = all_reduce(%1) {count=2, group="dp"} : f32[64]
%3 = all_reduce(%0) {count=2, group="dp"} : f32[64]
%4 = abs(%0) : f32[64]
return %2, %3, %4
)"),
            "loop 1 4, collective 2, collective 3");
}

}  // namespace
}  // namespace causeway::program
