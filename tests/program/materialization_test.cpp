// Which values of small graphs get memory. Each test has a value on either side of a rule.
#include "causeway/program/materialization.h"

#include <gtest/gtest.h>

#include "tests/program/fusion_graphs.h"

namespace causeway::program {
namespace {

const Target kProcessor;

std::string stored(const std::string& text, const Target& target) {
  const Graph graph = parse_graph(text);
  return values_in_memory(graph, choose_materialized(FusionProblem(graph, target, false)).values);
}
std::string stored_on_gpu(const std::string& text, const std::string& architecture = "sm_80") {
  return stored(text, gpu_target(architecture));
}

TEST(Materialization, OfResultsAndNewValuesOfInputs) {
  const std::string text = R"(%0 = input "x" : f32[64]
%1 = neg(%0) : f32[64]
%2 = abs(%1) : f32[64]
%3 = neg(%2) : f32[64]
%4 = abs(%3) : f32[64]
assign %0 = %2
return %4
)";
  EXPECT_EQ(stored(text, kProcessor), "2 4");
  EXPECT_EQ(stored_on_gpu(text), "2 4");
}

// Reductions, scans and templates; not results of theirs that nobody asks for, and nothing for what nobody needs.
TEST(Materialization, OfWhatLoopsCannotExpand) {
  const std::string text = R"(%0 = input "x" : f32[8, 64]
%1 = reduce_sum(%0) {axes=[1]} : f32[8]
%2 = neg(%1) : f32[8]
%3 = cumsum(%0) {axes=[0]} : f32[8, 64]
%4 = neg(%3) : f32[8, 64]
%5:2 = topk(%0) {count=3} : f32[8, 3], i32[8, 3]
%6 = reduce_max(%0) {axes=[1]} : f32[8]
%7 = neg(%6) : f32[8]
return %2, %4, %5.1
)";
  EXPECT_EQ(stored(text, kProcessor), "1 2 3 4 5.1");
}

// Of a value with two uses. tanh is 8 simple operations, a power 20.
TEST(Materialization, OfWhatCostsTooMuchToRepeat) {
  const auto text = [](const std::string& node) {
    return "%0 = input \"x\" : f32[64]\n%1 = input \"y\" : f32[64]\n%2 = " + node +
           " : f32[64]\n%3 = neg(%2) : f32[64]\n%4 = abs(%2) : f32[64]\nreturn %3, %4\n";
  };
  EXPECT_EQ(stored(text("sqrt(%0)"), kProcessor), "3 4");
  EXPECT_EQ(stored(text("tanh(%0)"), kProcessor), "2 3 4");
  EXPECT_EQ(stored_on_gpu(text("tanh(%0)")), "3 4");
  const std::string powers = R"(%0 = input "x" : f32[64]
%1 = pow(%0, %0) : f32[64]
%2 = pow(%1, %0) : f32[64]
%3 = neg(%2) : f32[64]
%4 = abs(%2) : f32[64]
return %3, %4
)";
  EXPECT_EQ(stored_on_gpu(powers), "2 3 4");
}

