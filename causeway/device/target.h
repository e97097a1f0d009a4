// What a kernel is compiled for: a processor family, a processor of it and the features it has. A target is a value;
// its text names it completely and is part of every kernel cache key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::device {

struct GpuArchitecture;
struct PreferredSizes;

struct Target {
  enum class Family { kX86, kNvptx, kAmdgpu, kEmulator };

  Family family = Family::kX86;
  // LLVM's name of the processor: "x86-64-v4", "sm_90a", "gfx942". For the emulator, the processor it imitates.
  std::string processor;
  // LLVM's names of features beyond the processor's own, without "+", sorted and unique. Of the emulator: "checked",
  // that kernels report every access to memory.
  std::vector<std::string> features;
  // x86: the vector width to prefer, in bytes (16, 32 or 64). Otherwise the width of the widest load, in bytes.
  int vector_bytes = 16;
  // Processors, or compute units, that share a launch: work is cut with them in mind. It never changes results, and the
  // compiler does not see it, so it is not part of text().
  int parallel_units = 1;

  // Adds a feature, keeping the list sorted and unique.
  void add_feature(std::string_view name);
  bool has_feature(std::string_view name) const;

  // Kernels run as blocks of threads: NVIDIA's, AMD's and the emulator's.
  bool is_gpu() const { return family != Family::kX86; }
  // The architecture compiled for or imitated; only where is_gpu().
  const GpuArchitecture& architecture() const;
  const PreferredSizes& preferred_sizes() const;

  // What the stages above need to know of a device, so that none asks what it is. The emulator answers as the GPU that
  // it imitates.
  //
  // Buffers are in a memory of the device's own, given out by its driver and counted apart from the process's.
  bool has_own_memory() const { return is_gpu(); }
  // What the driver gives for a buffer of so many bytes.
  int64_t reserved_bytes(int64_t bytes) const;
  // Launches, copies and collectives go on after the calls that begin them have returned, and a step is recorded once
  // and replayed.
  bool runs_asynchronously() const { return is_gpu(); }
  // Copies to the host want pinned memory there, which takes time to get.
  bool copies_to_pinned_memory() const { return is_gpu(); }
  // GEMMs in bf16 read the upper halves of f32 weights where they lie (passes/split_weights.h). A processor's convert
  // what they read as they pack it.
  bool has_gemms_of_halves() const { return is_gpu(); }
  // GEMMs of few rows are kernels of their own (skinny_gemm.h), which read weights in lines along the K dimension.
  bool has_skinny_gemm() const { return is_gpu(); }
  // The attention kernel suits few queries and a long KV cache. A processor's copies keys for many queries.
  bool has_decode_attention() const { return is_gpu(); }
  // Kernels run on the processors of the machine, which the ranks there share.
  bool computes_on_processors() const { return !is_gpu(); }
  // A recipe may say for which architecture kernels are compiled (device_architecture).
  bool takes_architecture() const { return is_gpu(); }
  // What GEMMs multiply operands of a type as, by the names in data sheets ("bf16", "fp8"): as a wider one where the
  // device has no instruction.
  std::string multiplied_as(const std::string& operand) const;

  // To the host's memory, one direction, where the device has a memory of its own, and what its GEMMs in bf16 usually
  // reach: figures of the architecture (GpuArchitecture); 0 otherwise.
  double host_bytes_per_second() const;
  double usual_flops_per_second() const;

  // These hold only for the x86 family.
  bool has_avx2() const;    // x86-64-v3 at least: AVX2, FMA, F16C
  bool has_avx512() const;  // x86-64-v4 at least: AVX-512 F, BW, CD, DQ, VL
  bool has_avx512_bf16() const;
  bool has_amx_bf16() const;  // besides AVX-512 BF16, and this process may use the tiles

  // "x86:x86-64-v4:avx512bf16,gfni:64", equal for equal targets and only for those.
  std::string text() const;

  bool operator==(const Target&) const = default;
};

// A GPU target of the architecture, as its own device or imitated. Throws as gpu_architecture() does.
Target gpu_target(std::string_view processor, bool emulated = false);

// "x86", "nvptx", "amdgpu", "emulator".
std::string_view target_family_name(Target::Family family);

}  // namespace causeway::device
