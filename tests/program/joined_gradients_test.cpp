// The gradients of queries, keys and values side by side, which attention's gradient stores so: where that happens, and
// what it gives against the reference interpreter. On a processor and emulated GPUs, or on the device that the
// environment variable CAUSEWAY_TEST_DEVICE names.
#include "causeway/passes/joined_gradients.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/parser.h"
#include "tests/comparison/bounds.h"
#include "tests/comparison/comparison.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::program {
namespace {

constexpr int kColumns = 512;  // of 4 heads of queries and 2 of keys and of values, 64 elements each
constexpr std::array kWidths = {256, 128, 128};

// As a bf16 step has it: the gradients of queries, keys and values from columns `first` on, a GEMM with them and
// their sums over rows.
std::string gradient_of_projection(const std::array<int, 3>& first, const std::string& more_results = "") {
  std::string text = R"(%0 = input "q" : bf16[2, 72, 4, 64]
%1 = input "k" : bf16[2, 72, 2, 64]
%2 = input "v" : bf16[2, 72, 2, 64]
%3 = input "dout" : bf16[2, 72, 4, 64]
%4 = input "lse" : f32[2, 4, 72]
%5 = input "delta" : f32[2, 4, 72]
%6 = input "weight" : bf16[512, 40]
%7:3 = attention_gradient(%0, %1, %2, %3, %4, %5) {scale=0.125, block_q=64, block_k=64, mask={
%0 = input "batch" : i32[]
%1 = input "head" : i32[]
%2 = input "query" : i32[]
%3 = input "key" : i32[]
%4 = le(%3, %2) : bool[]
return %4
}} : bf16[2, 72, 4, 64], bf16[2, 72, 2, 64], bf16[2, 72, 2, 64]
)";
  for (size_t i = 0; i < first.size(); ++i) {
    const int width = kWidths[i];
    text += fmt::format(
        "%{0} = cast(%7.{1}) : f32[2, 72, {2}, 64]\n%{3} = reshape(%{0}) : f32[2, 72, {4}]\n"
        "%{5} = pad(%{3}) {{start=[0, 0, {6}], limit=[0, 0, {7}]}} : f32[2, 72, 512]\n",
        8 + 3 * i, i, width / 64, 9 + 3 * i, width, 10 + 3 * i, first[i], kColumns - width - first[i]);
  }
  return text + R"(%17 = add(%10, %13) : f32[2, 72, 512]
%18 = add(%17, %16) : f32[2, 72, 512]
%19 = cast(%18) : bf16[2, 72, 512]
%20 = reshape(%19) : bf16[144, 512]
%21 = dot(%20, %6) : f32[144, 40]
%22 = cast(%19) : f32[2, 72, 512]
%23 = reduce_sum(%22) {axes=[0, 1]} : f32[512]
return %19, %21, %23)" +
         more_results + "\n";
}

std::string kinds_on_target(const Graph& graph, const Target& target) {
  std::string text;
  for (const KernelRequest& request : fuse(graph, target).kernels)
    text += fmt::format("{} ", kernel_kind_name(request.kind));
  return text;
}

class JoinedGradientsTest : public testing::TestWithParam<std::string> {
 protected:
  void expect_reference(const Graph& graph) {
    std::vector<HostTensor> inputs;
    for (const Value input : graph.inputs())
      inputs.push_back(
          random_host_tensor(graph.dtype(input), evaluate(graph.shape(input), {}), inputs.size() + 1, -1, 1));
    const std::vector<HostTensor> expected = interpret(graph, inputs, {}, Rounding::kRounded);
    const std::vector<HostTensor> actual = runner_.run(graph, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Comparison comparison = compare(actual[i], expected[i], bounds::attention(DType::kBF16));
      EXPECT_TRUE(comparison.equal) << "result " << i << ": " << comparison.text;
    }
  }

  ProgramRunner runner_{open_device_under_test(GetParam())};
};

INSTANTIATE_TEST_SUITE_P(Devices, JoinedGradientsTest,
                         testing::ValuesIn(devices_under_test({"cpu", "emulator:sm_80", "emulator:sm_90a",
                                                               "emulator:gfx942"})),
                         [](const auto& test) { return test_name_of_device(test.param); });

TEST_P(JoinedGradientsTest, AreStoredSideBySide) {
  for (const std::array<int, 3>& first : {std::array{0, 256, 384}, {128, 384, 0}}) {
    const Graph graph = parse_graph(gradient_of_projection(first));
    expect_reference(graph);
    EXPECT_EQ(kinds_on_target(graph, runner_.device().target()), "attention_gradient dot column_reduce ");
  }
}

// They are needed by themselves too, overlap, or leave columns out.
TEST_P(JoinedGradientsTest, AreStoredApartWhereMoreIsDoneWithThem) {
  for (const std::string& text :
       {gradient_of_projection({0, 256, 384}, ", %7.1"), gradient_of_projection({0, 256, 384}, ", %18"),
        gradient_of_projection({0, 256, 256}), gradient_of_projection({0, 256, 320})}) {
    const Graph graph = parse_graph(text);
    expect_reference(graph);
    EXPECT_NE(kinds_on_target(graph, runner_.device().target()).find("loop"), std::string::npos) << text;
  }
}

TEST(JoinedGradients, SayWhereEachOfThemBegins) {
  const Graph graph = parse_graph(gradient_of_projection({128, 384, 0}));
  const auto joined = passes::find_joined_gradients(graph, {19, 0});
  ASSERT_TRUE(joined.has_value());
  ASSERT_EQ(joined->parts.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(joined->parts[i].gradient, (Value{7, static_cast<int32_t>(i)}));
  EXPECT_EQ(joined->parts[0].first_column, Dim(128));
  EXPECT_EQ(joined->parts[1].first_column, Dim(384));
  EXPECT_EQ(joined->parts[2].first_column, Dim(0));
  EXPECT_FALSE(passes::find_joined_gradients(graph, {17, 0}).has_value());
  EXPECT_FALSE(passes::find_joined_gradients(graph, {20, 0}).has_value());
}

}  // namespace
}  // namespace causeway::program
