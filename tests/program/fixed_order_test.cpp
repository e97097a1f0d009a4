// LoweringOptions::fixed_order: a part of a result has the bits that it has in the whole, and a sum those that it has
// in a kernel of its own, on every device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "causeway/graph/parser.h"
#include "causeway/passes/gradient.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

// Of what is cut: the axis of an input or output, or that it is whole.
constexpr int kWhole = -1;

struct CutCase {
  std::string name;
  std::function<std::string(int64_t)> text;  // of the graph, whose cut axes have this size
  std::vector<int> inputs, outputs;
  int64_t whole = 0;
  std::vector<int64_t> parts;
  bool adds_gradients = false;  // of the first output, a scalar, by all inputs but the last
  bool from_end = false;        // parts are the last elements along an axis, not the first
};

void PrintTo(const CutCase& one, std::ostream* out) { *out << one.name; }

// The first or the last elements along the axis.
HostTensor part_of(const HostTensor& tensor, int axis, int64_t size, bool from_end) {
  if (axis == kWhole) return tensor;
  const auto at = static_cast<size_t>(axis);
  HostTensor part{tensor.dtype, tensor.shape, {}};
  part.shape[at] = size;
  int64_t inner = 1;
  for (size_t i = at + 1; i < tensor.shape.size(); ++i) inner *= tensor.shape[i];
  const int64_t line = tensor.shape[at] * inner, first = from_end ? line - size * inner : 0;
  for (int64_t from = first; from < static_cast<int64_t>(tensor.values.size()); from += line)
    part.values.insert(part.values.end(), tensor.values.begin() + from, tensor.values.begin() + from + size * inner);
  return part;
}

std::string attention_text(int64_t heads, const std::string& dtype) {
  return fmt::format(R"(%0 = input "q" : {1}[2, 96, {0}, 64]
%1 = input "k" : {1}[2, 96, {0}, 64]
%2 = input "v" : {1}[2, 96, {0}, 64]
%3 = input "g" : f32[2, 96, {0}, 64]
%4:2 = attention(%0, %1, %2) {{
  scale=0.125, block_q=64, block_k=64,
  mask={{
    %0 = input "b" : i32[]
    %1 = input "h" : i32[]
    %2 = input "i" : i32[]
    %3 = input "j" : i32[]
    %4 = le(%3, %2) : bool[]
    return %4
  }}
}} : {1}[2, 96, {0}, 64], f32[2, {0}, 96]
%5 = cast(%4) : f32[2, 96, {0}, 64]
%6 = mul(%5, %3) : f32[2, 96, {0}, 64]
%7 = reduce_sum(%6) {{axes=[0, 1, 2, 3]}} : f32[]
return %7, %4
)",
                     heads, dtype);
}

const std::vector<CutCase>& cut_cases() {
  static const std::vector<CutCase> cases = {
      {"GemmOfRows",
       [](int64_t n) {
         return fmt::format(
             "%0 = input \"a\" : bf16[{0}, 1040]\n%1 = input \"b\" : bf16[1040, 136]\n"
             "%2 = dot(%0, %1) : f32[{0}, 136]\nreturn %2\n",
             n);
       },
       {0, kWhole},
       {0},
       200,
       {8, 40, 128}},
      {"GemmOfColumns",
       [](int64_t n) {
         return fmt::format(
             "%0 = input \"a\" : f32[24, 1040]\n%1 = input \"b\" : f32[{0}, 1040]\n"
             "%2 = permute(%1) {{axes=[1, 0]}} : f32[1040, {0}]\n%3 = dot(%0, %2) : f32[24, {0}]\nreturn %3\n",
             n);
       },
       {kWhole, 0},
       {1},
       160,
       {3, 16, 80}},
      // Few long rows, whose sums other values follow.
      {"SumsOfFewRows",
       [](int64_t n) {
         return fmt::format(R"(%0 = input "x" : f32[{0}, 70000]
%1 = reduce_sum(%0) {{axes=[1]}} : f32[{0}]
%2 = reduce_max(%0) {{axes=[1]}} : f32[{0}]
%3 = mul(%1, %2) : f32[{0}]
return %1, %3
)",
                            n);
       },
       {0},
       {0, 0},
       3,
       {1}},
      {"SumsOfManyRows",
       [](int64_t n) {
         return fmt::format(R"(%0 = input "x" : f32[{0}, 6001]
%1 = input "y" : bf16[{0}, 6001]
%2 = cast(%1) : f32[{0}, 6001]
%3 = mul(%0, %2) : f32[{0}, 6001]
%4 = reduce_sum(%3) {{axes=[1]}} : f32[{0}]
%5 = broadcast(%4) {{axes=[0]}} : f32[{0}, 6001]
%6 = add(%3, %5) : f32[{0}, 6001]
return %4, %6
)",
                            n);
       },
       {0, 0},
       {0, 0},
       80,
       {1, 7, 64}},
      {"SumsOfColumns",
       [](int64_t n) {
         return fmt::format(R"(%0 = input "x" : f32[3000, {0}]
%1 = mul(%0, %0) : f32[3000, {0}]
%2 = reduce_sum(%0) {{axes=[0]}} : f32[{0}]
%3 = reduce_sum(%1) {{axes=[0]}} : f32[{0}]
return %2, %3, %1
)",
                            n);
       },
       {1},
       {0, 0, 1},
       96,
       {1, 8, 40}},
      // Indices outside a part's rows go nowhere.
      {"SumsByIndex",
       [](int64_t n) {
         return fmt::format(R"(%0 = input "rows" : f32[{0}, 24]
%1 = input "at" : i32[300]
%2 = input "updates" : f32[300, 24]
%3 = constant {1} : i32[300]
%4 = sub(%1, %3) : i32[300]
%5 = scatter_add(%0, %4, %2) {{axes=[0]}} : f32[{0}, 24]
return %5
)",
                            n, 8 - n);
       },
       {0, kWhole, kWhole},
       {0},
       8,
       {1, 3, 5},
       false,
       true},
      {"AttentionOfHeads",
       [](int64_t n) { return attention_text(n, "bf16"); },
       {2, 2, 2, 2},
       {kWhole, 2, 2, 2, 2},
       8,
       {2, 4},
       true},
      // More queries than a part has are multiplied by ping-pong on CDNA, in another order, unless it is fixed.
      {"AttentionOfQueries",
       [](int64_t n) {
         return fmt::format(R"(%0 = input "q" : bf16[1, {0}, 2, 64]
%1 = input "k" : bf16[1, 200, 2, 64]
%2 = input "v" : bf16[1, 200, 2, 64]
%3:2 = attention(%0, %1, %2) {{scale=0.125}} : bf16[1, {0}, 2, 64], f32[1, 2, {0}]
%4 = cast(%3) : f32[1, {0}, 2, 64]
return %4, %3.1
)",
                            n);
       },
       {1, kWhole, kWhole},
       {1, 2},
       192,
       {64}},
      {"AttentionOfHeadsInF32",
       [](int64_t n) { return attention_text(n, "f32"); },
       {2, 2, 2, 2},
       {kWhole, 2, 2, 2, 2},
       4,
       {2},
       true},
  };
  return cases;
}

