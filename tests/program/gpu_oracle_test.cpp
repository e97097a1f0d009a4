// GPU kernels of loops, reductions and ops along an axis against the reference interpreter: on the emulator as an
// NVIDIA and as an AMD GPU, or on the device that the environment variable CAUSEWAY_TEST_DEVICE names ("cuda", "hip").
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>

#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/parser.h"
#include "causeway/passes/pipeline.h"
#include "causeway/passes/sparse_gradients.h"
#include "tests/device/device_under_test.h"
#include "tests/program/primitive_cases.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

std::vector<std::string> oracle_devices() { return devices_under_test({"emulator:sm_90a", "emulator:gfx942"}); }

ProgramRunner& runner_on(const std::string& spec) {
  static std::map<std::string, std::unique_ptr<ProgramRunner>> runners;
  std::unique_ptr<ProgramRunner>& runner = runners[spec];
  if (runner == nullptr) runner = std::make_unique<ProgramRunner>(open_device_under_test(spec));
  return *runner;
}

class ElementwiseOnGpu : public testing::TestWithParam<std::tuple<std::string, Op>> {};

TEST_P(ElementwiseOnGpu, MatchesTheReference) {
  const auto& [spec, op] = GetParam();
  for (const PrimitiveCase& primitive : elementwise_cases(op)) expect_reference(runner_on(spec), primitive);
}

INSTANTIATE_TEST_SUITE_P(Ops, ElementwiseOnGpu,
                         testing::Combine(testing::ValuesIn(oracle_devices()), testing::ValuesIn(elementwise_ops())),
                         [](const auto& test) {
                           return test_name_of_device(std::get<0>(test.param)) + "_" +
                                  std::string(op_name(std::get<1>(test.param)));
                         });

class KernelsOnGpu : public testing::TestWithParam<std::string> {
 protected:
  ProgramRunner& runner() { return runner_on(GetParam()); }

  // Inputs in order of the graph's; random where none are given, integers from [0, 4).
  void expect_graph(const std::string& text, std::vector<HostTensor> inputs = {}) {
    const Graph graph = parse_graph(text);
    for (size_t i = inputs.size(); i < graph.inputs().size(); ++i) {
      const TensorType& type = graph.type(graph.inputs()[i]);
      const bool floating = is_float(type.dtype);
      const double high = floating ? 1 : type.dtype == DType::kBool ? 2 : 4;
      inputs.push_back(random_host_tensor(type.dtype, evaluate(type.shape, bindings_), i + 1, floating ? -1 : 0, high));
    }
    const std::vector<HostTensor> reference = interpret(graph, inputs, bindings_, Rounding::kRounded);
    Program program(graph, runner().device(), runner().library(), runner().arena());
    kinds_.clear();
    for (const KernelReport& report : program.kernel_reports()) kinds_.push_back(report.kind);
    const std::vector<HostTensor> actual = runner().run(program, inputs, bindings_);
    ASSERT_EQ(actual.size(), reference.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], reference[i], bounds::of_graph(graph, bindings_));
      EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text << "\n" << program.sources()[0];
    }
  }

  SymbolBindings bindings_;
  std::vector<std::string> kinds_;
};

INSTANTIATE_TEST_SUITE_P(Devices, KernelsOnGpu, testing::ValuesIn(oracle_devices()), named_by_device);

TEST_P(KernelsOnGpu, Conversions) {
  for (const PrimitiveCase& primitive : conversion_cases()) expect_reference(runner(), primitive);
}

TEST_P(KernelsOnGpu, Reductions) {
  for (const PrimitiveCase& primitive : reduction_cases()) expect_reference(runner(), primitive);
}

TEST_P(KernelsOnGpu, ReductionsOfWholeVectors) {
  for (const PrimitiveCase& primitive : reduction_cases({3, 40, 16})) expect_reference(runner(), primitive);
}

// One pass over what a bias's gradient, the values it is the sum of and another sum are computed from.
TEST_P(KernelsOnGpu, ColumnSumsWithTheValuesTheyAreOf) {
  for (const auto& [outer, rows, columns] : {std::tuple{1, 37, 24}, {1, 1100, 40}, {1, 70, 5}, {3, 40, 264}}) {
    const std::string whole = fmt::format("[{}, {}, {}]\n", outer, rows, columns);
    const std::string flat = fmt::format("[{}, {}]\n", outer * rows, columns);
    const std::string sums = fmt::format("[{}, {}]\n", outer, columns);
    expect_graph("%0 = input \"x\" : bf16" + whole + "%1 = input \"y\" : bf16" + whole + "%2 = cast(%0) : f32" + whole +
                 "%3 = cast(%1) : f32" + whole + "%4 = mul(%2, %3) : f32" + whole + "%5 = tanh(%4) : f32" + whole +
                 "%6 = reduce_sum(%5) {axes=[1]} : f32" + sums + "%7 = reshape(%5) : f32" + flat +
                 "%8 = cast(%7) : bf16" + flat + "%9 = reduce_sum(%2) {axes=[1]} : f32" + sums + "return %6, %8, %9\n");
    EXPECT_THAT(kinds_, testing::ElementsAre("column_reduce"));
  }
}

