// Copies in another order through shared memory, on the emulator (checked: bounds, races) or on the device that
// CAUSEWAY_TEST_DEVICE names.
#include <gtest/gtest.h>

#include <algorithm>

#include "causeway/device/emulator/emulator_device.h"
#include "causeway/graph/parser.h"
#include "tests/device/device_under_test.h"
#include "tests/program/program_runner.h"

namespace causeway::program {
namespace {

class GpuTranspose : public testing::TestWithParam<std::string> {
 protected:
  // The copy of a random tensor, whose kernel is or is not the transposing copy.
  void expect_copy(const std::string& input, const std::string& axes, const std::string& result, bool through_tiles) {
    const Graph graph = parse_graph("%0 = input \"x\" : " + input + "\n%1 = permute(%0) {axes=[" + axes +
                                    "]} : " + result + "\nreturn %1\n");
    const TensorType& type = graph.type(graph.inputs()[0]);
    const HostTensor x = random_host_tensor(type.dtype, evaluate(type.shape, {}), 3, -100, 100);
    ProgramRunner runner(device_);
    Program program(graph, runner.device(), runner.library(), runner.arena());
    EXPECT_EQ(program.sources().back().find("transpose_tile") != std::string::npos, through_tiles)
        << program.sources().back();
    const HostTensor copy = runner.run(program, {x})[0];
    const std::vector<int64_t>& order = graph.node(graph.outputs[0]).attributes.axes;
    const size_t rank = order.size();
    std::vector<int64_t> strides(rank, 1), at(rank);
    for (size_t i = rank - 1; i-- > 0;) strides[i] = strides[i + 1] * x.shape[i + 1];
    for (size_t i = 0; i < copy.values.size(); ++i) {
      int64_t rest = static_cast<int64_t>(i), from = 0;
      for (size_t axis = rank; axis-- > 0;) {
        from += rest % copy.shape[axis] * strides[static_cast<size_t>(order[axis])];
        rest /= copy.shape[axis];
      }
      ASSERT_EQ(copy.values[i], x.values[static_cast<size_t>(from)]) << i << " of " << result;
    }
  }

  void SetUp() override {
    const std::optional<std::string> spec = device_of_environment();
    EmulatorOptions options;
    options.checked = true;
    device_ = spec ? open_device_under_test(*spec) : std::shared_ptr<Device>(make_emulator_device(GetParam(), options));
  }
  std::shared_ptr<Device> device_;
};

TEST_P(GpuTranspose, MatricesOfEveryWidth) {
  expect_copy("f8e4m3[160, 272]", "1, 0", "f8e4m3[272, 160]", true);
  expect_copy("bf16[72, 200]", "1, 0", "bf16[200, 72]", true);
  expect_copy("f32[36, 68]", "1, 0", "f32[68, 36]", true);
  expect_copy("i32[64, 32]", "1, 0", "i32[32, 64]", true);
}

TEST_P(GpuTranspose, Batches) {
  expect_copy("bf16[3, 24, 40]", "0, 2, 1", "bf16[3, 40, 24]", true);
  expect_copy("f8e5m2[2, 32, 3, 48]", "3, 0, 2, 1", "f8e5m2[48, 2, 3, 32]", true);
}

TEST_P(GpuTranspose, PiecesThatStraddleRowsAreCopiedOtherwise) {
  expect_copy("f8e4m3[40, 24]", "1, 0", "f8e4m3[24, 40]", false);
  expect_copy("bf16[33, 40]", "1, 0", "bf16[40, 33]", false);
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuTranspose, testing::Values("sm_90a", "gfx942"));

}  // namespace
}  // namespace causeway::program