// Two values that get scales share the loops that find and apply them, and so what these read.
TEST(Materialization, NotOfWhatIsScaledBesideAnother) {
  const std::string both = R"(%0 = input "dh" : bf16[64, 64]
%1 = input "gate" : bf16[64, 64]
%2 = input "up" : bf16[64, 64]
%3 = cast(%0) : f32[64, 64]
%4 = cast(%1) : f32[64, 64]
%5 = cast(%2) : f32[64, 64]
%6 = mul(%3, %4) : f32[64, 64]
%7 = cast(%6) : bf16[64, 64]
%8 = cast(%7) : f32[64, 64]
%9 = abs(%8) : f32[64, 64]
%10 = reduce_max(%9) {axes=[0, 1]} : f32[]
%11 = broadcast(%10) {axes=[]} : f32[64, 64]
%12 = mul(%8, %11) : f32[64, 64]
%13 = cast(%12) : f8e5m2[64, 64]
%14 = mul(%6, %5) : f32[64, 64]
%15 = cast(%14) : bf16[64, 64]
%16 = cast(%15) : f32[64, 64]
%17 = abs(%16) : f32[64, 64]
%18 = reduce_max(%17) {axes=[0, 1]} : f32[]
%19 = broadcast(%18) {axes=[]} : f32[64, 64]
%20 = mul(%16, %19) : f32[64, 64]
%21 = cast(%20) : f8e5m2[64, 64]
)";
  EXPECT_EQ(stored_on_gpu(both + "return %13, %21\n"), "10 13 18 21");
  // Alone it reads three tensors twice.
  EXPECT_EQ(stored_on_gpu(both + "return %21\n"), "15 18 21");
}

// Of a comparison with two uses, of few elements and of many.
TEST(Materialization, OfComparisonsOfManyElements) {
  const auto text = [](const std::string& size) {
    return "%0 = input \"x\" : i32[" + size + "]\n%1 = input \"y\" : i32[" + size + "]\n%2 = le(%0, %1) : bool[" +
           size + "]\n%3 = select(%2, %0, %1) : i32[" + size + "]\n%4 = select(%2, %1, %0) : i32[" + size +
           "]\nreturn %3, %4\n";
  };
  EXPECT_EQ(stored_on_gpu(text("4096")), "3 4");
  EXPECT_EQ(stored_on_gpu(text("131072")), "2 3 4");
}

// What is in memory costs nothing.
TEST(Materialization, NotOfWhatFollowsCheaplyFromMemory) {
  EXPECT_EQ(stored(R"(%0 = input "x" : f32[64]
%1 = tanh(%0) : f32[64]
%2 = neg(%1) : f32[64]
%3 = abs(%2) : f32[64]
%4 = sqrt(%2) : f32[64]
return %1, %3, %4
)",
                   kProcessor),
            "1 3 4");
}

// %1, which %5 needs in 16 ways, is computed once by a GPU's kernel.
TEST(Materialization, RepeatsCountOnceOnGpus) {
  const std::string text = R"(%0 = input "x" : f32[64]
%1 = tanh(%0) : f32[64]
%2 = mul(%1, %1) : f32[64]
%3 = mul(%2, %2) : f32[64]
%4 = mul(%3, %3) : f32[64]
%5 = mul(%4, %4) : f32[64]
%6 = neg(%5) : f32[64]
%7 = abs(%5) : f32[64]
return %6, %7
)";
  EXPECT_EQ(stored_on_gpu(text), "6 7");
}

// The exponentials of a softmax: the pass after the sum computes them again.
TEST(Materialization, NotOfWhatAReductionReads) {
  const std::string text = R"(%0 = input "x" : f32[8, 64]
%1 = exp2(%0) : f32[8, 64]
%2 = reduce_sum(%1) {axes=[1]} : f32[8]
%3 = broadcast(%2) {axes=[0]} : f32[8, 64]
%4 = div(%1, %3) : f32[8, 64]
return %4
)";
  EXPECT_EQ(stored(text, kProcessor), "2 4");
}

// A sum of a residual stream with two uses. A GPU counts the bytes that are read, a processor the tensors.
TEST(Materialization, OfWhatReadsSeveralTensors) {
  const auto text = [](const std::string& type, const std::string& operands) {
    return "%0 = input \"x\" : " + type + "\n%1 = input \"y\" : " + type +
           "\n%2 = cast(%0) : f32[64]\n%3 = cast(%1) : f32[64]\n%4 = add(" + operands +
           ") : f32[64]\n%5 = neg(%4) : f32[64]\n%6 = abs(%4) : f32[64]\nreturn %5, %6\n";
  };
  EXPECT_EQ(stored(text("f32[64]", "%0, %1"), kProcessor), "4 5 6");
  EXPECT_EQ(stored(text("f32[64]", "%0, %0"), kProcessor), "5 6");
  EXPECT_EQ(stored(text("bf16[64]", "%2, %3"), kProcessor), "4 5 6");
  EXPECT_EQ(stored_on_gpu(text("f32[64]", "%0, %1")), "4 5 6");
  EXPECT_EQ(stored_on_gpu(text("bf16[64]", "%2, %3")), "5 6");
}

