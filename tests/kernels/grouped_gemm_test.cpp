// GEMMs of groups of rows against the reference interpreter, through fusion and code generation: on the processor, on
// emulators, or on the device that the environment variable CAUSEWAY_TEST_DEVICE names ("cuda", "hip"). Rows of no
// group are no numbers: whoever reads one shows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/graph/interpreter.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/builder.h"
#include "tests/comparison/bounds.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

using passes::Builder;

// Rows of each group, in each slab, of `rows` rows.
struct Groups {
  int64_t rows = 0;
  std::vector<std::vector<int64_t>> sizes;

  int64_t slabs() const { return static_cast<int64_t>(sizes.size()); }
  int64_t count() const { return static_cast<int64_t>(sizes.front().size()); }
  HostTensor offsets() const {
    std::vector<double> values;
    for (const std::vector<int64_t>& slab : sizes) {
      int64_t end = 0;
      values.push_back(0);
      for (const int64_t size : slab) values.push_back(static_cast<double>(end += size));
    }
    return make_host_tensor(DType::kI32, {slabs(), count() + 1}, std::move(values));
  }
  // The first row of no group.
  int64_t used(int64_t slab) const {
    int64_t sum = 0;
    for (const int64_t size : sizes[static_cast<size_t>(slab)]) sum += size;
    return sum;
  }
  bool is_empty(int64_t group) const {
    return std::ranges::all_of(sizes, [&](const auto& slab) { return slab[static_cast<size_t>(group)] == 0; });
  }
  std::string text() const {
    std::string result = fmt::format("{} rows", rows);
    for (const std::vector<int64_t>& slab : sizes) result += fmt::format(", [{}]", fmt::join(slab, ", "));
    return result;
  }
};

class GroupedGemm : public testing::TestWithParam<std::string> {
 protected:
  ProgramRunner& runner() const {
    static std::map<std::string, std::unique_ptr<ProgramRunner>> runners;
    std::unique_ptr<ProgramRunner>& runner = runners[GetParam()];
    if (runner == nullptr) runner = std::make_unique<ProgramRunner>(open_device_under_test(GetParam()));
    return *runner;
  }

  static HostTensor rows_of(const Groups& groups, DType dtype, int64_t width, uint64_t seed) {
    HostTensor rows = random_host_tensor(dtype, {groups.slabs(), groups.rows, width}, seed);
    for (int64_t slab = 0; slab < groups.slabs(); ++slab)
      for (int64_t row = groups.used(slab); row < groups.rows; ++row)
        std::fill_n(rows.values.begin() + (slab * groups.rows + row) * width, width,
                    std::numeric_limits<double>::quiet_NaN());
    return rows;
  }

  std::vector<HostTensor> expect_reference(const Graph& graph, const std::vector<HostTensor>& inputs,
                                           const std::string& what) const {
    const std::vector<HostTensor> reference = interpret(graph, inputs, {}, Rounding::kRounded);
    std::vector<HostTensor> actual = runner().run(graph, inputs);
    EXPECT_EQ(actual.size(), reference.size());
    for (size_t i = 0; i < reference.size(); ++i) {
      if (std::ranges::all_of(reference[i].values, [](double value) { return value == 0; })) {
        EXPECT_EQ(actual[i].values, reference[i].values) << what << ", result " << i;
        continue;
      }
      const Comparison comparison = compare(actual[i], reference[i], bounds::of_graph(graph));
      EXPECT_TRUE(comparison.equal) << what << ", result " << i << ": " << comparison.text << "\n"
                                    << print_graph(graph);
    }
    return actual;
  }

  // All three forms of one layer: rows [P, R, K] by matrices as they lie and transposed, and the sums over rows.
  void expect_forms(const Groups& groups, DType dtype, int64_t k, int64_t n, DType result) const {
    const std::string what = fmt::format("{} {} x {} of {}", groups.text(), k, n, dtype_name(dtype));
    const auto type = [&](DType of, std::vector<int64_t> shape) {
      return TensorType{of, Shape(shape.begin(), shape.end())};
    };
    const HostTensor a = rows_of(groups, dtype, k, 1), g = rows_of(groups, dtype, n, 2);
    for (const bool transpose_b : {false, true}) {
      Graph graph;
      const Builder build(graph);
      const std::vector<int64_t> matrix =
          transpose_b ? std::vector{groups.count(), n, k} : std::vector{groups.count(), k, n};
      const Value x = graph.add_input("rows", type(dtype, a.shape)),
                  w = graph.add_input("matrices", type(dtype, matrix));
      const Value offsets = graph.add_input("offsets", type(DType::kI32, {groups.slabs(), groups.count() + 1}));
      graph.outputs = {build.grouped_dot(x, w, offsets, false, transpose_b, result)};
      const HostTensor out =
          expect_reference(graph, {a, random_host_tensor(dtype, matrix, 3), groups.offsets()}, what).front();
      for (int64_t slab = 0; slab < groups.slabs(); ++slab)
        for (int64_t at = groups.used(slab) * n; at < groups.rows * n; ++at)
          ASSERT_EQ(out.values[static_cast<size_t>(slab * groups.rows * n + at)], 0) << what;
    }
    Graph graph;
    const Builder build(graph);
    const Value x = graph.add_input("rows", type(dtype, a.shape)),
                y = graph.add_input("gradient", type(dtype, g.shape));
    const Value offsets = graph.add_input("offsets", type(DType::kI32, {groups.slabs(), groups.count() + 1}));
    graph.outputs = {build.grouped_dot(x, y, offsets, true, false, result)};
    const HostTensor out = expect_reference(graph, {a, g, groups.offsets()}, what).front();
    for (int64_t group = 0; group < groups.count(); ++group)
      for (int64_t at = 0; groups.is_empty(group) && at < k * n; ++at)
        ASSERT_EQ(out.values[static_cast<size_t>(group * k * n + at)], 0) << what;
  }
};

