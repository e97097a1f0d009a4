// Matrices in NF4 and f8e4m3: NF4 against bitsandbytes, by tests/fixtures/quantized/nf4.safetensors, which
// tools/make_quantized_base_fixtures.py made with bitsandbytes 0.50.2 on a processor.
#include "causeway/model/quantized_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "causeway/formats/safetensors.h"
#include "causeway/model/nf4.h"
#include "causeway/program/context.h"
#include "tests/fixtures/error_message.h"
#include "tests/model/model_test_support.h"

namespace causeway::model {
namespace {

using Bytes = std::vector<std::byte>;

const SafetensorsFile& nf4_fixture() {
  static const SafetensorsFile file(std::filesystem::path(CAUSEWAY_SOURCE_DIR) /
                                    "tests/fixtures/quantized/nf4.safetensors");
  return file;
}

Bytes bytes_of_fixture(const std::string& name) {
  const auto data = nf4_fixture().data(name);
  return {data.begin(), data.end()};
}

std::vector<float> floats_of_fixture(const std::string& name) {
  const auto data = nf4_fixture().data(name);
  const DType dtype = *nf4_fixture().entry(name).dtype;
  std::vector<float> values(data.size() / size_bytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(read_element(dtype, data.data(), i));
  return values;
}

// What bitsandbytes keeps of a matrix.
struct KeptMatrix {
  int64_t rows = 0, columns = 0;
  Bytes codes, absmax;
  std::vector<float> nested;  // and the mean

  explicit KeptMatrix(const std::string& name)
      : rows(nf4_fixture().entry(name + ".values").shape[0]),
        columns(nf4_fixture().entry(name + ".values").shape[1]),
        codes(bytes_of_fixture(name + ".codes")),
        absmax(bytes_of_fixture(name + ".absmax")),
        nested(floats_of_fixture(name + ".nested_absmax")) {
    nested.push_back(floats_of_fixture(name + ".offset").front());
  }

  QuantizedWeight in_memory(DType type) const {
    QuantizedWeight weight("matrix", BaseWeights::kNf4, {rows}, {columns}, type, make_code_values());
    Tensor(weight.parts()[0].tensor).write_bytes(codes);
    Tensor(weight.parts()[1].tensor).write_bytes(absmax);
    Tensor(weight.parts()[2].tensor).write_bytes(std::as_bytes(std::span(nested)));
    return weight;
  }
};

std::vector<double> dequantized(const QuantizedWeight& weight) {
  return run_on_cpu([&](const std::vector<Tensor>&) -> std::vector<Tensor> { return {weight.dequantize()}; }, {})[0]
      .values;
}

std::vector<double> expected_values(const std::string& name) {
  const std::vector<float> values = floats_of_fixture(name);
  return {values.begin(), values.end()};
}

const char* const kMatrices[] = {"two_blocks", "wide", "narrow"};

TEST(Nf4, TablesAreThoseOfBitsandbytes) {
  const std::vector<float> codes = floats_of_fixture("nf4_values"), scales = floats_of_fixture("signed_dynamic_values");
  ASSERT_EQ(codes.size(), nf4_values().size());
  ASSERT_EQ(scales.size(), signed_dynamic_values().size());
  for (size_t i = 0; i < codes.size(); ++i) EXPECT_EQ(nf4_values()[i], codes[i]) << i;
  for (size_t i = 0; i < scales.size(); ++i)
    EXPECT_EQ(std::bit_cast<uint32_t>(signed_dynamic_values()[i]), std::bit_cast<uint32_t>(scales[i])) << i;
}

// Codes of elements are bitsandbytes'. Those of scales are the nearest ones, from which its table for processors is off
// by one near midpoints.
TEST(Nf4, QuantizesAsBitsandbytesDoes) {
  ThreadPool pool(2);
  for (const std::string name : kMatrices) {
    SCOPED_TRACE(name);
    const std::vector<float> values = floats_of_fixture(name + ".values");
    const Nf4Values made = quantize_nf4(values, pool);
    const KeptMatrix kept(name);
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(made.codes)), kept.codes));
    ASSERT_EQ(made.scale_codes.size(), kept.absmax.size());
    ASSERT_EQ(made.scales_of_scales.size() + 1, kept.nested.size());
    EXPECT_NEAR(made.mean, kept.nested.back(), 1e-7 * kept.nested.back());
    for (size_t i = 0; i < made.scales_of_scales.size(); ++i)
      EXPECT_NEAR(made.scales_of_scales[i], kept.nested[i], 1e-6 * kept.nested[i]) << i;
    for (size_t i = 0; i < made.scale_codes.size(); ++i) {
      float scale = 0;
      for (size_t k = 0; k < kNf4Block; ++k) scale = std::max(scale, std::abs(values[i * kNf4Block + k]));
      const double share = (static_cast<double>(scale) - made.mean) / made.scales_of_scales[i / kNf4ScalesBlock];
      const auto off = [&](std::byte code) {
        return std::abs(signed_dynamic_values()[static_cast<size_t>(code)] - share);
      };
      const auto code = static_cast<std::byte>(made.scale_codes[i]);
      EXPECT_NEAR(off(code), off(kept.absmax[i]), 1e-3) << "scale " << i;
      EXPECT_LE(std::abs(static_cast<int>(code) - static_cast<int>(kept.absmax[i])), 1) << "scale " << i;
      for (size_t other = 0; other < 256; ++other)
        EXPECT_LE(off(code), off(static_cast<std::byte>(other)) + 1e-6) << "scale " << i << ", code " << other;
    }
  }
}