// A tensor that a broadcast repeats is no second one of the value's size.
TEST(Materialization, OnlyTensorsOfTheValuesSizeCountAsRead) {
  const std::string text = R"(%0 = input "x" : f32[8, 64]
%1 = input "bias" : f32[64]
%2 = broadcast(%1) {axes=[1]} : f32[8, 64]
%3 = add(%0, %2) : f32[8, 64]
%4 = neg(%3) : f32[8, 64]
%5 = abs(%3) : f32[8, 64]
return %4, %5
)";
  EXPECT_EQ(stored(text, kProcessor), "4 5");
}

// What a cast makes wider is stored before it.
TEST(Materialization, InTheNarrowerType) {
  const std::string text = R"(%0 = input "x" : bf16[64]
%1 = input "y" : bf16[64]
%2 = input "z" : bf16[64]
%3 = add(%0, %1) : bf16[64]
%4 = add(%3, %2) : bf16[64]
%5 = cast(%4) : f32[64]
%6 = neg(%5) : f32[64]
%7 = abs(%5) : f32[64]
return %6, %7
)";
  EXPECT_EQ(stored(text, kProcessor), "4 6 7");
  EXPECT_EQ(stored_on_gpu(text), "4 6 7");
}

TEST(Materialization, OfTooLargeExpressions) {
  const auto chain = [](int powers) {
    std::string text = "%0 = input \"x\" : f32[64]\n";
    for (int i = 1; i <= powers; ++i) text += fmt::format("%{} = pow(%{}, %0) : f32[64]\n", i, i - 1);
    return text + fmt::format("%{0} = neg(%{1}) : f32[64]\nreturn %{0}\n", powers + 1, powers);
  };
  EXPECT_EQ(stored(chain(9), kProcessor), "10");
  EXPECT_EQ(stored(chain(10), kProcessor), "10 11");
}

// `rest` from %4 on; %3 is a GEMM of %0 and %1, %2 a number for each column.
std::string gemm(const std::string& rest) {
  return R"(%0 = input "a" : f32[64, 96]
%1 = input "b" : f32[96, 128]
%2 = input "c" : f32[128]
%3 = dot(%0, %1) : f32[64, 128]
)" + rest;
}

