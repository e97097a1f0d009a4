#include "causeway/train/step/flops_utilization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "causeway/device/open_device.h"
#include "tests/device/gpu_stand_in_library.h"

namespace causeway::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Steps of 3.2 TFLOP on a GPU that says it is this product.
class FlopsUtilizationTest : public testing::Test {
 protected:
  FlopsUtilization on(const std::string& product, const std::map<std::string, double>& shares, int major = 9,
                      bool at_most = false) {
    driver_ = StandIn();
    driver_.product = product;
    driver_.major = major;
    CudaDevice device(CudaOptions{0, CAUSEWAY_CUDA_STAND_IN});
    FlopCount flops;
    flops.forward = 1.2e12;
    flops.backward = 2e12;
    flops.attended_pairs = 33;
    flops.attention_pairs = 64;
    flops.at_most = at_most;
    return FlopsUtilization(
        {.flops = flops, .operand_shares = shares, .target = device.target(), .product = product_name(device)},
        [this](const std::string& text) { warnings_.push_back(text); });
  }

  StandIn& driver_ = open_stand_in(CAUSEWAY_CUDA_STAND_IN);
  std::vector<std::string> warnings_;
};

TEST_F(FlopsUtilizationTest, IsOfTheDensePeakOfWhatIsMultiplied) {
  const auto peak = [&](const char* product, const std::map<std::string, double>& shares, int major = 9) {
    return on(product, shares, major).peak_tflops().value_or(0);
  };
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", {{"bf16", 1}}), 989.5);
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", {{"tf32", 1}}), 494.7);
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", {{"f32", 1}}), 67);
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", {{"fp8", 1}}), 1979);
  // The time at the peaks adds up: 3/4 in 8 bits, 1/4 in bf16.
  EXPECT_DOUBLE_EQ(peak("NVIDIA H200", {{"fp8", 0.75}, {"bf16", 0.25}}), 1 / (0.75 / 1979 + 0.25 / 989.5));
  // Kernels for sm_80 have no instructions for 8 bits: such operands are multiplied as bf16.
  EXPECT_DOUBLE_EQ(peak("NVIDIA A100-SXM4-80GB", {{"fp8", 0.75}, {"bf16", 0.25}}, 8), 312);
  EXPECT_DOUBLE_EQ(peak("NVIDIA A100-SXM4-80GB", {{"tf32", 1}}, 8), 156);
  EXPECT_EQ(peak("NVIDIA H300", {{"bf16", 1}}), 0);
}

TEST_F(FlopsUtilizationTest, IsAFractionOfThePeak) {
  FlopsUtilization h200 = on("NVIDIA H200", {{"bf16", 1}});
  EXPECT_DOUBLE_EQ(h200.of(0.008).value(), 3.2 / 0.008 / 989.5);
  EXPECT_EQ(h200.key(), "mfu");
  EXPECT_THAT(
      h200.explanation({1234567}, 1e6),
      ElementsAre("mfu: FLOP of a step / (seconds of a step x peak); FLOP: 2 for each multiply-add of GEMMs "
                  "and of attended pairs, forward and backward, recomputation left out",
                  "  3.2e+06 FLOP a token; 1234567 parameters; attention to 0.5156 of all pairs",
                  "  peak: 989.5 TFLOP/s (bf16 dense): NVIDIA H200 Tensor Core GPU datasheet (2024), tensor figures "
                  "halved to dense, NVLink halved to one direction"));
  const nlohmann::ordered_json basis = h200.basis({1234567});
  EXPECT_EQ(basis["flop_per_step"], 3.2e12);
  EXPECT_EQ(basis["parameters"], 1234567);
  EXPECT_EQ(basis["attention_density"], 0.515625);
  EXPECT_EQ(basis["at_most"], false);
  EXPECT_EQ(basis["peak_tflops"], 989.5);
  EXPECT_THAT(basis["peak"].get<std::string>(), HasSubstr("NVIDIA H200 Tensor Core GPU datasheet"));
  EXPECT_THAT(warnings_, testing::IsEmpty());

  FlopsUtilization fp8 = on("NVIDIA H200", {{"fp8", 0.75}, {"bf16", 0.25}});
  EXPECT_THAT(fp8.explanation({1}, 1)[2],
              HasSubstr("1583.2 TFLOP/s (bf16 dense 989.5 for 25 %, fp8 dense 1979 for 75 %)"));
}