TEST(Nf4, BlocksOfZerosStayZeros) {
  ThreadPool pool(1);
  std::vector<float> values(128, 0.5f);
  std::fill(values.begin() + 64, values.end(), 0.0f);
  QuantizedWeight weight("matrix", BaseWeights::kNf4, {2}, {64}, DType::kF32, make_code_values());
  weight.write(values, pool);
  const std::vector<double> made = dequantized(weight);
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(made[i], 0.5, 1e-2);
  for (size_t i = 64; i < 128; ++i) EXPECT_EQ(made[i], 0.0);
}

class DequantizedOn : public testing::TestWithParam<const char*> {};

// The interpreter computes in f64 and rounds nothing: what it gives is the reference of their roundings.
TEST_P(DequantizedOn, ValuesAreThoseOfBitsandbytesToTheLastBit) {
  const std::string device = GetParam();
  const ContextScope scope(device == "interpreter" ? Context::current() : Context::open(device));
  for (const std::string name : kMatrices)
    for (const DType type : {DType::kF32, DType::kBF16}) {
      const QuantizedWeight weight = KeptMatrix(name).in_memory(type);
      const auto function = [&](const std::vector<Tensor>&) -> std::vector<Tensor> { return {weight.dequantize()}; };
      const HostTensor made =
          device == "interpreter" ? run_on_interpreter(function, {})[0] : run_on_cpu(function, {})[0];
      const HostTensor expected{type, made.shape,
                                expected_values(name + (type == DType::kF32 ? ".float32" : ".bfloat16"))};
      const Bound bound = device == "interpreter" ? bounds::elementwise(type) : bounds::kExact;
      const Comparison compared = compare(expected, made, bound);
      EXPECT_TRUE(compared.equal) << name << " in " << dtype_name(type) << ": " << compared.text;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, DequantizedOn,
                         testing::Values("interpreter", "cpu", "emulator:sm_90a", "emulator:gfx942"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, ':', '_');
                           return name;
                         });

