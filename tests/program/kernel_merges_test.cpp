// Which kernels of small graphs become part of others, and which members are stored. Norms in GEMMs have more tests in
// rows_in_gemms_test.cpp, loops that share launches in horizontal_fusion_test.cpp.
#include "causeway/program/kernel_merges.h"

#include <gtest/gtest.h>

#include "tests/program/fusion_graphs.h"

namespace causeway::program {
namespace {

std::string with_column_sums_merged(const std::string& text) {
  const Graph graph = parse_graph(text);
  const Target target = gpu_target("sm_80");
  const FusionProblem problem(graph, target, false);
  const Materialization materialization = choose_materialized(problem);
  return kernels_text(merge_column_sums(problem, materialization.values, cluster_values(problem, materialization)));
}

// The gradient of a norm's input, %6, needs a sum of each row of %0 times %1; `rest` follows as %7.
std::string norm_gradient(const std::string& rest, int rows = 640) {
  return fmt::format(R"(%0 = input "x" : f32[{0}, 64]
%1 = input "dy" : f32[{0}, 64]
%2 = input "z" : f32[{0}, 64]
%3 = mul(%0, %1) : f32[{0}, 64]
%4 = reduce_sum(%3) {{axes=[1]}} : f32[{0}]
%5 = broadcast(%4) {{axes=[0]}} : f32[{0}, 64]
%6 = sub(%1, %5) : f32[{0}, 64]
)",
                     rows) +
         rest;
}

TEST(MergedColumnSums, OfWhatTheLoopReadsAnyway) {
  // The gradients of the norm's bias and weight.
  EXPECT_EQ(with_column_sums_merged(norm_gradient("%7 = reduce_sum(%1) {axes=[0]} : f32[64]\nreturn %6, %7\n")),
            "loop 4 6 7");
  EXPECT_EQ(with_column_sums_merged(norm_gradient("%7 = reduce_sum(%3) {axes=[0]} : f32[64]\nreturn %6, %7\n")),
            "loop 3 4 6 7");
  // The gradient of a bias, of what the loop computes.
  EXPECT_EQ(with_column_sums_merged(norm_gradient("%7 = reduce_sum(%6) {axes=[0]} : f32[64]\nreturn %6, %7\n")),
            "loop 4 6 7");
  // And not of what it has to read for that.
  EXPECT_EQ(with_column_sums_merged(norm_gradient("%7 = reduce_sum(%2) {axes=[0]} : f32[64]\nreturn %6, %7\n")),
            "loop 4 6, column_reduce 7");
}

// A sum that comes before the loop that has what it reads.
TEST(MergedColumnSums, OfALoopBehindThem) {
  EXPECT_EQ(with_column_sums_merged(R"(%0 = input "x" : f32[640, 64]
%1 = reduce_sum(%0) {axes=[0]} : f32[64]
%2 = reduce_sum(%0) {axes=[1]} : f32[640]
return %1, %2
)"),
            "loop 2 1");
  // Something between needs it.
  EXPECT_EQ(with_column_sums_merged(R"(%0 = input "x" : f32[640, 64]
%1 = reduce_sum(%0) {axes=[0]} : f32[64]
%2 = cumsum(%1) {axes=[0]} : f32[64]
%3 = reduce_sum(%0) {axes=[1]} : f32[640]
return %1, %2, %3
)"),
            "column_reduce 1, cumsum 2, loop 3");
}

// A loop that works on elements, and not on rows, has no columns to add up. Nor has one of a single row.
TEST(MergedColumnSums, OnlyOfLoopsOverRows) {
  EXPECT_EQ(with_column_sums_merged(R"(%0 = input "x" : bf16[640, 64]
%1 = neg(%0) : bf16[640, 64]
%2 = reduce_max(%0) {axes=[0]} : bf16[64]
return %1, %2
)"),
            "loop 1, column_reduce 2");
  EXPECT_EQ(with_column_sums_merged(R"(%0 = input "x" : f32[640, 64]
%1 = exp2(%0) : f32[640, 64]
%2 = reduce_sum(%1) {axes=[0, 1]} : f32[]
%3 = reduce_sum(%0) {axes=[0]} : f32[64]
return %1, %2, %3
)"),
            "loop 1 2, column_reduce 3");
}

// Rows of another length, sums over axes that do not come first, and maxima.
TEST(MergedColumnSums, OnlyOfTheLoopsRows) {
  EXPECT_EQ(with_column_sums_merged(norm_gradient("%7 = reshape(%1) : f32[320, 128]\n"
                                                  "%8 = reduce_sum(%7) {axes=[0]} : f32[128]\nreturn %6, %8\n")),
            "loop 4 6, column_reduce 8");
  EXPECT_EQ(with_column_sums_merged(norm_gradient("%7 = reshape(%1) : f32[2, 320, 64]\n"
                                                  "%8 = reduce_sum(%7) {axes=[1]} : f32[2, 64]\nreturn %6, %8\n")),
            "loop 4 6, column_reduce 8");
  EXPECT_EQ(with_column_sums_merged(norm_gradient("%7 = reduce_max(%1) {axes=[0]} : f32[64]\nreturn %6, %7\n")),
            "loop 4 6, column_reduce 7");
}

// A thread has no registers for as many columns as it would have of long rows.
TEST(MergedColumnSums, NotOfLongRows) {
  const auto text = [](int columns) {
    return fmt::format(R"(%0 = input "x" : f32[640, {0}]
%1 = reduce_sum(%0) {{axes=[1]}} : f32[640]
%2 = reduce_sum(%0) {{axes=[0]}} : f32[{0}]
return %1, %2
)",
                       columns);
  };
  EXPECT_EQ(with_column_sums_merged(text(1024)), "loop 1 2");
  EXPECT_EQ(with_column_sums_merged(text(65536)), "loop 1, column_reduce 2");
}