TEST(Materialization, OfWhatRoundsAGemm) {
  EXPECT_EQ(stored_on_gpu(gemm(R"(%4 = cast(%3) : bf16[64, 128]
%5 = tanh(%4) : bf16[64, 128]
return %5
)")),
            "3 4 5");
  // The result may be read as it is, too.
  EXPECT_EQ(stored_on_gpu(gemm(R"(%4 = cast(%3) : bf16[64, 128]
%5 = tanh(%4) : bf16[64, 128]
%6 = neg(%3) : f32[64, 128]
return %5, %6
)")),
            "3 5 6");
  // Nothing is rounded.
  EXPECT_EQ(stored_on_gpu(gemm(R"(%4 = abs(%3) : f32[64, 128]
%5 = tanh(%4) : f32[64, 128]
return %5
)")),
            "3 5");
}

TEST(Materialization, OfWhatRoundsAScaledGemmOrASumWithOne) {
  // `operand` as %4, one of %3 and %4 as %5.
  const auto text = [](const std::string& operand, const std::string& node) {
    return gemm("%4 = " + operand + " : f32[64, 128]\n%5 = " + node +
                " : f32[64, 128]\n%6 = cast(%5) : bf16[64, 128]\n%7 = tanh(%6) : bf16[64, 128]\nreturn %7\n");
  };
  const std::string columns = "broadcast(%2) {axes=[1]}", tensor = "input \"x\"";
  EXPECT_EQ(stored_on_gpu(text(columns, "mul(%3, %4)")), "3 6 7");
  EXPECT_EQ(stored_on_gpu(text(columns, "sub(%3, %4)")), "3 7");
  EXPECT_EQ(stored_on_gpu(text(tensor, "add(%3, %4)")), "3 6 7");
  EXPECT_EQ(stored_on_gpu(text(tensor, "mul(%3, %4)")), "3 7");
}

// A sum that is read as it is, too.
TEST(Materialization, NotOfWhatRoundsASumThatOthersRead) {
  EXPECT_EQ(stored_on_gpu(gemm(R"(%4 = broadcast(%2) {axes=[1]} : f32[64, 128]
%5 = add(%3, %4) : f32[64, 128]
%6 = cast(%5) : bf16[64, 128]
%7 = tanh(%6) : bf16[64, 128]
%8 = neg(%5) : f32[64, 128]
return %7, %8
)")),
            "3 7 8");
}

// Two halves of what ranks exchanged, added and rounded: not both halves are kept until the sum's use.
TEST(Materialization, OfTheRoundedSumOfAnExchange) {
  const auto text = [](const std::string& exchange, const std::string& last) {
    return R"(%0 = input "x" : f32[2, 64]
%1 = )" + exchange +
           R"(
%2 = slice(%1) {start=[0, 0], limit=[1, 64], strides=[1, 1]} : f32[1, 64]
%3 = slice(%1) {start=[1, 0], limit=[2, 64], strides=[1, 1]} : f32[1, 64]
%4 = add(%2, %3) : f32[1, 64]
%5 = )" + last +
           "\n%6 = neg(%5) : " + last.substr(last.find(": ") + 2) + "\nreturn %6\n";
  };
  const std::string exchange = "all_to_all(%0) {count=2, group=\"dp\"} : f32[2, 64]";
  EXPECT_EQ(stored(text(exchange, "cast(%4) : bf16[1, 64]"), kProcessor), "1 5 6");
  EXPECT_EQ(stored(text(exchange, "abs(%4) : f32[1, 64]"), kProcessor), "1 6");
  EXPECT_EQ(stored(text("cumsum(%0) {axes=[1]} : f32[2, 64]", "cast(%4) : bf16[1, 64]"), kProcessor), "1 6");
}

// Gradients of several GEMMs: only the sum so far is kept.
TEST(Materialization, OfPartialSumsOfGemms) {
  const auto text = [](const std::string& second, const std::string& third) {
    return gemm("%4 = " + second + " : f32[64, 128]\n%5 = " + third +
                " : f32[64, 128]\n%6 = add(%3, %4) : f32[64, 128]\n%7 = add(%6, %5) : f32[64, 128]\nreturn %7\n");
  };
  EXPECT_EQ(stored(text("dot(%0, %1)", "dot(%0, %1)"), kProcessor), "3 4 5 6 7");
  EXPECT_EQ(stored(text("abs(%3)", "neg(%3)"), kProcessor), "3 7");
  // A sum without a GEMM, to which one is added.
  EXPECT_EQ(stored(R"(%0 = input "a" : f32[64, 96]
%1 = input "b" : f32[96, 128]
%2 = input "x" : f32[64, 128]
%3 = input "y" : f32[64, 128]
%4 = add(%2, %3) : f32[64, 128]
%5 = dot(%0, %1) : f32[64, 128]
%6 = add(%4, %5) : f32[64, 128]
return %6
)",
                   kProcessor),
            "5 6");
}

// A sum to which something is added after `between` other nodes, on a stage of a pipeline or elsewhere.
std::string sum_after(int between, bool is_stage) {
  std::string text =
      R"(%0 = input "x" : f32[64]
%1 = input "y" : f32[64]
%2 = )" +
      std::string(is_stage ? "receive {shape=[64], dtype=f32, count=2, peer=1, name=\"z\", group=\"pp\"} : f32[64]"
                           : "input \"z\" : f32[64]") +
      "\n%3 = add(%0, %1) : f32[64]\n%4 = neg(%2) : f32[64]\n";
  int last = 4;
  for (; last < 3 + between; ++last) text += fmt::format("%{} = neg(%{}) : f32[64]\n", last + 1, last);
  return text + fmt::format("%{0} = add(%3, %{1}) : f32[64]\nreturn %{0}\n", last + 1, last);
}

