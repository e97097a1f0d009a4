// Tensors of f32 that lie in halves: other memory, the same values.
#include "causeway/tensor/halves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "causeway/tensor/ops.h"
#include "causeway/tensor/step.h"
#include "tests/tensor/op_check.h"

namespace causeway::tensor {
namespace {

using ::testing::ElementsAre;

std::vector<std::byte> bytes_of(const std::vector<uint32_t>& bits) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(bits));
  return {bytes.begin(), bytes.end()};
}

TEST(Halves, AreRoundedAndWhatIsLeft) {
  // 1; a tie, away from zero on both sides; just below one; the largest number; a NaN whose bits would overflow.
  const std::vector<std::byte> halves =
      split_halves(bytes_of({0x3f800000, 0x3f808000, 0xbf808000, 0x3f807fff, 0x7f7fffff, 0x7fffffff}));
  std::vector<uint16_t> upper(6);
  std::vector<int16_t> lower(6);
  std::memcpy(upper.data(), halves.data(), 12);
  std::memcpy(lower.data(), halves.data() + 12, 12);
  EXPECT_THAT(upper, ElementsAre(0x3f80, 0x3f81, 0xbf81, 0x3f80, 0x7f80, 0x7fc0));
  EXPECT_THAT(lower, ElementsAre(0, -32768, -32768, 32767, -1, -1));
}

TEST(Halves, JoinedTheyAreTheElementToTheBit) {
  std::vector<uint32_t> bits;
  for (uint64_t i = 0; i < 1U << 20U; ++i) bits.push_back(static_cast<uint32_t>(i * 0x9e3779b97f4a7c15U >> 32U));
  std::erase_if(bits, [](uint32_t b) { return std::isnan(std::bit_cast<float>(b)); });
  const std::vector<std::byte> halves = split_halves(bytes_of(bits));
  std::vector<uint32_t> joined(bits.size());
  join_halves(halves, 0, std::as_writable_bytes(std::span(joined)));
  EXPECT_EQ(joined, bits);
  std::vector<uint32_t> some(5);
  join_halves(halves, 3 * sizeof(uint32_t), std::as_writable_bytes(std::span(some)));
  EXPECT_EQ(some, std::vector(bits.begin() + 3, bits.begin() + 8));
}

class TensorInHalves : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<float> values(const Tensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.local_bytes()) / sizeof(float));
    tensor.read_bytes(std::as_writable_bytes(std::span(values)));
    return values;
  }

  const std::shared_ptr<Context> context_ = Context::open(GetParam());
  const ContextScope scope_{context_};
};

TEST_P(TensorInHalves, HasTheValuesOfOneOfElements) {
  std::vector<float> written(64 * 32);
  for (size_t i = 0; i < written.size(); ++i) written[i] = 3 * std::sin(static_cast<float>(i));
  Tensor halves = Tensor::uninitialized_halves({64, 32}), elements = Tensor::uninitialized({64, 32}, DType::kF32);
  EXPECT_TRUE(halves.lies_in_halves());
  EXPECT_FALSE(elements.lies_in_halves());
  for (Tensor* tensor : {&halves, &elements}) tensor->write_bytes(std::as_bytes(std::span(written)));
  EXPECT_EQ(values(halves), written);
  std::vector<float> some(7);
  halves.read_bytes_from(100 * sizeof(float), std::as_writable_bytes(std::span(some)));
  EXPECT_EQ(some, std::vector(written.begin() + 100, written.begin() + 107));
  // Operations that are recorded and computed later.
  EXPECT_EQ(values(halves * 3.0 + 1.0), values(elements * 3.0 + 1.0));
  const Tensor rows = reshape(arange(0, 4 * 64, 1, DType::kF32), {4, 64}) * 0.01;
  EXPECT_EQ(values(matmul(rows, halves)), values(matmul(rows, elements))) << "products in f32";
  // A step that multiplies and updates.
  StepOptions options;
  options.program.pipeline.mixed_precision.compute = DType::kBF16;
  const auto updating = [&options](Tensor& weight) {
    return Step(
        [&weight](const std::vector<Tensor>& x) {
          const Tensor product = matmul(x[0], weight);
          weight.assign(weight * 1.01 + 0.1);
          return std::vector<Tensor>{product};
        },
        options);
  };
  Step of_halves = updating(halves), of_elements = updating(elements);
  for (int i = 0; i < 3; ++i) {
    for (const float value : values(elements)) ASSERT_NE(std::bit_cast<uint32_t>(value) & 0xffffU, 0x8000U) << "a tie";
    EXPECT_EQ(values(of_halves({rows})[0]), values(of_elements({rows})[0])) << i;
    EXPECT_EQ(values(halves), values(elements)) << i;
  }
  EXPECT_NE(values(halves), written);
}

TEST_P(TensorInHalves, LiesAsElementsWhereLowerHalvesWouldNotBeAligned) {
  Tensor tensor = Tensor::uninitialized_halves({3, 11});
  EXPECT_FALSE(tensor.lies_in_halves());
  std::vector<float> written(33);
  std::iota(written.begin(), written.end(), 1.0f);
  tensor.write_bytes(std::as_bytes(std::span(written)));
  EXPECT_EQ(values(tensor + 1.0).back(), 34.0f);
}

TEST_P(TensorInHalves, BytesBeyondItsEndAreRefused) {
  const Tensor tensor = Tensor::uninitialized_halves({8, 8});
  std::vector<std::byte> bytes(8);
  EXPECT_EQ(error_text([&] { tensor.read_bytes_from(252, bytes); }),
            "8 bytes from 252 on to read a tensor of type f32[8, 8]");
}

INSTANTIATE_TEST_SUITE_P(Devices, TensorInHalves, testing::Values("cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& device) {
                           std::string name = device.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

}  // namespace
}  // namespace causeway::tensor
