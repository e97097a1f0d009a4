#include "causeway/device/device_peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace causeway::device {
namespace {

constexpr double kNone = 0;

struct Row {
  const char* product;
  double bf16, fp16, tf32, f32, fp8;  // TFLOP/s
  double memory_gb_per_s;
  double cache_mib;
  double link_gb_per_s;
  const char* source;
};

// Datasheets print NVIDIA's tensor figures "with sparsity" from Hopper on: halved here. The makers' own pages could not
// be opened when these rows were last compared, on 2026-11-21: H200, H100 (SXM, PCIe), A100, A40, L40S, MI300X, MI325X,
// MI250X and MI250 agree with transcriptions of the datasheets by others; the other rows rest on the first reading.
constexpr const char* kH200 =
    "NVIDIA H200 Tensor Core GPU datasheet (2024), tensor figures halved to dense, NVLink halved to one direction";
constexpr const char* kH100 =
    "NVIDIA H100 Tensor Core GPU datasheet (2023-2024), tensor figures halved to dense, NVLink halved to one direction";
constexpr const char* kH100Pcie =
    "NVIDIA H100 PCIe product brief PB-11133 and datasheet (2022), tensor figures halved to dense, NVLink bridges "
    "halved to one direction";
constexpr const char* kA100 =
    "NVIDIA A100 Tensor Core GPU datasheet (2021), dense figures, NVLink halved to one direction";
constexpr const char* kA30 =
    "NVIDIA A30 Tensor Core GPU datasheet (2021), dense figures, NVLink halved to one direction";
constexpr const char* kA10 = "NVIDIA A10 Tensor Core GPU datasheet (2021), dense figures";
constexpr const char* kA40 = "NVIDIA A40 datasheet (2021), dense figures, NVLink halved to one direction";
constexpr const char* kL4 = "NVIDIA L4 Tensor Core GPU datasheet (2023), tensor figures halved to dense";
constexpr const char* kL40S = "NVIDIA L40S datasheet (2023), dense figures";
constexpr const char* kAda =
    "NVIDIA Ada GPU architecture whitepaper (2022), table of GeForce RTX 4090, dense, sums kept in f32";
constexpr const char* kAmpere =
    "NVIDIA Ampere GA102 GPU architecture whitepaper (2020), table of GeForce RTX 3090, dense, sums kept in f32";
constexpr const char* kMi300x =
    "AMD Instinct MI300X data sheet (2023), dense figures, seven links of 64 GB/s a direction";
constexpr const char* kMi325x =
    "AMD Instinct MI325X data sheet (2024), dense figures, seven links of 64 GB/s a direction";
constexpr const char* kMi300a = "AMD Instinct MI300A data sheet (2023), dense figures";
constexpr const char* kMi250x =
    "AMD Instinct MI250X data sheet (2021), halved: one of the card's two dies, which is what the driver shows";
constexpr const char* kMi250xOrMi250 =
    "AMD Instinct MI250X data sheet (2021), halved: one of the card's two dies; the driver does not tell an MI250X "
    "from "
    "an MI250, whose compute is 5% less";
constexpr const char* kMi250 =
    "AMD Instinct MI250 data sheet (2021), halved: one of the card's two dies, which is what the driver shows";
constexpr const char* kMi210 = "AMD Instinct MI210 data sheet (2022), three links of 50 GB/s a direction";

// Cache sizes are those that the drivers report (an H200 60 MiB where the H100 has 50).
constexpr Row kRows[] = {
    {"NVIDIA H200", 989.5, 989.5, 494.7, 67, 1979, 4800, 60, 450, kH200},
    {"NVIDIA H200 NVL", 835.5, 835.5, 417.5, 60, 1670.5, 4800, 60, 450, kH200},
    {"NVIDIA H100 80GB HBM3", 989.5, 989.5, 494.7, 67, 1979, 3350, 50, 450, kH100},
    {"NVIDIA H100 NVL", 835.5, 835.5, 417.5, 60, 1670.5, 3900, 50, 300, kH100},
    {"NVIDIA H100 PCIe", 756.5, 756.5, 378, 51, 1513, 2000, 50, 300, kH100Pcie},
    {"NVIDIA A100-SXM4-80GB", 312, 312, 156, 19.5, kNone, 2039, 40, 300, kA100},
    {"NVIDIA A100-SXM4-40GB", 312, 312, 156, 19.5, kNone, 1555, 40, 300, kA100},
    {"NVIDIA A100 80GB PCIe", 312, 312, 156, 19.5, kNone, 1935, 40, 300, kA100},
    {"NVIDIA A100-PCIE-40GB", 312, 312, 156, 19.5, kNone, 1555, 40, 300, kA100},
    {"NVIDIA A30", 165, 165, 82, 10.3, kNone, 933, 24, 100, kA30},
    {"NVIDIA A10", 125, 125, 62.5, 31.2, kNone, 600, 6, kNone, kA10},
    {"NVIDIA A40", 149.7, 149.7, 74.8, 37.4, kNone, 696, 6, 56.25, kA40},
    {"NVIDIA L4", 121, 121, 60, 30.3, 242.5, 300, 48, kNone, kL4},
    {"NVIDIA L40S", 362.05, 362.05, 183, 91.6, 733, 864, 96, kNone, kL40S},
    {"NVIDIA GeForce RTX 4090", 165.2, 165.2, 82.6, 82.6, 330.3, 1008, 72, kNone, kAda},
    {"NVIDIA GeForce RTX 3090", 71, 71, 35.6, 35.6, kNone, 936, 6, kNone, kAmpere},
    {"AMD Instinct MI300X", 1307.4, 1307.4, 653.7, 163.4, 2614.9, 5300, 256, 448, kMi300x},
    {"AMD Instinct MI300X OAM", 1307.4, 1307.4, 653.7, 163.4, 2614.9, 5300, 256, 448, kMi300x},
    {"AMD Instinct MI325X", 1307.4, 1307.4, 653.7, 163.4, 2614.9, 6000, 256, 448, kMi325x},
    {"AMD Instinct MI300A", 980.6, 980.6, 490.3, 122.6, 1961.2, 5300, 256, kNone, kMi300a},
    {"AMD Instinct MI250X", 191.5, 191.5, kNone, 47.85, kNone, 1638.4, 8, kNone, kMi250x},
    {"AMD Instinct MI250X / MI250", 191.5, 191.5, kNone, 47.85, kNone, 1638.4, 8, kNone, kMi250xOrMi250},
    {"AMD Instinct MI250", 181.05, 181.05, kNone, 45.25, kNone, 1638.4, 8, kNone, kMi250},
    {"AMD Instinct MI210", 181, 181, kNone, 45.3, kNone, 1638.4, 8, 150, kMi210},
};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::optional<double> figure(double value) { return value == kNone ? std::nullopt : std::optional(value); }

}  // namespace

