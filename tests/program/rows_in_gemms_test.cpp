// Norms that the GEMMs behind them compute: where that happens, what it gives against the reference interpreter, and
// what keeps a norm in a launch of its own. On emulated GPUs, or on the device that the environment variable
// CAUSEWAY_TEST_DEVICE names.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "causeway/device/emulator/emulator_device.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "tests/comparison/bounds.h"
#include "tests/comparison/comparison.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

// A layer norm of f32 rows without a shift, cast to bf16 as %16, times weights of which each column lies along k, as
// %17. `rest` comes behind it, from %18 on.
std::string norm_and_gemm(int rows, int k, int n, const std::string& rest) {
  return fmt::format(
             R"(%0 = input "x" : f32[{0}, {1}]
%1 = input "scale" : f32[{1}]
%2 = input "weights" : bf16[{2}, {1}]
%3 = reduce_sum(%0) {{axes=[1]}} : f32[{0}]
%4 = constant {3} : f32[{0}]
%5 = mul(%3, %4) : f32[{0}]
%6 = broadcast(%5) {{axes=[0]}} : f32[{0}, {1}]
%7 = sub(%0, %6) : f32[{0}, {1}]
%8 = mul(%7, %7) : f32[{0}, {1}]
%9 = reduce_sum(%8) {{axes=[1]}} : f32[{0}]
%10 = mul(%9, %4) : f32[{0}]
%11 = rsqrt(%10) : f32[{0}]
%12 = broadcast(%11) {{axes=[0]}} : f32[{0}, {1}]
%13 = mul(%7, %12) : f32[{0}, {1}]
%14 = broadcast(%1) {{axes=[1]}} : f32[{0}, {1}]
%15 = mul(%13, %14) : f32[{0}, {1}]
%16 = cast(%15) : bf16[{0}, {1}]
%17 = dot(%16, %2) {{transpose_b}} : f32[{0}, {2}]
)",
             rows, k, n, 1.0 / k) +
         rest;
}

std::string kinds_with_rows(const Graph& graph, const std::string& architecture) {
  std::string text;
  for (const KernelRequest& request : fuse(graph, gpu_target(architecture)).kernels)
    text += fmt::format("{}{} ", kernel_kind_name(request.kind), request.row_members.empty() ? "" : " with rows");
  return text;
}

std::vector<HostTensor> random_inputs(const Graph& graph) {
  std::vector<HostTensor> inputs;
  for (const Value input : graph.inputs())
    inputs.push_back(
        random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
  return inputs;
}

class RowsInGemms : public testing::TestWithParam<std::string> {
 protected:
  void expect_reference(const Graph& graph) {
    const std::vector<HostTensor> inputs = random_inputs(graph);
    const std::vector<HostTensor> expected = interpret(graph, inputs, {}, Rounding::kRounded);
    const std::vector<HostTensor> actual = runner_.run(graph, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], expected[i], bounds::of_graph(graph, {}));
      EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text;
    }
  }

  ProgramRunner runner_{open_device_under_test(GetParam())};
};

std::vector<std::string> rows_devices() {
  return devices_under_test({"emulator:sm_80", "emulator:sm_90a", "emulator:gfx942"});
}

INSTANTIATE_TEST_SUITE_P(Devices, RowsInGemms, testing::ValuesIn(rows_devices()), named_by_device);

// Rows of a wave's team and of a block's, whole and with columns that fill no vector of threads; few columns and many,
// sums in parts.
TEST_P(RowsInGemms, GiveWhatTheReferenceDoes) {
  for (const auto& [rows, k, n] : {std::array{1, 64, 40}, std::array{1, 1600, 200}, std::array{2, 96, 24},
                                   std::array{2, 1312, 51}, std::array{1, 4096, 24}})
    expect_reference(parse_graph(norm_and_gemm(rows, k, n, "return %17\n")));
}

// The sum may not take the place of the rows that other blocks still read.
TEST_P(RowsInGemms, ResultsOfTheRowsSizeHaveMemoryOfTheirOwn) {
  const std::string type = "f32[1, 320]";
  expect_reference(
      parse_graph(norm_and_gemm(1, 320, 320, "%18 = add(%17, %0) : " + type + "\nassign %0 = %18\nreturn %17\n")));
}

TEST_P(RowsInGemms, NoRacesAndNoAccessOutsideOfMemory) {
  EmulatorOptions options;
  options.checked = true;
  const Graph graph = parse_graph(norm_and_gemm(2, 1600, 72, "return %17\n"));
  ProgramRunner checked(std::make_shared<EmulatorDevice>(runner_.device().target().processor, options));
  EXPECT_NO_THROW(checked.run(graph, random_inputs(graph)));
}

TEST(RowsInGemmsPlan, WhereEachBlockCan) {
  const auto graph = [](int rows, int k, const std::string& rest) {
    return parse_graph(norm_and_gemm(rows, k, 64, rest));
  };
  EXPECT_EQ(kinds_with_rows(graph(1, 1600, "return %17\n"), "sm_90a"), "dot with rows ");
  EXPECT_EQ(kinds_with_rows(graph(2, 1600, "return %17\n"), "sm_80"), "dot with rows ");
  // Rows that are many, or long, or that others read too; and other multipliers.
  EXPECT_EQ(kinds_with_rows(graph(3, 1600, "return %17\n"), "sm_90a"), "loop dot ");
  EXPECT_EQ(kinds_with_rows(graph(1, 16384, "return %17\n"), "sm_90a"), "loop dot ");
  EXPECT_EQ(kinds_with_rows(graph(1, 1600, "return %17, %16\n"), "sm_90a"), "loop dot ");
  EXPECT_EQ(kinds_with_rows(graph(1, 1600, "return %17\n"), "gfx942"), "loop dot ");
  // Rows that the GEMM's own epilogue reads too.
  const std::string residual = "%18 = cast(%16) : f32[1, 64]\n%19 = add(%17, %18) : f32[1, 64]\nreturn %19\n";
  EXPECT_EQ(kinds_with_rows(graph(1, 64, residual), "sm_90a"), "loop dot ");
  // A sum that a result is as well.
  EXPECT_EQ(kinds_with_rows(graph(1, 1600, "return %17, %9\n"), "sm_90a"), "loop dot ");
}

}  // namespace
}  // namespace causeway::program
