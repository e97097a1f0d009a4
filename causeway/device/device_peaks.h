// What a device could do at best, by its maker's datasheet: the denominators of a training run's MFU and of every
// percentage in the lab.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "causeway/device/target.h"

namespace causeway::device {

// Of one device as the driver shows it: an MI250X counts as two. Absent what the datasheet leaves open.
struct DevicePeak {
  // TFLOP/s of dense GEMMs. NVIDIA: tensor cores, with f32 by the ordinary cores; AMD: matrix cores.
  std::optional<double> bf16, fp16, tf32, f32, fp8;
  double memory_gb_per_s = 0;  // 1e9 bytes
  // Between memory and the compute units: L2, on AMD's MI300 series the Infinity Cache. As the driver has it.
  int64_t cache_bytes = 0;
  // To the other GPUs of the machine together, one direction, where all of the maker's links are connected.
  std::optional<double> link_gb_per_s;
  std::string source;  // a sentence

  // TFLOP/s for "bf16", "f16" or "fp16", "tf32", "f32" or "fp32", "fp8", "f8e4m3" or "f8e5m2", also with
  // scales of blocks ("fp8_block", "f8e4m3_block"); nothing for others.
  std::optional<double> tflops(std::string_view dtype) const;
};

// By the product's name as its driver gives it ("NVIDIA H100 80GB HBM3"), the case of letters aside. Nothing for names
// that are not known to the letter, which includes slices of a GPU ("... MIG 1g.10gb"), and for processors.
std::optional<DevicePeak> find_device_peak(std::string_view product);

// Why a figure of this product has no percentage of peak, a sentence for the report.
std::string why_no_peak(std::string_view product, const Target& target);

}  // namespace causeway::device