// A value that takes the place of one it is computed from is written there, which a kernel of sums cannot do.
TEST_P(KernelsOnGpu, ColumnSumsLeaveUpdatesInPlace) {
  expect_graph(R"(%0 = input "m" : f32[60, 40]
%1 = input "g" : f32[60, 40]
%2 = mul(%0, %1) : f32[60, 40]
%3 = reduce_sum(%1) {axes=[0]} : f32[40]
assign %0 = %2
return %3, %2
)");
  EXPECT_THAT(kinds_, testing::UnorderedElementsAre("column_reduce", "loop"));
}

// What a reduction of each row reads as well is computed in that kernel, and so is the sum over all rows of it.
TEST_P(KernelsOnGpu, SumsOverRowsGoWithReductionsOfThem) {
  expect_graph(R"(%0 = input "x" : f32[60, 40]
%1 = input "y" : f32[60, 40]
%2 = mul(%0, %1) : f32[60, 40]
%3 = reduce_sum(%2) {axes=[0]} : f32[40]
%4 = exp2(%2) : f32[60, 40]
%5 = reduce_sum(%4) {axes=[1]} : f32[60]
return %3, %4, %5
)");
  EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
}

// The gradients of a norm's input, weight and bias, and of a bias before it: rows of a team, of a block, with elements
// beyond a whole number of vectors for each thread, more rows than blocks, and rows that leave the last block short.
TEST_P(KernelsOnGpu, SumsOverRowsBesideWhatIsComputedOfEachRow) {
  for (const auto& [batch, rows, columns] :
       {std::tuple{1, 37, 24}, {2, 150, 40}, {1, 9, 5}, {3, 7, 768}, {1, 2000, 520}, {1, 5, 1600}}) {
    const std::string whole = fmt::format("[{}, {}, {}]\n", batch, rows, columns);
    const std::string each = fmt::format("[{}, {}]\n", batch, rows), sum = fmt::format("[{}]\n", columns);
    expect_graph("%0 = input \"dy\" : bf16" + whole + "%1 = input \"x\" : f32" + whole +
                 "%2 = input \"residual\" : f32" + whole + "%3 = cast(%0) : f32" + whole + "%4 = mul(%3, %1) : f32" +
                 whole + "%5 = reduce_sum(%4) {axes=[0, 1]} : f32" + sum + "%6 = reduce_sum(%3) {axes=[0, 1]} : f32" +
                 sum + "%7 = reduce_sum(%4) {axes=[2]} : f32" + each + "%8 = broadcast(%7) {axes=[0, 1]} : f32" +
                 whole + "%9 = mul(%8, %1) : f32" + whole + "%10 = add(%2, %9) : f32" + whole +
                 "%11 = cast(%10) : bf16" + whole + "%12 = reduce_sum(%10) {axes=[0, 1]} : f32" + sum +
                 "return %5, %6, %7, %10, %11, %12\n");
    EXPECT_THAT(kinds_, testing::ElementsAre("loop")) << whole;
  }
}

// A sum of what other threads compute, and rows that registers do not hold.
TEST_P(KernelsOnGpu, SumsOverRowsOfTheirOwn) {
  expect_graph(R"(%0 = input "x" : f32[6, 6]
%1 = exp2(%0) : f32[6, 6]
%2 = reduce_sum(%1) {axes=[1]} : f32[6]
%3 = permute(%1) {axes=[1, 0]} : f32[6, 6]
%4 = reduce_sum(%3) {axes=[0]} : f32[6]
return %1, %2, %4
)");
  EXPECT_THAT(kinds_, testing::UnorderedElementsAre("column_reduce", "loop"));
  expect_graph(R"(%0 = input "x" : f32[3, 20000]
%1 = reduce_sum(%0) {axes=[1]} : f32[3]
%2 = reduce_sum(%0) {axes=[0]} : f32[20000]
return %1, %2
)");
  EXPECT_THAT(kinds_, testing::UnorderedElementsAre("column_reduce", "loop"));
}

TEST_P(KernelsOnGpu, VectorsWithAndWithoutATail) {
  for (const int count : {4096, 4099, 2, 1031}) {
    const std::string shape = "[" + std::to_string(count) + "]";
    expect_graph("%0 = input \"x\" : bf16" + shape + "\n%1 = input \"y\" : f32" + shape + "\n%2 = cast(%0) : f32" +
                 shape + "\n%3 = fma(%2, %1, %1) : f32" + shape + "\n%4 = cast(%3) : bf16" + shape +
                 "\nreturn %3, %4\n");
    EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
  }
}

