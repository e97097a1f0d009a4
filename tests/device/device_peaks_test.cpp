#include "causeway/device/device_peaks.h"

#include <gtest/gtest.h>

namespace causeway::device {
namespace {

TEST(DevicePeaks, GivesDenseFiguresByTheDriversName) {
  const auto h200 = find_device_peak("NVIDIA H200");
  ASSERT_TRUE(h200);
  EXPECT_EQ(h200->tflops("bf16"), 989.5);
  EXPECT_EQ(h200->tflops("f16"), 989.5);
  for (const char* name : {"fp8", "fp8_block", "f8e4m3_block"}) EXPECT_EQ(h200->tflops(name), 1979) << name;
  EXPECT_EQ(h200->tflops("f8e4m3"), 1979);
  EXPECT_EQ(h200->tflops("f32"), 67);
  EXPECT_EQ(h200->memory_gb_per_s, 4800);
  EXPECT_EQ(h200->cache_bytes, 60 << 20);
  EXPECT_EQ(h200->link_gb_per_s, 450);
  EXPECT_EQ(h200->tflops("i32"), std::nullopt);

  // Names that differ by little, chips that differ by much.
  EXPECT_EQ(find_device_peak("NVIDIA H100 80GB HBM3")->tflops("bf16"), 989.5);
  EXPECT_EQ(find_device_peak("NVIDIA H100 PCIe")->tflops("bf16"), 756.5);
  EXPECT_EQ(find_device_peak("NVIDIA A100-SXM4-80GB")->memory_gb_per_s, 2039);
  EXPECT_EQ(find_device_peak("NVIDIA A100-SXM4-40GB")->memory_gb_per_s, 1555);
  EXPECT_EQ(find_device_peak("AMD Instinct MI300X")->cache_bytes, 256 << 20);
  EXPECT_EQ(find_device_peak("AMD Instinct MI325X")->memory_gb_per_s, 6000);
  EXPECT_EQ(find_device_peak("amd instinct mi210")->tflops("bf16"), 181);
}

TEST(DevicePeaks, CountsAnMi250xPerDie) {
  const auto die = find_device_peak("AMD Instinct MI250X");
  ASSERT_TRUE(die);
  EXPECT_EQ(die->tflops("bf16"), 191.5);
  EXPECT_EQ(die->memory_gb_per_s, 1638.4);
  EXPECT_NE(die->source.find("one of the card's two dies"), std::string::npos);
  // What the driver calls both products.
  EXPECT_EQ(find_device_peak("AMD Instinct MI250X / MI250")->tflops("bf16"), 191.5);
}

TEST(DevicePeaks, ChipsWithoutFp8HaveNoPeakForIt) {
  EXPECT_EQ(find_device_peak("NVIDIA A100-SXM4-80GB")->tflops("fp8"), std::nullopt);
  EXPECT_EQ(find_device_peak("AMD Instinct MI250X")->tflops("fp8"), std::nullopt);
  EXPECT_EQ(find_device_peak("AMD Instinct MI250X")->tflops("tf32"), std::nullopt);
}

TEST(DevicePeaks, GuessesNothing) {
  EXPECT_FALSE(find_device_peak(""));
  EXPECT_FALSE(find_device_peak("H100"));
  EXPECT_FALSE(find_device_peak("NVIDIA H100 80GB HBM3 MIG 1g.10gb"));
  EXPECT_FALSE(find_device_peak("NVIDIA H300"));
  EXPECT_FALSE(find_device_peak("AMD EPYC 9654"));
  EXPECT_EQ(why_no_peak("NVIDIA H300", gpu_target("sm_90a")), "No datasheet peak is on record for NVIDIA H300.");
  EXPECT_EQ(why_no_peak("", gpu_target("gfx942")), "No datasheet peak is on record for this device.");
  EXPECT_EQ(why_no_peak("AMD EPYC 9654", Target()),
            "No peak is given for a processor: it follows from the clock under full vector load, which makers do not "
            "state.");
}

TEST(DevicePeaks, EveryEntryNamesItsSourceAndIsConsistent) {
  for (const char* product : {"NVIDIA H200",
                              "NVIDIA H200 NVL",
                              "NVIDIA H100 80GB HBM3",
                              "NVIDIA H100 NVL",
                              "NVIDIA H100 PCIe",
                              "NVIDIA A100-SXM4-80GB",
                              "NVIDIA A100 80GB PCIe",
                              "NVIDIA A100-PCIE-40GB",
                              "NVIDIA A30",
                              "NVIDIA A10",
                              "NVIDIA A40",
                              "NVIDIA L4",
                              "NVIDIA L40S",
                              "NVIDIA GeForce RTX 4090",
                              "NVIDIA GeForce RTX 3090",
                              "AMD Instinct MI300X",
                              "AMD Instinct MI300A",
                              "AMD Instinct MI325X",
                              "AMD Instinct MI250",
                              "AMD Instinct MI210"}) {
    const auto peak = find_device_peak(product);
    ASSERT_TRUE(peak) << product;
    EXPECT_EQ(peak->tflops("bf16"), peak->tflops("fp16")) << product;
    EXPECT_GT(peak->memory_gb_per_s, 100) << product;
    EXPECT_GE(peak->cache_bytes, 6 << 20) << product;
    EXPECT_TRUE(peak->source.starts_with("NVIDIA ") || peak->source.starts_with("AMD ")) << product;
    // Eight bits at twice the rate of sixteen, tf32 at half of it.
    if (peak->fp8) EXPECT_NEAR(*peak->fp8 / *peak->bf16, 2, 0.03) << product;
    if (peak->tf32) EXPECT_NEAR(*peak->bf16 / *peak->tf32, 2, 0.03) << product;
  }
}

}  // namespace
}  // namespace causeway::device