// The next micro-batch's gradient comes long after the sum so far.
TEST(Materialization, OfWhatAStageAddsToLater) {
  EXPECT_EQ(stored(sum_after(64, true), kProcessor), "2 3 68");
  EXPECT_EQ(stored(sum_after(63, true), kProcessor), "2 67");
  EXPECT_EQ(stored(sum_after(64, false), kProcessor), "68");
}

// A number for each row, which the broadcast would compute for each element.
TEST(Materialization, OfCostlyValuesUnderABroadcast) {
  const auto text = [](const std::string& node, const std::string& type) {
    return "%0 = input \"x\" : f32[8, 64]\n%1 = input \"r\" : f32[" + type + "]\n%2 = rsqrt(%1) : f32[" + type +
           "]\n%3 = " + node + " : f32[" + type + "]\n%4 = broadcast(%3) {axes=[0" + (type == "8" ? "" : ", 1") +
           "]} : f32[8, 64]\n%5 = mul(%0, %4) : f32[8, 64]\nreturn %5\n";
  };
  EXPECT_EQ(stored(text("neg(%2)", "8"), kProcessor), "3 5");
  EXPECT_EQ(stored(text("neg(%1)", "8"), kProcessor), "5");
  // This one repeats nothing.
  EXPECT_EQ(stored(R"(%0 = input "x" : f32[8, 64]
%1 = tanh(%0) : f32[8, 64]
%2 = broadcast(%1) {axes=[1, 2]} : f32[1, 8, 64]
%3 = neg(%2) : f32[1, 8, 64]
return %3
)",
                   kProcessor),
            "3");
}

TEST(Materialization, OfWhatAGatherReads) {
  const auto text = [](const std::string& node) {
    return "%0 = input \"table\" : f32[50, 64]\n%1 = input \"rows\" : i32[9]\n%2 = neg(%0) : f32[50, 64]\n%3 = " +
           node + " : f32[50, 64]\n%4 = gather(%3, %1) {axes=[0]} : f32[9, 64]\nreturn %4\n";
  };
  EXPECT_EQ(stored(text("neg(%0)"), kProcessor), "4");
  EXPECT_EQ(stored(text("abs(%2)"), kProcessor), "3 4");
}

// `updates` rows are added to an input or to a value of 1,000 rows.
std::string scatter(int updates, const std::string& base) {
  return fmt::format(R"(%0 = input "table" : f32[1000, 24]
%1 = input "rows" : i32[{0}]
%2 = input "x" : f32[{0}, 24]
%3 = neg(%0) : f32[1000, 24]
%4 = abs(%2) : f32[{0}, 24]
%5 = scatter_add({1}, %1, %4) {{axes=[0]}} : f32[1000, 24]
return %5
)",
                     updates, base);
}