TEST_F(FlopsUtilizationTest, TellsActiveParametersWhereThereAreFewer) {
  const FlopsUtilization h200 = on("NVIDIA H200", {{"bf16", 1}});
  EXPECT_THAT(h200.explanation({7, 3}, 1e6)[1], HasSubstr("; 7 parameters, 3 of them active; "));
  EXPECT_EQ(h200.basis({7, 3})["parameters"], 7);
  EXPECT_EQ(h200.basis({7, 3})["active_parameters"], 3);
  EXPECT_EQ(h200.basis({7})["active_parameters"], 7);
}

TEST_F(FlopsUtilizationTest, AboveThePeakIsAnErrorThatIsSaidOnce) {
  FlopsUtilization h200 = on("NVIDIA H200", {{"bf16", 1}});
  EXPECT_EQ(h200.of(0.002), std::nullopt);
  EXPECT_EQ(h200.of(0.003), std::nullopt);
  EXPECT_TRUE(h200.of(0.004));
  EXPECT_THAT(warnings_, ElementsAre(testing::AllOf(HasSubstr("ERROR IN THE METER: 3.2e+12 FLOP in 0.002 s would be "
                                                              "161.7 % of the device's peak of 989.5 TFLOP/s"),
                                                    HasSubstr("which cannot be; MFU is n/a"))));
}

TEST_F(FlopsUtilizationTest, IsABoundWhereDataDecides) {
  FlopsUtilization h200 = on("NVIDIA H200", {{"bf16", 1}}, 9, true);
  EXPECT_EQ(h200.key(), "mfu_at_most");
  EXPECT_TRUE(h200.basis({1})["at_most"]);
  EXPECT_EQ(h200.explanation({7}, 1e6)[1],
            "  at most 3.2e+06 FLOP a token; 7 parameters; attention to at most 0.5156 of all pairs (data decides)");
  // A bound above the peak is no error of the meter, and says nothing.
  EXPECT_EQ(h200.of(0.002), std::nullopt);
  EXPECT_THAT(warnings_,
              ElementsAre(testing::AllOf(HasSubstr("3.2e+12 FLOP at most"), testing::Not(HasSubstr("ERROR")))));
}

TEST_F(FlopsUtilizationTest, IsNotGuessed) {
  FlopsUtilization unknown = on("NVIDIA H300", {});
  EXPECT_EQ(unknown.of(1), std::nullopt);
  EXPECT_THAT(unknown.explanation({1}, 1), ElementsAre("mfu: n/a. No datasheet peak is on record for NVIDIA H300."));
  EXPECT_TRUE(unknown.basis({1})["peak_tflops"].is_null());
  FlopsUtilization slice = on("NVIDIA H100 80GB HBM3 MIG 1g.10gb", {});
  EXPECT_EQ(slice.peak_tflops(), std::nullopt);
  // An A30 has no fp8, and kernels for sm_90a would use it.
  EXPECT_EQ(on("NVIDIA A30", {{"fp8", 1}}).why_absent(), "The datasheet of NVIDIA A30 gives no peak for fp8.");

  const auto processor = open_device("cpu");
  FlopsUtilization cpu({.target = processor->target(), .product = product_name(*processor)});
  EXPECT_EQ(cpu.of(1), std::nullopt);
  EXPECT_THAT(cpu.explanation({1}, 1), ElementsAre(HasSubstr("mfu: n/a. No peak is given for a processor")));
  const auto emulator = open_device("emulator:sm_90a");
  EXPECT_THAT(FlopsUtilization({.target = emulator->target(), .product = product_name(*emulator)}).why_absent(),
              HasSubstr("emulator:sm_90a"));
}

}  // namespace
}  // namespace causeway::train