// Each has registers for all of a thread's columns.
TEST(MergedColumnSums, AreFourAtMost) {
  std::string sums, results = "%6";
  const char* const nodes[] = {"abs(%1)", "neg(%1)", "sqrt(%1)", "exp2(%1)", "mul(%1, %1)"};
  for (int i = 0; i < 5; ++i) {
    sums += fmt::format("%{0} = {2} : f32[640, 64]\n%{1} = reduce_sum(%{0}) {{axes=[0]}} : f32[64]\n", 7 + 2 * i,
                        8 + 2 * i, nodes[i]);
    results += fmt::format(", %{}", 8 + 2 * i);
    if (i == 3)
      EXPECT_EQ(with_column_sums_merged(norm_gradient(sums + "return " + results + "\n")), "loop 4 6 14 12 10 8");
  }
  EXPECT_EQ(with_column_sums_merged(norm_gradient(sums + "return " + results + "\n")),
            "loop 4 6 14 12 10 8, column_reduce 16");
}

// "loop 1 (2)": members that are not stored in parentheses.
std::string stored_members(const std::string& text) {
  const Graph graph = parse_graph(text);
  const Target target;
  const FusionProblem problem(graph, target, false);
  const Materialization materialization = choose_materialized(problem);
  const FusedKernels kernels =
      choose_stored_members(problem, materialization.values, cluster_values(problem, materialization));
  std::string result;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const KernelRequest& request = kernels.request(k);
    result += fmt::format("{}{}", k == 0 ? "" : ", ", kernel_kind_name(request.kind));
    for (size_t i = 0; i < request.members.size(); ++i)
      result += fmt::format(fmt::runtime(request.stored[i] ? " {}" : " ({})"), request.members[i].node);
  }
  return result;
}

TEST(StoredMembers, AreWhatOthersNeed) {
  // A softmax keeps its maximum and sum.
  const std::string softmax = R"(%0 = input "x" : f32[8, 64]
%1 = reduce_max(%0) {axes=[1]} : f32[8]
%2 = broadcast(%1) {axes=[0]} : f32[8, 64]
%3 = sub(%0, %2) : f32[8, 64]
%4 = exp2(%3) : f32[8, 64]
%5 = reduce_sum(%4) {axes=[1]} : f32[8]
%6 = broadcast(%5) {axes=[0]} : f32[8, 64]
%7 = div(%4, %6) : f32[8, 64]
)";
  EXPECT_EQ(stored_members(softmax + "return %7\n"), "loop (1) (5) 7");
  EXPECT_EQ(stored_members(softmax + "return %7, %5\n"), "loop (1) 5 7");
  EXPECT_EQ(stored_members(softmax + "%8 = input \"m\" : f32[8]\nassign %8 = %1\nreturn %7\n"), "loop 1 (5) 7");
  EXPECT_EQ(stored_members(softmax + "%8 = cumsum(%1) {axes=[0]} : f32[8]\nreturn %7, %8\n"), "loop 1 (5) 7, cumsum 8");
}

// A later pass over the row reads the sum of the first two, which no register keeps.
TEST(StoredMembers, AreWhatALaterPassReads) {
  EXPECT_EQ(stored_members(R"(%0 = input "x" : f32[8, 64]
%1 = input "y" : f32[8, 64]
%2 = add(%0, %1) : f32[8, 64]
%3 = reduce_sum(%2) {axes=[1]} : f32[8]
%4 = broadcast(%3) {axes=[0]} : f32[8, 64]
%5 = mul(%2, %4) : f32[8, 64]
return %5
)"),
            "loop 2 3 5");
}