// The values above would tell.
TEST(Nf4, MistakesOfLayoutGiveOtherValues) {
  const KeptMatrix kept("two_blocks");
  const std::vector<double> expected = expected_values("two_blocks.float32");
  const auto share_that_differs = [&](const auto& mistake) {
    KeptMatrix wrong = kept;
    mistake(wrong);
    const std::vector<double> made = dequantized(wrong.in_memory(DType::kF32));
    double differing = 0;
    for (size_t i = 0; i < made.size(); ++i) differing += made[i] != expected[i] ? 1 : 0;
    return differing / static_cast<double>(made.size());
  };
  EXPECT_EQ(share_that_differs([](KeptMatrix&) {}), 0);
  EXPECT_GT(share_that_differs([](KeptMatrix& of) {
              for (std::byte& byte : of.codes) byte = byte << 4 | byte >> 4;
            }),
            0.8)
      << "halves of bytes the other way round";
  EXPECT_GT(share_that_differs([](KeptMatrix& of) { std::ranges::rotate(of.absmax, of.absmax.begin() + 1); }), 0.8)
      << "scales of the block behind";
  EXPECT_GT(share_that_differs([](KeptMatrix& of) { of.nested.back() = 0; }), 0.8) << "the mean is lost";
  EXPECT_GT(share_that_differs([](KeptMatrix& of) { std::swap(of.nested[0], of.nested[1]); }), 0.8)
      << "scales of the other block of scales";
}

// Each row by its own scale; rounding as everywhere, subnormal numbers and the largest one included.
TEST(F8Base, IsRoundedByTheLargestOfEachRow) {
  constexpr int64_t kRows = 5, kColumns = 96;
  std::vector<float> values;
  uint32_t bits = 1;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    bits = bits * 1664525 + 1013904223;
    const double size = std::exp2(-14.0 * (bits >> 8) / 0x1p24);
    values.push_back(static_cast<float>((bits & 64) != 0 ? size : -size) * static_cast<float>(1 + i / kColumns));
  }
  std::fill(values.end() - kColumns, values.end(), 0.0f);
  ThreadPool pool(2);
  QuantizedWeight weight("matrix", BaseWeights::kF8, {kRows}, {kColumns}, DType::kF32);
  weight.write(values, pool);
  EXPECT_EQ(weight.parts().size(), 2u);
  const std::vector<double> made = dequantized(weight);
  for (int64_t row = 0; row < kRows; ++row) {
    float largest = 0;
    for (int64_t i = 0; i < kColumns; ++i)
      largest = std::max(largest, std::abs(values[static_cast<size_t>(row * kColumns + i)]));
    const float scale = largest == 0 ? 1 : largest / 448;
    for (int64_t i = 0; i < kColumns; ++i) {
      const auto at = static_cast<size_t>(row * kColumns + i);
      const double code = round_to_dtype(DType::kF8E4M3, values[at] / scale);
      EXPECT_EQ(made[at], static_cast<double>(static_cast<float>(code) * scale)) << at;
    }
  }
}

TEST(QuantizedWeight, SaysWhatItCannotHold) {
  ThreadPool pool(1);
  for (const BaseWeights base : {BaseWeights::kNf4, BaseWeights::kF8}) {
    QuantizedWeight weight("layers.0.q_proj", base, {2}, {64}, DType::kF32, make_code_values());
    std::vector<float> values(128, 1.0f);
    values[70] = INFINITY;
    const std::string message = message_of([&] { weight.write(values, pool); });
    EXPECT_NE(message.find("layers.0.q_proj.weight: holds inf, which is no weight"), std::string::npos) << message;
  }
  const std::string message =
      message_of([] { QuantizedWeight("q_proj", BaseWeights::kNf4, {3}, {20}, DType::kF32, make_code_values()); });
  EXPECT_NE(message.find("lora.base"), std::string::npos) << message;
  EXPECT_NE(message.find("q_proj.weight has 3 x 20 elements"), std::string::npos) << message;
  EXPECT_NE(message.find("Set lora.base to f8 or unquantized."), std::string::npos) << message;
}

}  // namespace
}  // namespace causeway::model