TEST_P(KernelsOnGpu, MovementInsideLoops) {
  expect_graph(R"(%0 = input "x" : f32[4, 6, 8]
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

// Conditions that whole vectors share, and one around a value of the same loop.
TEST_P(KernelsOnGpu, ConcatenationsOfWholeVectors) {
  expect_graph(R"(%0 = input "q" : bf16[5, 32]
%1 = input "k" : bf16[5, 16]
%2 = input "v" : bf16[5, 16]
%3 = concat(%0, %1, %2) {axes=[1]} : bf16[5, 64]
%4 = pad(%0) {start=[1, 16], limit=[0, 16], value=2} : bf16[6, 64]
%5 = input "x" : f32[6, 64]
%6 = neg(%5) : f32[6, 64]
%7 = slice(%6) {start=[0, 0], limit=[6, 32], strides=[1, 1]} : f32[6, 32]
%8 = pad(%7) {start=[0, 0], limit=[0, 32], value=0} : f32[6, 64]
%9 = pad(%7) {start=[0, 32], limit=[0, 0], value=0} : f32[6, 64]
%10 = add(%8, %9) : f32[6, 64]
return %3, %4, %6, %10
)");
}

TEST_P(KernelsOnGpu, Transposes) {
  expect_graph(R"(%0 = input "x" : f32[3, 40, 72]
%1 = permute(%0) {axes=[0, 2, 1]} : f32[3, 72, 40]
%2 = input "y" : f32[3, 72, 40]
%3 = add(%1, %2) : f32[3, 72, 40]
%4 = input "z" : bf16[2, 5, 3, 7]
%5 = permute(%4) {axes=[3, 1, 0, 2]} : bf16[7, 5, 2, 3]
%6 = neg(%5) : bf16[7, 5, 2, 3]
%7 = input "heads" : f32[2, 9, 4, 16]
%8 = permute(%7) {axes=[0, 2, 1, 3]} : f32[2, 4, 9, 16]
return %3, %6, %8
)");
}

TEST_P(KernelsOnGpu, BroadcastsAndEmbeddings) {
  expect_graph(R"(%0 = input "x" : f32[4, 7, 33]
%1 = input "bias" : f32[33]
%2 = input "row" : f32[7]
%3 = broadcast(%1) {axes=[2]} : f32[4, 7, 33]
%4 = broadcast(%2) {axes=[1]} : f32[4, 7, 33]
%5 = add(%0, %3) : f32[4, 7, 33]
%6 = mul(%5, %4) : f32[4, 7, 33]
%7 = input "table" : bf16[4, 64]
%8 = input "tokens" : i32[3, 11]
%9 = gather(%7, %8) {axes=[0]} : bf16[3, 11, 64]
%10 = iota {axes=[1]} : i32[3, 11]
%11 = input "positions" : bf16[16, 64]
%12 = gather(%11, %10) {axes=[0]} : bf16[3, 11, 64]
%13 = add(%9, %12) : bf16[3, 11, 64]
return %6, %13
)");
}

std::string layer_norm(int rows, int columns) {
  const std::string r = std::to_string(rows), c = std::to_string(columns), full = "[" + r + ", " + c + "]";
  const std::string mean = std::to_string(1.0 / columns);
  return "%0 = input \"x\" : f32" + full + "\n%1 = reduce_sum(%0) {axes=[1]} : f32[" + r + "]\n%2 = constant " + mean +
         " : f32[" + r + "]\n%3 = mul(%1, %2) : f32[" + r + "]\n%4 = broadcast(%3) {axes=[0]} : f32" + full +
         "\n%5 = sub(%0, %4) : f32" + full + "\n%6 = mul(%5, %5) : f32" + full +
         "\n%7 = reduce_sum(%6) {axes=[1]} : f32[" + r + "]\n%8 = mul(%7, %2) : f32[" + r +
         "]\n%9 = constant 1e-05 : f32[" + r + "]\n%10 = add(%8, %9) : f32[" + r + "]\n%11 = rsqrt(%10) : f32[" + r +
         "]\n%12 = broadcast(%11) {axes=[0]} : f32" + full + "\n%13 = mul(%5, %12) : f32" + full +
         "\n%14 = input \"weight\" : f32[" + c + "]\n%15 = broadcast(%14) {axes=[1]} : f32" + full +
         "\n%16 = mul(%13, %15) : f32" + full + "\n%17 = cast(%16) : bf16" + full + "\nreturn %17, %11\n";
}

// A wave's part, a wave, a block; rows kept in registers and rows read again; whole and ragged blocks of rows.
TEST_P(KernelsOnGpu, RowsOfEveryLength) {
  for (const auto& [rows, columns] :
       {std::pair{37, 96}, {16, 64}, {5, 3}, {9, 1000}, {3, 77}, {2, 4096}, {3, 5003}, {1, 256}, {2, 40000}}) {
    expect_graph(layer_norm(rows, columns));
    EXPECT_THAT(kinds_, testing::ElementsAre("loop")) << rows << " x " << columns;
  }
  // Of one element, of which a mean leaves nothing.
  expect_graph(R"(%0 = input "x" : f32[300, 1]
%1 = mul(%0, %0) : f32[300, 1]
%2 = reduce_sum(%1) {axes=[1]} : f32[300]
%3 = sqrt(%2) : f32[300]
%4 = broadcast(%3) {axes=[0]} : f32[300, 1]
%5 = add(%0, %4) : f32[300, 1]
return %5, %3
)");
}

// Two tensors whose rows wait in shared memory, of one block or of a cluster's, a third that is read once and takes
// more bytes, a number for each row; with checks for races where there is an emulator.
TEST_P(KernelsOnGpu, RowsInSharedMemory) {
  for (const auto& [rows, columns] : {std::pair{3, 17000}, {2, 40008}, {3, 120008}}) {
    const auto whole = [&](const std::string& type) { return fmt::format("{}[{}, {}]\n", type, rows, columns); };
    const std::string each = fmt::format("f32[{}]\n", rows);
    const std::string text =
        "%0 = input \"x\" : " + whole("bf16") + "%1 = input \"dy\" : " + whole("bf16") +
        "%2 = input \"residual\" : " + whole("f32") + "%3 = input \"weight\" : " + each +
        "%4 = cast(%0) : " + whole("f32") + "%5 = cast(%1) : " + whole("f32") +
        "%6 = reduce_max(%4) {axes=[1]} : " + each + "%7 = broadcast(%6) {axes=[0]} : " + whole("f32") +
        "%8 = sub(%4, %7) : " + whole("f32") + "%9 = exp2(%8) : " + whole("f32") +
        "%10 = mul(%9, %5) : " + whole("f32") + "%11 = reduce_sum(%10) {axes=[1]} : " + each +
        "%12 = mul(%11, %3) : " + each + "%13 = broadcast(%12) {axes=[0]} : " + whole("f32") +
        "%14 = sub(%5, %13) : " + whole("f32") + "%15 = mul(%14, %9) : " + whole("f32") +
        "%16 = add(%15, %2) : " + whole("f32") + "%17 = cast(%16) : " + whole("bf16") + "return %6, %17\n";
    expect_graph(text);
    EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
    if (!GetParam().starts_with("emulator:")) continue;
    EmulatorOptions options;
    options.checked = true;
    ProgramRunner checked(std::make_shared<EmulatorDevice>(runner().device().target().processor, options));
    const Graph graph = parse_graph(text);
    std::vector<HostTensor> inputs;
    for (const Value input : graph.inputs())
      inputs.push_back(
          random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
    EXPECT_NO_THROW(checked.run(graph, inputs));
  }
}

// Matrices of 8 bits and their transposes, of which one or two loops compute tiles: whole ones and what is left over.
TEST_P(KernelsOnGpu, MatricesInBothOrders) {
  for (const auto& [rows, columns] : {std::pair{144, 272}, {256, 128}, {16, 1040}, {400, 48}}) {
    const std::string along = fmt::format("[{}, {}]\n", rows, columns),
                      across = fmt::format("[{}, {}]\n", columns, rows);
    const std::string text = "%0 = input \"x\" : bf16" + along + "%1 = input \"row\" : f32" +
                             fmt::format("[{}]\n", rows) + "%2 = broadcast(%1) {axes=[0]} : f32" + along +
                             "%3 = cast(%0) : f32" + along + "%4 = cast(%3) : f8e4m3" + along +
                             "%5 = permute(%4) {axes=[1, 0]} : f8e4m3" + across + "%6 = max(%3, %2) : f32" + along +
                             "%7 = cast(%6) : f8e5m2" + along + "%8 = permute(%7) {axes=[1, 0]} : f8e5m2" + across +
                             "return %4, %5, %7, %8\n";
    expect_graph(text);
    EXPECT_THAT(kinds_, testing::ElementsAre("loop")) << rows << " x " << columns;
  }
}

// Blocks that store the other order are not those that have read what is there.
TEST_P(KernelsOnGpu, AMatrixIsNotOverwrittenByItsTranspose) {
  expect_graph(R"(%0 = input "x" : f8e4m3[256, 256]
%1 = cast(%0) : f32[256, 256]
%2 = neg(%1) : f32[256, 256]
%3 = cast(%2) : f8e4m3[256, 256]
%4 = permute(%3) {axes=[1, 0]} : f8e4m3[256, 256]
assign %0 = %4
return %3
)");
}

// A row in shared memory beside one that its kernel has computed and stored: the widest teams, which come of the first,
// would have registers for the second.
TEST_P(KernelsOnGpu, OwnValueBesideARowInSharedMemory) {
  for (const auto& [rows, columns] : {std::pair(1, 32768), std::pair(65, 12288)}) {
    expect_graph(fmt::format(R"(%0 = input "x" : f32[{0}, {1}]
%1 = input "g" : f32[{0}, {1}]
%2 = mul(%0, %1) : f32[{0}, {1}]
%3 = mul(%2, %0) : f32[{0}, {1}]
%4 = reduce_sum(%3) {{axes=[1]}} : f32[{0}]
%5 = broadcast(%4) {{axes=[0]}} : f32[{0}, {1}]
%6 = mul(%0, %5) : f32[{0}, {1}]
%7 = sub(%2, %6) : f32[{0}, {1}]
return %2, %7
)",
                             rows, columns));
    EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
  }
}

// Positions compared with a number of the row and with where a vocabulary ends: within a vector, at its ends, in what
// is left over, before the first and behind the last.
TEST_P(KernelsOnGpu, PositionsComparedInLongRows) {
  constexpr int kRows = 11, kColumns = 17000;
  const std::string whole = fmt::format("[{}, {}]\n", kRows, kColumns), each = fmt::format("[{}]\n", kRows);
  for (const std::string_view less : {"lt", "le"}) {
    // Row r is compared with 1873 r - 1: -1, each place in a vector, 18729.
    expect_graph(
        "%0 = input \"x\" : bf16" + whole + "%1 = iota {axes=[1]} : i32" + whole +
        "%2 = constant 16987 : i32[]\n%3 = broadcast(%2) {axes=[]} : i32" + whole +
        fmt::format("%4 = {}(%1, %3) : bool", less) + whole + "%5 = cast(%0) : f32" + whole +
        "%6 = constant -4 : f32[]\n%7 = broadcast(%6) {axes=[]} : f32" + whole + "%8 = select(%4, %5, %7) : f32" +
        whole + "%9 = reduce_max(%8) {axes=[1]} : f32" + each + "%10 = iota {axes=[0]} : i32" + each +
        "%11 = constant 1873 : i32[]\n" + "%12 = broadcast(%11) {axes=[]} : i32" + each + "%13 = mul(%10, %12) : i32" +
        each + "%14 = constant -1 : i32[]\n%15 = broadcast(%14) {axes=[]} : i32" + each + "%16 = add(%13, %15) : i32" +
        each + "%17 = broadcast(%16) {axes=[0]} : i32" + whole + "%18 = eq(%17, %1) : bool" + whole +
        "%19 = broadcast(%9) {axes=[0]} : f32" + whole + "%20 = sub(%8, %19) : f32" + whole +
        "%21 = constant 100 : f32[]\n" + "%22 = broadcast(%21) {axes=[]} : f32" + whole +
        "%23 = select(%18, %22, %20) : f32" + whole + fmt::format("%24 = {}(%17, %1) : bool", less) + whole +
        "%25 = neg(%23) : f32" + whole + "%26 = select(%24, %25, %23) : f32" + whole +
        "%27 = reduce_sum(%26) {axes=[1]} : f32" + each + "return %9, %26, %27\n");
    EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
  }
}

TEST_P(KernelsOnGpu, Softmax) {
  for (const std::string columns : {"77", "64", "2048"}) {
    const std::string full = "[2, 3, " + columns + "]";
    expect_graph("%0 = input \"x\" : bf16" + full + "\n%1 = reduce_max(%0) {axes=[2]} : bf16[2, 3]\n" +
                 "%2 = broadcast(%1) {axes=[0, 1]} : bf16" + full + "\n%3 = sub(%0, %2) : bf16" + full +
                 "\n%4 = cast(%3) : f32" + full + "\n%5 = exp2(%4) : f32" + full +
                 "\n%6 = reduce_sum(%5) {axes=[2]} : f32[2, 3]\n%7 = broadcast(%6) {axes=[0, 1]} : f32" + full +
                 "\n%8 = div(%5, %7) : f32" + full + "\nreturn %8\n");
    EXPECT_THAT(kinds_, testing::ElementsAre("loop"));
  }
}

// Long rows that begin within a vector.
TEST_P(KernelsOnGpu, UnalignedRows) {
  expect_graph(R"(%0 = input "logits" : bf16[2, 3, 1027]
%1 = reduce_max(%0) {axes=[2]} : bf16[2, 3]
%2 = broadcast(%1) {axes=[0, 1]} : bf16[2, 3, 1027]
%3 = sub(%0, %2) : bf16[2, 3, 1027]
%4 = cast(%3) : f32[2, 3, 1027]
%5 = exp2(%4) : f32[2, 3, 1027]
%6 = reduce_sum(%5) {axes=[2]} : f32[2, 3]
%7 = broadcast(%6) {axes=[0, 1]} : f32[2, 3, 1027]
%8 = div(%5, %7) : f32[2, 3, 1027]
%9 = input "scale" : f32[3]
%10 = broadcast(%9) {axes=[1]} : f32[2, 3, 1027]
%11 = input "bias" : f32[1027]
%12 = broadcast(%11) {axes=[2]} : f32[2, 3, 1027]
%13 = input "x" : bf16[2, 3, 1027]
%14 = cast(%13) : f32[2, 3, 1027]
%15 = fma(%14, %10, %12) : f32[2, 3, 1027]
%16 = cast(%15) : bf16[2, 3, 1027]
%17 = input "y" : f32[5, 1029]
%18 = pad(%17) {start=[0, 1], limit=[0, 1], value=0.5} : f32[5, 1031]
return %8, %1, %16, %18
)");
}

// A few long rows are summed in parts; what follows from the sums is computed with the second launch.
TEST_P(KernelsOnGpu, LongRowsInParts) {
  expect_graph(R"(%0 = input "x" : f32[200003]
%1 = mul(%0, %0) : f32[200003]
%2 = reduce_sum(%1) {axes=[0]} : f32[]
%3 = sqrt(%2) : f32[]
%4 = input "scale" : f32[]
%5 = mul(%3, %4) : f32[]
return %3, %5
)");
  expect_graph(R"(%0 = input "x" : bf16[3, 70000]
%1 = reduce_max(%0) {axes=[1]} : bf16[3]
%2 = cast(%0) : f32[3, 70000]
%3 = neg(%2) : f32[3, 70000]
%4 = reduce_sum(%3) {axes=[1]} : f32[3]
%5 = input "counts" : i64[3, 70000]
%6 = reduce_sum(%5) {axes=[1]} : i64[3]
return %1, %3, %4, %6
)");
}

TEST_P(KernelsOnGpu, ColumnSumsInParts) {
  expect_graph(R"(%0 = input "x" : f32[3000, 40]
%1 = reduce_sum(%0) {axes=[0]} : f32[40]
%2 = input "y" : bf16[2, 700, 3, 16]
%3 = reduce_sum(%2) {axes=[1]} : bf16[2, 3, 16]
%4 = reduce_max(%2) {axes=[0, 1]} : bf16[3, 16]
%5 = reduce_max(%2) {axes=[0, 2]} : bf16[700, 16]
%6 = input "z" : f32[900, 7]
%7 = input "row" : f32[900]
%8 = broadcast(%7) {axes=[0]} : f32[900, 7]
%9 = mul(%6, %8) : f32[900, 7]
%10 = reduce_sum(%9) {axes=[0]} : f32[7]
return %1, %3, %4, %5, %10
)");
  EXPECT_THAT(kinds_, testing::Contains("column_reduce"));
}

TEST_P(KernelsOnGpu, SymbolicSizes) {
  bindings_[Dim::symbol_id("B")] = 3;
  bindings_[Dim::symbol_id("T")] = 11;
  expect_graph(R"(%0 = input "x" : f32[B, T, 24]
%1 = reduce_sum(%0) {axes=[1]} : f32[B, 24]
%2 = broadcast(%1) {axes=[0, 2]} : f32[B, T, 24]
%3 = mul(%0, %2) : f32[B, T, 24]
%4 = reduce_max(%3) {axes=[2]} : f32[B, T]
%5 = broadcast(%4) {axes=[0, 1]} : f32[B, T, 24]
%6 = sub(%3, %5) : f32[B, T, 24]
%7 = reduce_sum(%6) {axes=[0, 1, 2]} : f32[]
%8 = permute(%6) {axes=[2, 1, 0]} : f32[24, T, B]
%9 = input "tokens" : i32[B, T]
%10 = constant 0 : f32[9, 24]
%11 = scatter_add(%10, %9, %6) {axes=[0]} : f32[9, 24]
%12 = argmax(%0) {axes=[1]} : i32[B, 24]
%13 = cumsum(%6) {axes=[1]} : f32[B, T, 24]
return %6, %7, %8, %11, %12, %13
)");
}

TEST_P(KernelsOnGpu, ScatterAdd) {
  // Repeated, negative and too large indices.
  const HostTensor indices{DType::kI32, {3, 5}, {1, 0, 3, 3, -1, 3, 2, 4, 1, 9, 3, 3, -7, 0, 1}};
  expect_graph(R"(%0 = input "indices" : i32[3, 5]
%1 = input "updates" : f32[3, 5, 40]
%2 = input "base" : f32[4, 40]
%3 = scatter_add(%2, %0, %1) {axes=[0]} : f32[4, 40]
%4 = input "narrow" : bf16[3, 5, 7]
%5 = constant 0.5 : bf16[4, 7]
%6 = scatter_add(%5, %0, %4) {axes=[0]} : bf16[4, 7]
%7 = input "inner" : f32[2, 3, 5, 6]
%8 = input "inner_base" : f32[2, 4, 6]
%9 = scatter_add(%8, %0, %7) {axes=[1]} : f32[2, 4, 6]
%10 = input "last" : i64[2, 3, 5]
%11 = input "last_base" : i64[2, 4]
%12 = scatter_add(%11, %0, %10) {axes=[1]} : i64[2, 4]
return %3, %6, %9, %12
)",
               {indices});
}

// A gradient whose rows are looked up, in a sum and in an update: the whole is never in memory.
TEST_P(KernelsOnGpu, SparseGradients) {
  const Graph dense = parse_graph(R"(%0 = input "table" : f32[1000, 72]
%1 = input "tokens" : i32[2, 40]
%2 = input "dy" : f32[2, 40, 72]
%3 = constant 0 : f32[1000, 72]
%4 = scatter_add(%3, %1, %2) {axes=[0]} : f32[1000, 72]
%5 = mul(%4, %4) : f32[1000, 72]
%6 = reduce_sum(%5) {axes=[0, 1]} : f32[]
%7 = sub(%0, %4) : f32[1000, 72]
assign %0 = %7
return %6
)");
  const Graph sparse = passes::sparse_gradients(dense, 100);
  const std::vector<HostTensor> inputs = {random_host_tensor(DType::kF32, {1000, 72}, 1, -1, 1),
                                          random_host_tensor(DType::kI32, {2, 40}, 2, 0, 50),
                                          random_host_tensor(DType::kF32, {2, 40, 72}, 3, -1, 1)};
  const std::vector<HostTensor> expected = interpret(dense, inputs, {}, Rounding::kRounded);
  Program program(sparse, runner().device(), runner().library(), runner().arena());
  const std::vector<HostTensor> actual = runner().run(program, inputs);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const Comparison comparison = compare(actual[i], expected[i], bounds::of_graph(dense, {}));
    EXPECT_TRUE(comparison.equal) << comparison.text;
  }
  EXPECT_LT(program.lowered().arena_bytes, 1000 * 72 * 4);
}