TEST(Materialization, OfUpdatesByIndex) {
  // In memory, the base can become the result in place.
  EXPECT_EQ(stored(scatter(900, "%3"), kProcessor), "3 4 5");
  // Of an input that would be given the result, updates that are few beside it.
  EXPECT_EQ(stored(scatter(900, "%0"), kProcessor), "5");
  EXPECT_EQ(stored(scatter(400, "%0"), kProcessor), "4 5");
  // So few that each thread of a GPU looks at all of them.
  EXPECT_EQ(stored_on_gpu(scatter(33, "%0")), "4 5");
  EXPECT_EQ(stored_on_gpu(scatter(32, "%0")), "5");
  EXPECT_EQ(stored(scatter(32, "%0"), kProcessor), "4 5");
}

// Updates or indices that are computed from the base would change while rows are written.
TEST(Materialization, OfUpdatesFromTheBase) {
  EXPECT_EQ(stored_on_gpu(R"(%0 = input "table" : f32[1000, 24]
%1 = input "rows" : i32[8]
%2 = slice(%0) {start=[0, 0], limit=[8, 24], strides=[1, 1]} : f32[8, 24]
%3 = scatter_add(%0, %1, %2) {axes=[0]} : f32[1000, 24]
return %3
)"),
            "2 3");
  EXPECT_EQ(stored_on_gpu(R"(%0 = input "table" : i32[1000]
%1 = input "x" : i32[8]
%2 = slice(%0) {start=[0], limit=[8], strides=[1]} : i32[8]
%3 = scatter_add(%0, %2, %1) {axes=[0]} : i32[1000]
return %3
)"),
            "2 3");
}

// Operands of a GEMM: a processor packs and converts them, a GPU reads them as they lie.
TEST(Materialization, OfOperands) {
  const auto text = [](const std::string& operand) {
    return "%0 = input \"a\" : bf16[64, 96]\n%1 = input \"b\" : f32[96, 128]\n" + operand +
           " : f32[64, 96]\n%3 = dot(%2, %1) : f32[64, 128]\nreturn %3\n";
  };
  EXPECT_EQ(stored(text("%2 = cast(%0)"), kProcessor), "3");
  EXPECT_EQ(stored_on_gpu(text("%2 = cast(%0)")), "2 3");
  const std::string negative = R"(%0 = input "a" : f32[64, 96]
%1 = input "b" : f32[96, 128]
%2 = neg(%0) : f32[64, 96]
%3 = dot(%2, %1) : f32[64, 128]
return %3
)";
  EXPECT_EQ(stored(negative, kProcessor), "2 3");
  const std::string transposed = R"(%0 = input "a" : f32[96, 64]
%1 = input "b" : f32[96, 128]
%2 = permute(%0) {axes=[1, 0]} : f32[64, 96]
%3 = dot(%2, %1) : f32[64, 128]
return %3
)";
  EXPECT_EQ(stored(transposed, kProcessor), "3");
  EXPECT_EQ(stored_on_gpu(transposed), "3");
  const std::string cast_thrice = R"(%0 = input "a" : f32[64, 96]
%1 = input "b" : f32[96, 128]
%2 = cast(%0) : bf16[64, 96]
%3 = cast(%2) : f32[64, 96]
%4 = cast(%3) : f16[64, 96]
%5 = cast(%4) : f32[64, 96]
%6 = dot(%5, %1) : f32[64, 128]
return %6
)";
  EXPECT_EQ(stored(cast_thrice, kProcessor), "5 6");
  // Only the operand that is computed, not the one that lies in another order.
  const std::string one_of_two = R"(%0 = input "a" : bf16[64, 96]
%1 = input "b" : f32[128, 96]
%2 = cast(%0) : f32[64, 96]
%3 = permute(%1) {axes=[1, 0]} : f32[96, 128]
%4 = dot(%2, %3) : f32[64, 128]
return %4
)";
  EXPECT_EQ(stored_on_gpu(one_of_two), "2 4");
}