// Empty groups at the beginning, in the middle and at the end; groups that end inside a tile; rows of no group.
TEST_P(GroupedGemm, EmptyGroupsAndRaggedOnes) {
  const Groups groups[] = {{.rows = 22, .sizes = {{0, 5, 0, 17}}}, {.rows = 41, .sizes = {{19, 0, 3, 0}}},
                           {.rows = 40, .sizes = {{0, 0, 40}}},    {.rows = 40, .sizes = {{40, 0, 0}}},
                           {.rows = 9, .sizes = {{0, 0, 0}}},      {.rows = 3, .sizes = {{1, 1, 1}}}};
  for (const Groups& each : groups)
    for (const DType dtype : {DType::kBF16, DType::kF32}) expect_forms(each, dtype, 48, 72, DType::kF32);
}

// Groups of several tiles, of which the last is not full, and of exactly one.
TEST_P(GroupedGemm, GroupsOfSeveralTiles) {
  for (const DType dtype : {DType::kBF16, DType::kF32})
    expect_forms({.rows = 480, .sizes = {{131, 0, 128, 210}}}, dtype, 40, 136, DType::kBF16);
}

// No piece of 16 bytes, and no pair, divides a side.
TEST_P(GroupedGemm, OddSides) {
  const Groups groups = {.rows = 45, .sizes = {{7, 0, 33, 1}}};
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (const auto& [k, n] : {std::pair(17, 9), std::pair(1, 5), std::pair(33, 1), std::pair(67, 131)})
      expect_forms(groups, dtype, k, n, dtype == DType::kF16 ? DType::kF16 : DType::kF32);
}

// Each with groups of its own; sums run over all of them.
TEST_P(GroupedGemm, Slabs) {
  const Groups groups[] = {{.rows = 30, .sizes = {{5, 0, 20}, {0, 0, 30}}},
                           {.rows = 70, .sizes = {{0, 0, 0}, {70, 0, 0}, {1, 33, 2}}},
                           {.rows = 5, .sizes = {{2, 1}, {0, 0}}}};
  for (const Groups& each : groups)
    for (const DType dtype : {DType::kBF16, DType::kF32}) expect_forms(each, dtype, 24, 40, DType::kF32);
}

TEST_P(GroupedGemm, GroupsThatAreDrawn) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint32_t>(limit)); };
    Groups groups;
    groups.sizes.resize(static_cast<size_t>(1 + draw(2)), std::vector<int64_t>(static_cast<size_t>(1 + draw(9))));
    for (std::vector<int64_t>& slab : groups.sizes)
      for (int64_t& size : slab) size = draw(3) == 0 ? 0 : draw(50);
    for (int64_t slab = 0; slab < groups.slabs(); ++slab) groups.rows = std::max(groups.rows, groups.used(slab));
    groups.rows += draw(2) * draw(40) + 1;
    SCOPED_TRACE(seed);
    expect_forms(groups, draw(2) == 0 ? DType::kBF16 : DType::kF32, 1 + draw(90), 1 + draw(150), DType::kF32);
  }
}

// Rows that are part of something, and matrices that lie otherwise.
TEST_P(GroupedGemm, OperandsThatLieOtherwise) {
  const Groups groups = {.rows = 33, .sizes = {{12, 0, 17}}};
  Graph graph;
  const Builder build(graph);
  const Value flat = graph.add_input("flat", {DType::kBF16, {33, 48}});
  const Value across = graph.add_input("across", {DType::kBF16, {48, 33}});
  const Value matrices = graph.add_input("matrices", {DType::kBF16, {48, 3, 40}});
  const Value offsets = graph.add_input("offsets", {DType::kI32, {1, 4}});
  const Value moved = build.permute(matrices, {1, 0, 2});
  const Value rows = build.reshape(flat, {1, 33, 48});
  const Value turned = build.reshape(build.permute(across, {1, 0}), {1, 33, 48});
  graph.outputs = {build.grouped_dot(rows, moved, offsets, false, false, DType::kF32),
                   build.grouped_dot(turned, moved, offsets, false, false, DType::kF32),
                   build.grouped_dot(turned, rows, offsets, true, false, DType::kF32)};
  expect_reference(graph,
                   {random_host_tensor(DType::kBF16, {33, 48}, 1), random_host_tensor(DType::kBF16, {48, 33}, 2),
                    random_host_tensor(DType::kBF16, {48, 3, 40}, 3), groups.offsets()},
                   "operands that lie otherwise");
}