class FixedOrder : public testing::TestWithParam<std::tuple<std::string, CutCase>> {
 protected:
  static std::vector<HostTensor> run(ProgramRunner& runner, const Graph& graph, const std::vector<HostTensor>& inputs) {
    LoweringOptions options = default_lowering(runner.device().target());
    options.fixed_order = true;
    Program program(graph, runner.device(), runner.library(), runner.arena(), options);
    EXPECT_TRUE(program.has_fixed_order());

    return runner.run(program, inputs);
  }

  static Graph graph_of(const CutCase& one, int64_t size) {
    Graph graph = parse_graph(one.text(size));
    if (!one.adds_gradients) return graph;
    const std::vector<Value> inputs = graph.inputs();
    for (const Value gradient :
         add_gradients(graph, graph.outputs.front(), std::vector<Value>(inputs.begin(), inputs.end() - 1)))
      graph.outputs.push_back(gradient);
    return graph;
  }
};

TEST_P(FixedOrder, PartsHaveTheBitsOfTheWhole) {
  const auto& [device, one] = GetParam();
  ProgramRunner runner(open_device_under_test(device));
  const Graph whole = graph_of(one, one.whole);
  std::vector<HostTensor> inputs;
  for (const Value input : whole.inputs()) {
    const bool is_index = !is_float(whole.dtype(input));
    inputs.push_back(random_host_tensor(whole.dtype(input), evaluate(whole.shape(input), {}), inputs.size() + 1,
                                        is_index ? 0.0 : -1.0, is_index ? static_cast<double>(one.whole) : 1.0));
  }
  const std::vector<HostTensor> expected = run(runner, whole, inputs);
  ASSERT_EQ(expected.size(), one.outputs.size());
  for (const int64_t size : one.parts) {
    std::vector<HostTensor> parts;
    for (size_t i = 0; i < inputs.size(); ++i) parts.push_back(part_of(inputs[i], one.inputs[i], size, one.from_end));
    const std::vector<HostTensor> results = run(runner, graph_of(one, size), parts);
    for (size_t i = 0; i < results.size(); ++i) {
      if (one.outputs[i] == kWhole) continue;  // a sum over what is cut
      const HostTensor of_whole = part_of(expected[i], one.outputs[i], size, one.from_end);
      ASSERT_EQ(results[i].shape, of_whole.shape);
      size_t different = 0;
      for (size_t e = 0; e < of_whole.values.size(); ++e)
        different += std::bit_cast<uint64_t>(results[i].values[e]) != std::bit_cast<uint64_t>(of_whole.values[e]);
      EXPECT_EQ(different, 0u) << "of " << of_whole.values.size() << " elements of output " << i << " of a part of "
                               << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Devices, FixedOrder,
    testing::Combine(testing::ValuesIn(devices_under_test({"cpu", "emulator:sm_90a", "emulator:gfx942"})),
                     testing::ValuesIn(cut_cases())),
    [](const auto& test) { return std::get<1>(test.param).name + "_" + test_name_of_device(std::get<0>(test.param)); });

}  // namespace
}  // namespace causeway::program