// Few updates and many, in the base's place and beside it, with repeated indices and with such outside.
TEST_P(KernelsOnGpu, ScatterAddMayReplaceRows) {
  for (const int64_t updates : {15, 700}) {
    SCOPED_TRACE(updates);
    const HostTensor indices = random_host_tensor(DType::kI32, {updates}, 5, -3, 90);
    expect_graph(fmt::format(R"(%0 = input "indices" : i32[{0}]
%1 = input "updates" : f32[{0}, 40]
%2 = input "base" : f32[90, 40]
%3 = scatter_add(%2, %0, %1) {{axes=[0], replaces}} : f32[90, 40]
%4 = input "narrow" : bf16[{0}, 7]
%5 = input "kept" : bf16[80, 7]
%6 = scatter_add(%5, %0, %4) {{axes=[0], replaces}} : bf16[80, 7]
%7 = input "inner" : i32[2, {0}, 6]
%8 = input "inner_base" : i32[2, 85, 6]
%9 = scatter_add(%8, %0, %7) {{axes=[1], replaces}} : i32[2, 85, 6]
%10 = reduce_sum(%6) {{axes=[0, 1]}} : bf16[]
assign %5 = %6
return %3, %9, %10
)",
                             updates),
                 {indices});
  }
}

TEST_P(KernelsOnGpu, ScatterAddOfManyUpdates) {
  expect_graph(R"(%0 = input "tokens" : i32[1500]
%1 = input "gradients" : f32[1500, 24]
%2 = constant 0 : f32[6, 24]
%3 = scatter_add(%2, %0, %1) {axes=[0]} : f32[6, 24]
return %3
)");
}