// Parts of one value, which other GEMMs may read too.
TEST(Materialization, OfWhatOperandsArePartsOf) {
  EXPECT_EQ(stored(R"(%0 = input "a" : f32[64, 192]
%1 = input "b" : f32[96, 128]
%2 = tanh(%0) : f32[64, 192]
%3 = slice(%2) {start=[0, 96], limit=[64, 192], strides=[1, 1]} : f32[64, 96]
%4 = dot(%3, %1) : f32[64, 128]
return %4
)",
                   kProcessor),
            "2 4");
}

// An operand that lies in pieces, and one of 8 bits that lies across k, where instructions want it along k.
TEST(Materialization, OfOperandsThatDoNotLieRight) {
  EXPECT_EQ(stored_on_gpu(R"(%0 = input "a" : bf16[64, 96, 2]
%1 = input "b" : bf16[96, 128]
%2 = slice(%0) {start=[0, 0, 0], limit=[64, 96, 1], strides=[1, 1, 1]} : bf16[64, 96, 1]
%3 = reshape(%2) : bf16[64, 96]
%4 = dot(%3, %1) : f32[64, 128]
return %4
)"),
            "3 4");
  const std::string across = R"(%0 = input "a" : f8e4m3[64, 192]
%1 = input "b" : f8e4m3[96, 128]
%2 = slice(%0) {start=[0, 96], limit=[64, 192], strides=[1, 1]} : f8e4m3[64, 96]
%3 = permute(%1) {axes=[1, 0]} : f8e4m3[128, 96]
%4 = dot(%2, %3) {transpose_b} : f32[64, 128]
return %4
)";
  EXPECT_EQ(stored_on_gpu(across, "sm_90a"), "3 4");
  EXPECT_EQ(stored_on_gpu(across, "sm_80"), "4");
}

// What attention reads besides its operands has to lie in memory as it is, seen through nothing.
TEST(Materialization, OfWhatAttentionReadsBesideItsOperands) {
  const std::string text = R"(%0 = input "q" : bf16[1, 64, 2, 64]
%1 = input "dout" : bf16[1, 64, 2, 64]
%2 = input "lse" : f32[1, 2, 64]
%3 = input "delta" : f32[2, 64]
%4 = reshape(%3) : f32[1, 2, 64]
%5 = reshape(%1) : bf16[1, 64, 2, 64]
%6:3 = attention_gradient(%0, %0, %0, %5, %2, %4) {scale=0.125} : bf16[1, 64, 2, 64], bf16[1, 64, 2, 64], bf16[1, 64, 2, 64]
return %6, %6.1, %6.2
)";
  EXPECT_EQ(stored(text, kProcessor), "4 6 6.1 6.2");
}

// Keys of two sequences that ranks gathered along positions lie in pieces, which every block would put together.
TEST(Materialization, OfGatheredKeys) {
  const std::string text = R"(%0 = input "q" : bf16[2, 64, 2, 64]
%1 = input "k" : bf16[2, 32, 2, 64]
%2 = all_gather(%1) {count=2, group="cp"} : bf16[2, 2, 32, 2, 64]
%3 = permute(%2) {axes=[1, 0, 2, 3, 4]} : bf16[2, 2, 32, 2, 64]
%4 = reshape(%3) : bf16[2, 64, 2, 64]
%5:2 = attention(%0, %4, %4) {scale=0.125} : bf16[2, 64, 2, 64], f32[2, 2, 64]
return %5, %5.1
)";
  EXPECT_EQ(stored_on_gpu(text), "2 4 5 5.1");
  EXPECT_EQ(stored(text, kProcessor), "2 5 5.1");
}

// A collective sends one piece of memory: what is in it, not a view of that.
TEST(Materialization, OfWhatCollectivesSend) {
  EXPECT_EQ(stored(R"(%0 = input "x" : f32[8, 64]
%1 = neg(%0) : f32[8, 64]
%2 = reshape(%1) : f32[512]
%3 = all_reduce(%2) {count=2, group="dp"} : f32[512]
return %3
)",
                   kProcessor),
            "1 3");
}

}  // namespace
}  // namespace causeway::program
