// The GPU architectures that kernels are compiled for: all in which they differ, as data.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "causeway/device/preferred_sizes.h"
#include "causeway/namespaces.h"

namespace causeway::device {

// Multiprocessors of the GPU (H100, H200) that schedules were measured on. What decides the order of sums is derived
// from it, whatever a device has, so that devices agree in results.
inline constexpr int kMeasuredUnits = 132;

struct GpuArchitecture {
  enum class Vendor { kNvidia, kAmd };
  // What a wave multiplies matrices with: mma.sync, of fragments that ldmatrix loads, or MFMA.
  enum class WaveMatrix { kMmaSync, kMfma };

  // What a multiprocessor gives to the blocks that it holds at the same time. It is made of units, which have registers
  // and waves of their own.
  struct Occupancy {
    int units = 4;
    int unit_registers = 0;         // of all lanes
    int register_granule = 1;       // of which a wave takes a multiple
    int unit_waves = 0;             // at most
    int most_scalar_registers = 0;  // of a wave with which a unit still holds that many; 0: there are none
    int wave_granule = 1;           // of which a block takes a multiple
    int shared_granule = 1;         // bytes of which a block takes a multiple
    int shared_reserved = 0;  // bytes that each block takes beyond what it asks for, of as many beyond shared_bytes
    int blocks = 0;           // at most
    int blocks_of_several_waves = 0;
  };

  std::string_view processor;  // LLVM's name: "sm_90a", "gfx942"
  Vendor vendor = Vendor::kNvidia;
  std::string_view driver;             // "cuda", "hip": the devices that have it
  std::string_view definition;         // "CAUSEWAY_NVIDIA=90": what kernels/gpu/intrinsics.h goes by
  std::string_view unit_name;          // what the vendor calls a multiprocessor
  std::string_view image_name;         // what a compiled kernel is: "PTX", which the driver compiles, "machine code"
  int wave_width = 32;                 // threads that run together
  bool lanes_in_lockstep = false;      // they do without barriers
  bool copies_asynchronously = false;  // from memory to shared memory, past registers
  int shared_bytes = 0;                // most shared memory of one thread block
  Occupancy occupancy;
  int parallel_units = 1;  // multiprocessors or compute units of the product that is named below
  WaveMatrix wave_matrix = WaveMatrix::kMmaSync;
  bool has_warpgroup_matrix = false;  // wgmma, which takes operands from shared memory
  bool has_tma = false;               // the tensor memory accelerator, and mbarriers that count its bytes
  bool has_clusters = false;          // blocks that share shared memory, and loads by multicast
  // How many blocks, in clusters of eight with a multiprocessor each, run at the same time; 0: not measured.
  int blocks_in_clusters_of_eight = 0;
  bool waits_for_launches = false;     // kernels do themselves, and so may be set up before the one before has ended
  bool has_tf32_matrix = false;        // instructions that multiply f32 rounded to tf32 (AMD: xf32)
  bool has_f8_matrix = false;          // instructions that multiply 8-bit floats
  bool has_cdna3_wait_states = false;  // of AMD's: distances between instructions are those of CDNA 3, not of CDNA 2
  std::string_view product;            // "H100, H200"
  // Of NVIDIA's: the compute capabilities that it is chosen for, 80 for 8.0, and whether drivers compile its PTX for
  // whatever came later too, where it is asked for.
  int first_capability = 0, last_capability = 0;
  bool runs_on_newer = false;
  PreferredSizes preferred_sizes;
  // To the host's memory, one direction, 1e9 bytes: what copies of pinned memory reach of PCIe 4.0 or 5.0 x16. And what
  // GEMMs in bf16 usually reach, TFLOP/s. What is kept on the host or computed again is weighed by them; plans of a
  // product have its own.
  double host_link_gb_per_s = 25;
  double usual_tflops = 150;

  bool operator==(const GpuArchitecture& other) const { return processor == other.processor; }
};

// sm_80, sm_90a, gfx90a, gfx942.
std::span<const GpuArchitecture> gpu_architectures();

// Their names, "sm_80, sm_90a", with `products` "sm_80 (A100), sm_90a (H100, H200)"; of one driver ("cuda") or of all.
std::string gpu_architecture_names(bool products, std::string_view driver = {});

// Throws Error(kInvalidArgument) that lists the known ones and suggests the nearest name.
const GpuArchitecture& gpu_architecture(std::string_view processor);

}  // namespace causeway::device
