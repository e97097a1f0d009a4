// The GPU architectures that kernels are compiled for, and the limits their tiles are chosen from.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::device {

struct GpuArchitecture {
  enum class Vendor { kNvidia, kAmd };

  std::string_view processor;  // LLVM's name: "sm_90a", "gfx942"
  Vendor vendor = Vendor::kNvidia;
  int wave_width = 32;                // threads that run in lockstep
  int shared_bytes = 0;               // most shared memory of one thread block
  int registers_per_thread = 255;     // most that one thread may use (AMD: vector and accumulation registers)
  int parallel_units = 1;             // multiprocessors or compute units of the product that is named below
  bool has_warpgroup_matrix = false;  // wgmma, the tensor copy engine, mbarriers, clusters
  bool has_tf32_matrix = false;       // instructions that multiply f32 rounded to tf32 (AMD: xf32)
  bool has_f8_matrix = false;         // instructions that multiply 8-bit floats
  std::string_view product;           // "H100, H200"

  bool operator==(const GpuArchitecture& other) const { return processor == other.processor; }
};

// sm_80, sm_90a, gfx90a, gfx942.
std::span<const GpuArchitecture> gpu_architectures();

// Throws Error(kInvalidArgument) that lists the known ones and suggests the nearest name.
const GpuArchitecture& gpu_architecture(std::string_view processor);

}  // namespace causeway::device
