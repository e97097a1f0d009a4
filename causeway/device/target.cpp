#include "causeway/device/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "causeway/device/gpu_architecture.h"
#include "causeway/device/gpu_memory_pool.h"
#include "causeway/device/preferred_sizes.h"

namespace causeway::device {

void Target::add_feature(std::string_view name) {
  const auto place = std::lower_bound(features.begin(), features.end(), name);
  if (place == features.end() || *place != name) features.emplace(place, name);
}

bool Target::has_feature(std::string_view name) const {
  return std::binary_search(features.begin(), features.end(), name);
}

const GpuArchitecture& Target::architecture() const { return gpu_architecture(processor); }

const PreferredSizes& Target::preferred_sizes() const {
  return is_gpu() ? architecture().preferred_sizes : preferred_sizes_of_processors();
}

bool Target::has_avx2() const {
  return family == Family::kX86 && (processor == "x86-64-v3" || processor == "x86-64-v4");
}

bool Target::has_avx512() const { return family == Family::kX86 && processor == "x86-64-v4"; }

bool Target::has_avx512_bf16() const { return has_avx512() && has_feature("avx512bf16"); }

bool Target::has_amx_bf16() const { return has_avx512_bf16() && has_feature("amx-bf16"); }

int64_t Target::reserved_bytes(int64_t bytes) const {
  return is_gpu() && bytes > 0 ? static_cast<int64_t>(GpuMemoryPool::rounded(static_cast<size_t>(bytes))) : bytes;
}

std::string Target::multiplied_as(const std::string& operand) const {
  if (!is_gpu()) return operand;
  if (operand == "fp8" && !architecture().has_f8_matrix) return "bf16";
  if (operand == "tf32" && !architecture().has_tf32_matrix) return "f32";
  return operand;
}

double Target::host_bytes_per_second() const { return is_gpu() ? architecture().host_link_gb_per_s * 1e9 : 0; }

double Target::usual_flops_per_second() const { return is_gpu() ? architecture().usual_tflops * 1e12 : 0; }

std::string Target::text() const {
  return fmt::format("{}:{}:{}:{}", target_family_name(family), processor, fmt::join(features, ","), vector_bytes);
}

Target gpu_target(std::string_view processor, bool emulated) {
  const GpuArchitecture& architecture = gpu_architecture(processor);
  Target target;
  target.family = emulated                                                  ? Target::Family::kEmulator
                  : architecture.vendor == GpuArchitecture::Vendor::kNvidia ? Target::Family::kNvptx
                                                                            : Target::Family::kAmdgpu;
  target.processor = architecture.processor;
  target.parallel_units = architecture.parallel_units;
  return target;
}

std::string_view target_family_name(Target::Family family) {
  switch (family) {
    case Target::Family::kX86:
      return "x86";
    case Target::Family::kNvptx:
      return "nvptx";
    case Target::Family::kAmdgpu:
      return "amdgpu";
    case Target::Family::kEmulator:
      return "emulator";
  }
  return "unknown";
}

}  // namespace causeway::device
