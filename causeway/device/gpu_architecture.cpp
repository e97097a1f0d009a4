#include "causeway/device/gpu_architecture.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

using Vendor = GpuArchitecture::Vendor;

// Shared memory: CUDA C++ Programming Guide, table of technical specifications (the opt-in maximum of one block);
// CDNA 2 and CDNA 3 ISA documents (64 KiB of LDS).
constexpr std::array<GpuArchitecture, 4> kArchitectures = {{
    {"sm_80", Vendor::kNvidia, 32, 163 * 1024, 255, 108, false, true, false, "A100"},
    {"sm_90a", Vendor::kNvidia, 32, 227 * 1024, 255, 132, true, true, true, "H100, H200"},
    {"gfx90a", Vendor::kAmd, 64, 64 * 1024, 512, 110, false, false, false, "MI210, MI250"},
    {"gfx942", Vendor::kAmd, 64, 64 * 1024, 512, 304, false, true, true, "MI300A, MI300X, MI325X"},
}};

}  // namespace

std::span<const GpuArchitecture> gpu_architectures() { return kArchitectures; }

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
              fmt::format("{}Known: sm_80 (A100), sm_90a (H100, H200), gfx90a (MI200 series), gfx942 (MI300 series).",
                          nearest.empty() ? "" : fmt::format("Did you mean {}? ", nearest)));
}

}  // namespace causeway::device