// Gradients of matrices over two micro-batches, each with groups of its own, and of an operand that is computed.
TEST_P(GroupedGemm, SumsOverMicroBatches) {
  const Groups first = {.rows = 30, .sizes = {{11, 0, 15}}}, second = {.rows = 30, .sizes = {{0, 0, 29}}};
  Graph graph;
  const Builder build(graph);
  const auto input = [&](const char* name, DType dtype, Shape shape) {
    return graph.add_input(name, {dtype, std::move(shape)});
  };
  const Value sum = input("sum", DType::kF32, {3, 24, 40});
  std::vector<HostTensor> inputs = {random_host_tensor(DType::kF32, {3, 24, 40}, 9)};
  Value total = sum;
  for (const Groups* groups : {&first, &second}) {
    const Value rows = input("rows", DType::kBF16, {1, 30, 24}),
                gradient = input("gradient", DType::kBF16, {1, 30, 40});
    const Value offsets = input("offsets", DType::kI32, {1, 4});
    inputs.push_back(rows_of(*groups, DType::kBF16, 24, 1 + inputs.size()));
    inputs.push_back(rows_of(*groups, DType::kBF16, 40, 1 + inputs.size()));
    inputs.push_back(groups->offsets());
    const Value scaled = build.cast(build.scale(build.cast(rows, DType::kF32), 0.5), DType::kBF16);
    const Value term = build.grouped_dot(scaled, gradient, offsets, true, false, DType::kBF16);
    total = build.add(total, build.cast(term, DType::kF32));
  }
  graph.assignments = {{sum, total}};
  expect_reference(graph, inputs, "sums over micro-batches");
}

TEST_P(GroupedGemm, TwiceTheSameBits) {
  const Groups groups = {.rows = 200, .sizes = {{90, 0, 101}}};
  Graph graph;
  const Builder build(graph);
  const Value x = graph.add_input("x", {DType::kF32, {1, 200, 40}}),
              y = graph.add_input("y", {DType::kF32, {1, 200, 56}});
  const Value offsets = graph.add_input("offsets", {DType::kI32, {1, 4}});
  graph.outputs = {build.grouped_dot(x, y, offsets, true, false, DType::kF32)};
  const std::vector<HostTensor> inputs = {rows_of(groups, DType::kF32, 40, 1), rows_of(groups, DType::kF32, 56, 2),
                                          groups.offsets()};
  EXPECT_EQ(runner().run(graph, inputs)[0].values, runner().run(graph, inputs)[0].values);
}

INSTANTIATE_TEST_SUITE_P(Devices, GroupedGemm,
                         testing::ValuesIn(devices_under_test({"cpu", "emulator:sm_80", "emulator:sm_90a",
                                                               "emulator:gfx942"})),
                         named_by_device);

// As compiled for silicon: nothing spills. NVIDIA's kernels need ptxas to tell.
class GroupedGemmResources : public testing::TestWithParam<const char*> {};

TEST_P(GroupedGemmResources, NothingSpills) {
  const Target target = gpu_target(GetParam());
  if (target.family == Target::Family::kNvptx && find_ptxas().empty())
    GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << how_to_get_ptxas();
  for (const DType dtype : {DType::kBF16, DType::kF32})
    for (const bool sums_rows : {false, true}) {
      Graph graph;
      const Value x = graph.add_input("x", {dtype, {1, 32768, 2048}});
      const Value y = graph.add_input("y", {dtype, sums_rows ? Shape{1, 32768, 1024} : Shape{64, 1024, 2048}});
      const Value offsets = graph.add_input("offsets", {DType::kI32, {1, 65}});
      graph.outputs = {Builder(graph).grouped_dot(x, y, offsets, sums_rows, !sums_rows, dtype)};
      ProgramRunner runner(std::make_shared<OfflineDevice>(target));
      const Program program(graph, runner.device(), runner.library(), runner.arena());
      const auto resources = kernel_resources(compile_module(program.sources().back(), target), target);
      ASSERT_TRUE(resources.has_value());
      for (const KernelResources& kernel : *resources) EXPECT_EQ(kernel.spill_bytes, 0) << program.sources().back();
    }
}

INSTANTIATE_TEST_SUITE_P(Processors, GroupedGemmResources, testing::Values("sm_80", "sm_90a", "gfx942"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace causeway::program