// Integers add up exactly. Keys of one to three digits, with the first index that takes one more; blocks of several
// tiles; runs within a team's window, across two and across many; vectors of columns that fill a team and that do not.
TEST_P(KernelsOnGpu, ScatterAddOfEverySize) {
  struct Case {
    int64_t rows, updates, width;
    double low, high;  // of the indices
  };
  for (const Case& c :
       {Case{511, 700, 4, -5, 520}, Case{512, 1100, 3, -5, 520}, Case{70, 97, 260, 20, 40},
        Case{300000, 600, 1, -100000, 400000}, Case{5, 32, 6, 2, 3}, Case{5, 33, 6, 2, 3}, Case{3, 2100, 1, 1, 2},
        Case{40, 66100, 1, -1, 45}, Case{4, 50, 8, 4, 9}, Case{4, 0, 8, 0, 4}, Case{1, 1, 1, 0, 1}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.updates << " updates of " << c.width);
    const HostTensor indices = random_host_tensor(DType::kI64, {c.updates}, 7, c.low, c.high);
    expect_graph(fmt::format(R"(%0 = input "indices" : i64[{1}]
%1 = input "updates" : i32[{1}, {2}]
%2 = input "base" : i32[{0}, {2}]
%3 = scatter_add(%2, %0, %1) {{axes=[0]}} : i32[{0}, {2}]
return %3
)",
                             c.rows, c.updates, c.width),
                 {indices});
  }
}

