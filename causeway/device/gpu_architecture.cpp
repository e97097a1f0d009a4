#include "causeway/device/gpu_architecture.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

using Vendor = GpuArchitecture::Vendor;

// CUDA C++ Programming Guide, table of technical specifications: 64K registers and 64 warps of a multiprocessor in four
// units; registers by 256 for a warp; 1 KiB of shared memory for the system in every block.
constexpr GpuArchitecture::Occupancy kNvidiaOccupancy = {.units = 4,
                                                         .unit_registers = 16'384,
                                                         .register_granule = 256,
                                                         .unit_waves = 16,
                                                         .most_scalar_registers = 0,
                                                         .wave_granule = 4,
                                                         .shared_granule = 128,
                                                         .shared_reserved = 1024,
                                                         .blocks = 32,
                                                         .blocks_of_several_waves = 32};
// CDNA 2 and CDNA 3 ISA documents: 512 vector registers of 64 lanes by 8, 8 waves of a SIMD, 800 scalar registers.
constexpr GpuArchitecture::Occupancy kAmdOccupancy = {.units = 4,
                                                      .unit_registers = 512 * 64,
                                                      .register_granule = 8 * 64,
                                                      .unit_waves = 8,
                                                      .most_scalar_registers = 100,
                                                      .wave_granule = 1,
                                                      .shared_granule = 512,
                                                      .shared_reserved = 0,
                                                      .blocks = 32,
                                                      .blocks_of_several_waves = 16};

// By its bytes and an H200's rates the gradient of the output layer's weight takes a tenth of the time of a chunk of
// 2,048 tokens, a fortieth of 8,192.
constexpr PreferredSizes kPreferredSizes = {.logits_bytes = int64_t{512} << 20,
                                            .most_logits_bytes = int64_t{2} << 30,
                                            .logits_rows = 8192,
                                            .vocabulary_multiple = 64,
                                            .f8_multiple = 16,
                                            .sparse_updates = 16384};

constexpr GpuArchitecture nvidia() {
  GpuArchitecture architecture;
  architecture.preferred_sizes = kPreferredSizes;
  architecture.vendor = Vendor::kNvidia;
  architecture.driver = "cuda";
  architecture.unit_name = "multiprocessor";
  architecture.image_name = "PTX";
  architecture.wave_width = 32;
  architecture.copies_asynchronously = true;
  architecture.has_tf32_matrix = true;
  architecture.occupancy = kNvidiaOccupancy;
  return architecture;
}

constexpr GpuArchitecture amd() {
  GpuArchitecture architecture;
  architecture.preferred_sizes = kPreferredSizes;
  architecture.vendor = Vendor::kAmd;
  architecture.wave_matrix = GpuArchitecture::WaveMatrix::kMfma;
  architecture.driver = "hip";
  architecture.unit_name = "compute unit";
  architecture.image_name = "machine code";
  architecture.wave_width = 64;
  architecture.lanes_in_lockstep = true;
  architecture.shared_bytes = 64 * 1024;  // of LDS, by the ISA documents
  architecture.occupancy = kAmdOccupancy;
  return architecture;
}

// Shared memory of NVIDIA's: the opt-in maximum of one block, as above.
constexpr GpuArchitecture sm_80() {
  GpuArchitecture architecture = nvidia();
  architecture.processor = "sm_80";
  architecture.definition = "CAUSEWAY_NVIDIA=80";
  architecture.shared_bytes = 163 * 1024;
  architecture.parallel_units = 108;
  architecture.product = "A100";
  architecture.first_capability = 80;
  architecture.last_capability = 89;
  architecture.runs_on_newer = true;
  return architecture;
}

constexpr GpuArchitecture sm_90a() {
  GpuArchitecture architecture = nvidia();
  architecture.processor = "sm_90a";
  architecture.definition = "CAUSEWAY_NVIDIA=90";
  architecture.shared_bytes = 227 * 1024;
  architecture.parallel_units = kMeasuredUnits;
  architecture.host_link_gb_per_s = 50;
  architecture.usual_tflops = 600;
  architecture.has_warpgroup_matrix = true;
  architecture.has_tma = true;
  architecture.has_clusters = true;
  // A cluster's are in one group of 16 or 18 multiprocessors, of which one at least lacks two: of 128 blocks eight
  // waited for the others.
  architecture.blocks_in_clusters_of_eight = 120;
  architecture.waits_for_launches = true;
  architecture.has_f8_matrix = true;
  architecture.preferred_sizes.f8_blocks = true;
  architecture.preferred_sizes.tf32_along_k = true;
  architecture.product = "H100, H200";
  // "a": for this capability alone (PTX ISA, ".target").
  architecture.first_capability = architecture.last_capability = 90;
  return architecture;
}

constexpr GpuArchitecture gfx90a() {
  GpuArchitecture architecture = amd();
  architecture.processor = "gfx90a";
  architecture.definition = "CAUSEWAY_AMD=0x90a";
  architecture.parallel_units = 110;
  architecture.usual_tflops = 90;
  architecture.product = "MI210, MI250";
  return architecture;
}

constexpr GpuArchitecture gfx942() {
  GpuArchitecture architecture = amd();
  architecture.processor = "gfx942";
  architecture.definition = "CAUSEWAY_AMD=0x942";
  architecture.parallel_units = 304;
  architecture.host_link_gb_per_s = 50;
  architecture.usual_tflops = 500;
  architecture.has_tf32_matrix = true;
  architecture.has_f8_matrix = true;
  architecture.has_cdna3_wait_states = true;
  architecture.product = "MI300A, MI300X, MI325X";
  return architecture;
}

constexpr std::array<GpuArchitecture, 4> kArchitectures = {sm_80(), sm_90a(), gfx90a(), gfx942()};

}  // namespace

std::span<const GpuArchitecture> gpu_architectures() { return kArchitectures; }

std::string gpu_architecture_names(bool products, std::string_view driver) {
  std::string names;
  for (const GpuArchitecture& architecture : kArchitectures)
    if (driver.empty() || architecture.driver == driver)
      names += fmt::format("{}{}{}", names.empty() ? "" : ", ", architecture.processor,
                           products ? fmt::format(" ({})", architecture.product) : "");
  return names;
}

const GpuArchitecture& gpu_architecture(std::string_view processor) {
  std::vector<std::string> names;
  for (const GpuArchitecture& architecture : kArchitectures) {
    if (architecture.processor == processor) return architecture;
    names.emplace_back(architecture.processor);
  }
  // "sm_90" means sm_90a, though sm_80 is as near by its letters.
  std::string nearest;
  for (const std::string& name : names)
    if (!processor.empty() && name.starts_with(processor)) nearest = name;
  if (nearest.empty()) nearest = nearest_name(processor, names);
  throw Error(ErrorKind::kInvalidArgument, fmt::format("unknown GPU architecture '{}'", processor), "device",
              fmt::format("{}Known: {}.", nearest.empty() ? "" : fmt::format("Did you mean {}? ", nearest),
                          gpu_architecture_names(true)));
}

}  // namespace causeway::device