TEST(StoredMembers, OfGemmsAndOfOthers) {
  const std::string gemm = R"(%0 = input "a" : f32[64, 96]
%1 = input "b" : f32[96, 128]
%2 = dot(%0, %1) : f32[64, 128]
%3 = neg(%2) : f32[64, 128]
)";
  EXPECT_EQ(stored_members(gemm + "return %3\n"), "dot (2) 3");
  EXPECT_EQ(stored_members(gemm + "return %3, %2\n"), "dot 2 3");
  // Whatever a template writes, it writes.
  EXPECT_EQ(stored_members(R"(%0 = input "x" : f32[8, 64]
%1:2 = topk(%0) {count=3} : f32[8, 3], i32[8, 3]
%2 = neg(%1) : f32[8, 3]
return %2, %1.1
)"),
            "topk 1 1, loop 2");
}

std::string with_rows_merged(const std::string& text, const std::string& architecture = "sm_80") {
  const Graph graph = parse_graph(text);
  const Target target = gpu_target(architecture);
  const FusionProblem problem(graph, target, false);
  const Materialization materialization = choose_materialized(problem);
  const MaterializedValues& materialized = materialization.values;
  return kernels_text(merge_rows_into_gemms(
      problem, materialized, choose_stored_members(problem, materialized, cluster_values(problem, materialization))));
}

// A norm without a weight, as %6, of rows of 320; `rest` follows as %7.
std::string norm(const std::string& rest, int rows = 1) {
  return fmt::format(R"(%0 = input "x" : bf16[{0}, 320]
%1 = input "w" : bf16[320, 320]
%2 = mul(%0, %0) : bf16[{0}, 320]
%3 = reduce_sum(%2) {{axes=[1]}} : bf16[{0}]
%4 = rsqrt(%3) : bf16[{0}]
%5 = broadcast(%4) {{axes=[0]}} : bf16[{0}, 320]
%6 = mul(%0, %5) : bf16[{0}, 320]
)",
                     rows) +
         rest;
}

TEST(RowsMergedIntoGemms, OfAFewRows) {
  const std::string gemm = "%7 = dot(%6, %1) {transpose_b} : f32[1, 320]\nreturn %7\n";
  EXPECT_EQ(with_rows_merged(norm(gemm)), "dot 7 with rows 3 6");
  // A reshape of the rows serves as well.
  EXPECT_EQ(with_rows_merged(norm("%7 = reshape(%6) : bf16[1, 1, 320]\n%8 = reshape(%7) : bf16[1, 320]\n"
                                  "%9 = dot(%8, %1) {transpose_b} : f32[1, 320]\nreturn %9\n")),
            "dot 9 with rows 3 6");
  EXPECT_EQ(with_rows_merged(norm("%7 = dot(%6, %1) {transpose_b} : f32[17, 320]\nreturn %7\n", 17)),
            "loop 3 6, dot 7");
}

// Other loops keep a launch of their own.
TEST(RowsMergedIntoGemms, OnlyOfLoopsWithReductions) {
  EXPECT_EQ(with_rows_merged(R"(%0 = input "x" : bf16[1, 320]
%1 = input "w" : bf16[320, 320]
%2 = tanh(%0) : bf16[1, 320]
%3 = dot(%2, %1) {transpose_b} : f32[1, 320]
return %3
)"),
            "loop 2, dot 3");
}

TEST(RowsMergedIntoGemms, NotOfWhatOthersNeed) {
  const std::string gemm = "%7 = dot(%6, %1) {transpose_b} : f32[1, 320]\n";
  EXPECT_EQ(with_rows_merged(norm(gemm + "return %7, %6\n")), "loop 3 6, dot 7");
  EXPECT_EQ(with_rows_merged(norm(gemm + "return %7, %3\n")), "loop 3 6, dot 7");
  EXPECT_EQ(with_rows_merged(norm(gemm + "assign %0 = %6\nreturn %7\n")), "loop 3 6, dot 7");
  EXPECT_EQ(with_rows_merged(norm(gemm + "%8 = dot(%6, %1) {transpose_b} : f32[1, 320]\nreturn %7, %8\n")),
            "loop 3 6, dot 7, dot 8");
  // The epilogue, and the GEMM's other operand.
  EXPECT_EQ(with_rows_merged(norm("%7 = dot(%6, %1) {transpose_b} : bf16[1, 320]\n%8 = add(%7, %6) : bf16[1, 320]\n"
                                  "return %8\n")),
            "loop 3 6, dot 7 8");
  EXPECT_EQ(with_rows_merged(norm("%7 = dot(%6, %6) {transpose_b} : f32[1, 1]\nreturn %7\n")), "loop 3 6, dot 7");
}

}  // namespace
}  // namespace causeway::program