// Sizes known at launch: indices of 64 bits in the kernels, and as many passes as the rows need.
TEST_P(KernelsOnGpu, ScatterAddOfSymbolicSizes) {
  for (const auto& [rows, updates] : {std::pair<int64_t, int64_t>{9, 70}, {700, 900}, {3, 0}}) {
    bindings_[Dim::symbol_id("R")] = rows;
    bindings_[Dim::symbol_id("N")] = updates;
    const HostTensor indices = random_host_tensor(DType::kI32, {updates}, 5, -1, static_cast<double>(rows) + 1);
    expect_graph(R"(%0 = input "indices" : i32[N]
%1 = input "updates" : i32[2, N, 5]
%2 = input "base" : i32[2, R, 5]
%3 = scatter_add(%2, %0, %1) {axes=[1]} : i32[2, R, 5]
%4 = input "halves" : bf16[N, 12]
%5 = input "wide" : bf16[R, 12]
%6 = scatter_add(%5, %0, %4) {axes=[0]} : bf16[R, 12]
return %3, %6
)",
                 {indices});
  }
}

TEST_P(KernelsOnGpu, ScatterAddGivesTheSameBitsInEveryRun) {
  const Graph graph = parse_graph(R"(%0 = input "tokens" : i32[3000]
%1 = input "gradients" : f32[3000, 40]
%2 = constant 0 : f32[600, 40]
%3 = scatter_add(%2, %0, %1) {axes=[0]} : f32[600, 40]
return %3
)");
  HostTensor tokens = random_host_tensor(DType::kI32, {3000}, 1, 0, 600);
  for (size_t i = 0; i < tokens.values.size(); i += 3) tokens.values[i] = 17;
  const std::vector<HostTensor> inputs = {tokens, random_host_tensor(DType::kF32, {3000, 40}, 2, -1, 1)};
  Program program(graph, runner().device(), runner().library(), runner().arena());
  const std::vector<HostTensor> first = runner().run(program, inputs, {});
  for (int run = 0; run < 3; ++run) EXPECT_EQ(runner().run(program, inputs, {})[0].values, first[0].values);
}

