#include "causeway/tensor/normal_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "causeway/base/hash.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/codegen/normal_values_kernel.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/philox.h"
#include "causeway/program/context.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

std::vector<float> read_floats(const Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(float));
  tensor.read_bytes(std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<float> normal(const std::vector<int64_t>& shape, const NormalValues& values) {
  Tensor tensor = Tensor::uninitialized(shape, DType::kF32);
  fill_normal(tensor, values);
  return read_floats(tensor);
}

TEST(NormalValues, AreTheBoxMullerTransformOfPhiloxWords) {
  const uint64_t stream = 0xfedcba9876543210;
  const std::vector<float> values = normal({5000}, {0x123456789abcdef, stream, 0.02});
  for (size_t i = 0; i < values.size(); i += 2) {
    const auto words = philox_4x32_10(
        {static_cast<uint32_t>(i / 4), 0, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
        {0x89abcdef, 0x01234567});
    const size_t half = i % 4;
    const double radius = 0.02 * std::sqrt(-2 * std::log((words[half] + 1.0) / 4294967296.0));
    const double angle = 2 * std::numbers::pi * words[half + 1] / 4294967296.0;
    ASSERT_NEAR(values[i], radius * std::cos(angle), 1e-8) << i;
    ASSERT_NEAR(values[i + 1], radius * std::sin(angle), 1e-8) << i;
  }
}

TEST(NormalValues, AreNormal) {
  const std::vector<float> values = normal({1 << 20}, {3, 5, 2.0});
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  std::vector<double> ordered(values.begin(), values.end());
  for (const double value : ordered) {
    const double z = value / 2;
    sum += z;
    squares += z * z;
    cubes += z * z * z;
    fourths += z * z * z * z;
  }
  const double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(cubes / n, 0, 5 * std::sqrt(15 / n));
  EXPECT_NEAR(fourths / n, 3, 5 * std::sqrt(96 / n));
  // Kolmogorov-Smirnov distance; 1.95 / sqrt(n) is exceeded once in a thousand.
  std::sort(ordered.begin(), ordered.end());
  double distance = 0;
  for (size_t i = 0; i < ordered.size(); ++i)
    distance = std::max(distance, std::fabs(0.5 * std::erfc(-ordered[i] / 2 / std::numbers::sqrt2) -
                                            (static_cast<double>(i) + 0.5) / n));
  EXPECT_LT(distance, 1.95 / std::sqrt(n));
}

TEST(NormalValues, DependOnSeedStreamAndIndexAndOnNothingElse) {
  const std::vector<float> values = normal({100'001}, {3, 5});
  EXPECT_EQ(values, normal({100'001}, {3, 5}));
  EXPECT_NE(values, normal({100'001}, {4, 5}));
  EXPECT_NE(values, normal({100'001}, {3, 6}));
  EXPECT_NE(values, normal({100'001}, {3 + (uint64_t{1} << 32), 5}));
  EXPECT_NE(values, normal({100'001}, {3, 5 + (uint64_t{1} << 32)}));
  // A longer tensor begins with the same values.
  const std::vector<float> longer = normal({2, 100'000}, {3, 5});
  EXPECT_TRUE(std::equal(values.begin(), values.end(), longer.begin()));
}

TEST(NormalValues, TensorsOfNothingStayAsTheyAre) { EXPECT_TRUE(normal({0, 3}, {}).empty()); }

TEST(NormalValues, WhatWasRecordedWithOldValuesHasThem) {
  Tensor x = vector_of({1, 2});
  const Tensor twice = x * 2;
  fill_normal(x, {});
  expect_tensor(twice, {2}, {2, 4});
  EXPECT_EQ(read_floats(x), normal({2}, {}));
}

// As compiled for silicon: nothing spills, and on NVIDIA's nothing is rounded but as IEEE 754 says.
TEST(NormalValues, MachineCodeRoundsEveryOperationAndSpillsNothing) {
  for (const GpuArchitecture& architecture : gpu_architectures()) {
    const Target target = gpu_target(architecture.processor);
    const std::string image = codegen::compile_module(codegen::normal_values_source(target), target);
    if (architecture.driver == "cuda") {
      for (const char* instruction : {"mul.rn.f64", "add.rn.f64", "sub.rn.f64", "div.rn.f64", "sqrt.rn.f64"})
        EXPECT_NE(image.find(instruction), std::string::npos) << target.processor << " " << instruction;
      for (const char* instruction : {"fma", "mul.f64", "add.f64", "sub.f64", "approx"})
        EXPECT_EQ(image.find(instruction), std::string::npos) << target.processor << " " << instruction;
    }
    const auto kernels = codegen::kernel_resources(image, target);
    if (!kernels) continue;  // without ptxas
    ASSERT_EQ(kernels->size(), 1u) << target.processor;
    EXPECT_EQ((*kernels)[0].spill_bytes, 0) << target.processor;
  }
}

class NormalValuesOn : public testing::TestWithParam<std::string> {
 protected:
  const std::shared_ptr<Context> context_ = Context::open(GetParam());
  const ContextScope scope_{context_};
};

// Golden: a change here changes every training run.
TEST_P(NormalValuesOn, KeepTheirBits) {
  const uint64_t stream = hash_text("transformer.wte.weight").low;
  const std::vector<float> values = normal({1'000'000}, {1, stream, 0.02});
  EXPECT_EQ(hash_bytes(std::as_bytes(std::span(values))).hex(), "952544cacc6179f78487422b4655be92");
}

TEST_P(NormalValuesOn, LieInHalvesAsWhatIsWrittenThere) {
  Tensor made = Tensor::uninitialized_halves({33, 64}), written = Tensor::uninitialized_halves({33, 64});
  ASSERT_TRUE(made.lies_in_halves());
  fill_normal(made, {7, 8, 0.5});
  const std::vector<float> values = normal({33, 64}, {7, 8, 0.5});
  written.write_bytes(std::as_bytes(std::span(values)));
  EXPECT_EQ(read_floats(made), values);
  std::vector<std::byte> bits(33 * 64 * sizeof(float)), expected(bits.size());
  context_->device().copy_to_host(bits.data(), made.buffer().data(), bits.size());
  context_->device().copy_to_host(expected.data(), written.buffer().data(), bits.size());
  EXPECT_EQ(bits, expected);
}

// Each rank's part against that part of the whole.
TEST_P(NormalValuesOn, ARankMakesItsPartOfTheWhole) {
  const Mesh mesh = {{{"tp", 2, 1, false}, {"fsdp", 2, 2}}};
  struct Case {
    std::vector<int64_t> shape;
    std::string sharding;
  };
  for (const Case& c : {Case{{64, 128}, "tp,fsdp"},
                        {{64, 128}, "tp+fsdp,-"},
                        {{64, 128}, "-,tp"},
                        {{30, 60}, "-,tp+fsdp"},  // 15 columns: runs begin anywhere in a group of four
                        {{6, 4, 5, 14}, "fsdp,-,-,tp"},
                        {{5, 6, 4, 7}, "-,tp,fsdp,-"},
                        {{22}, "tp"}}) {
    const std::vector<float> whole = normal(c.shape, {11, 12, 3.0});
    for (int rank = 0; rank < 4; ++rank) {
      const ContextScope scope(
          std::make_shared<Context>(context_->shared_device(), ContextOptions{.mesh = mesh, .rank = rank}));
      for (const bool in_halves : {false, true}) {
        const Sharding sharding = Sharding::parse(c.sharding);
        Tensor part = in_halves ? Tensor::uninitialized_halves(c.shape, sharding)
                                : Tensor::uninitialized(c.shape, DType::kF32, sharding);
        fill_normal(part, {11, 12, 3.0});
        const std::vector<int64_t> start = part.local_start(), sizes = part.local_shape();
        const std::vector<float> values = read_floats(part);
        for (size_t i = 0; i < values.size(); ++i) {
          size_t rest = i, index = 0, stride = 1;
          for (size_t d = sizes.size(); d-- > 0;) {
            index += (static_cast<size_t>(start[d]) + rest % static_cast<size_t>(sizes[d])) * stride;
            rest /= static_cast<size_t>(sizes[d]);
            stride *= static_cast<size_t>(c.shape[d]);
          }
          ASSERT_EQ(values[i], whole[index]) << c.sharding << ", rank " << rank << ", element " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, NormalValuesOn,
                         testing::Values("cpu", "emulator:sm_80", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& device) {
                           std::string name = device.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

}  // namespace
}  // namespace causeway::tensor