std::optional<double> DevicePeak::tflops(std::string_view dtype) const {
  if (dtype == "bf16") return bf16;
  if (dtype == "f16" || dtype == "fp16") return fp16;
  if (dtype == "tf32") return tf32;
  if (dtype == "f32" || dtype == "fp32") return f32;
  if (dtype == "fp8" || dtype == "fp8_block" || dtype == "f8e4m3" || dtype == "f8e4m3_block" || dtype == "f8e5m2")
    return fp8;
  return std::nullopt;
}

std::optional<DevicePeak> find_device_peak(std::string_view product) {
  for (const Row& row : kRows) {
    if (!same_name(row.product, product)) continue;
    DevicePeak peak;
    peak.bf16 = figure(row.bf16);
    peak.fp16 = figure(row.fp16);
    peak.tf32 = figure(row.tf32);
    peak.f32 = figure(row.f32);
    peak.fp8 = figure(row.fp8);
    peak.memory_gb_per_s = row.memory_gb_per_s;
    peak.cache_bytes = static_cast<int64_t>(row.cache_mib * (1 << 20));
    peak.link_gb_per_s = figure(row.link_gb_per_s);
    peak.source = row.source;
    return peak;
  }
  return std::nullopt;
}

std::string why_no_peak(std::string_view product, const Target& target) {
  if (!target.is_gpu())
    return "No peak is given for a processor: it follows from the clock under full vector load, which makers do not "
           "state.";
  return fmt::format("No datasheet peak is on record for {}.", product.empty() ? "this device" : product);
}

}  // namespace causeway::device