TEST_P(KernelsOnGpu, AssignedValuesMayTakeTheirTargetsPlace) {
  expect_graph(R"(%0 = input "table" : f32[4, 40]
%1 = input "indices" : i32[9]
%2 = input "updates" : f32[9, 40]
%3 = scatter_add(%0, %1, %2) {axes=[0]} : f32[4, 40]
%4 = input "weight" : f32[1003]
%5 = input "gradient" : f32[1003]
%6 = sub(%4, %5) : f32[1003]
%7 = input "loss" : f32[]
%8 = reduce_sum(%5) {axes=[0]} : f32[]
%9 = add(%7, %8) : f32[]
assign %0 = %3
assign %4 = %6
assign %7 = %9
return %8
)");
}

TEST_P(KernelsOnGpu, AlongAnAxis) {
  expect_graph(R"(%0 = input "x" : f32[6, 9]
%1 = argmax(%0) {axes=[1]} : i32[6]
%2 = argmax(%0) {axes=[0]} : i32[9]
%3 = cumsum(%0) {axes=[0]} : f32[6, 9]
%4 = cumsum(%0) {axes=[1]} : f32[6, 9]
%5:2 = topk(%0) {count=3} : f32[6, 3], i32[6, 3]
%6 = input "long" : f32[3, 2500]
%7 = argmax(%6) {axes=[1]} : i32[3]
%8 = cumsum(%6) {axes=[1]} : f32[3, 2500]
%9:2 = topk(%6) {count=5} : f32[3, 5], i32[3, 5]
%10 = input "counts" : i64[2, 3000]
%11 = cumsum(%10) {axes=[1]} : i64[2, 3000]
%12 = argmax(%10) {axes=[1]} : i32[2]
%13 = input "bytes" : u8[300, 4]
%14 = cumsum(%13) {axes=[1]} : u8[300, 4]
%15:2 = topk(%13) {count=4} : u8[300, 4], i32[300, 4]
return %1, %2, %3, %4, %5.0, %5.1, %7, %8, %9.0, %9.1, %11, %12, %14, %15.0, %15.1
)");
}

TEST_P(KernelsOnGpu, NaNAndEqualValuesAlongAnAxis) {
  const double nan = std::nan("");
  const HostTensor x{DType::kF32, {3, 5}, {1, nan, 3, nan, 2, -0.0, 0.0, -1, 0.0, -2, 7, 7, -7, 7, -INFINITY}};
  expect_graph(R"(%0 = input "x" : f32[3, 5]
%1 = argmax(%0) {axes=[1]} : i32[3]
%2:2 = topk(%0) {count=5} : f32[3, 5], i32[3, 5]
%3 = reduce_max(%0) {axes=[1]} : f32[3]
%4 = reduce_max(%0) {axes=[0]} : f32[5]
return %1, %2.0, %2.1, %3, %4
)",
               {x});
}

TEST_P(KernelsOnGpu, RandomGraphs) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomGraphOptions options;
    options.symbolic = seed % 3 == 2;
    const RandomGraph random = make_random_graph(seed, options);
    const std::vector<HostTensor> reference = interpret(random.graph, random.inputs, random.bindings);
    const Graph graph = seed % 2 == 0 ? random.graph : run_pipeline(random.graph, {}, preferred_sizes_of_processors());
    const std::vector<HostTensor> actual = runner().run(graph, random.inputs, random.bindings);
    ASSERT_EQ(actual.size(), reference.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], reference[i], bounds::derived(random.tolerances[i]));
      ASSERT_TRUE(comparison.equal) << "seed " << seed << ", result " << i << ": " << comparison.text << "\n"
                                    << print_graph(graph);
    }
  }
}

}  // namespace
}  // namespace causeway::program
