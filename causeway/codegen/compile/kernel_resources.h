// What a compiled GPU kernel takes of a multiprocessor: registers, spills, stack, shared memory. AMD's code objects say
// it themselves (metadata note, code object v3 and later); for NVIDIA, the toolkit's ptxas is asked, as the driver's
// own assembler says nothing before it runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/device/gpu_architecture.h"
#include "causeway/device/target.h"

namespace causeway::codegen {

struct KernelResources {
  std::string kernel;
  int registers = 0;               // of one thread (AMD: one lane's vector registers, accumulation registers included)
  int accumulation_registers = 0;  // AMD
  int scalar_registers = 0;        // AMD, of one wave
  int shared_bytes = 0;            // static: beyond what a launch asks for
  int spill_bytes = 0;             // of one thread; written, where the tool counts stores and loads apart
  int stack_bytes = 0;             // of one thread
  bool exported = false;           // the runtime can find it by name
  // Warnings about the kernel's code. NVIDIA's C75xx notes say that matrix instructions run one after the other.
  std::vector<std::string> notes;

  bool operator==(const KernelResources&) const = default;
};

// The kernels of an image that compile_module() gave, sorted by name. Nothing for targets without such limits (x86, the
// emulator) and, for NVIDIA, where find_ptxas() finds none. Throws
// Error(kInvalidArgument) when ptxas refuses the text and Error(kCorrupt) when an AMD image is damaged.
std::optional<std::vector<KernelResources>> kernel_resources(const std::string& image, const Target& target);

// How many thread blocks of `threads` threads fit on one multiprocessor (compute unit) at a time, by registers, shared
// memory (`shared_bytes` is what a launch asks for beyond the kernel's own) and waves. NVIDIA, "CUDA Occupancy
// Calculator"; LLVM, AMDGPUBaseInfo, for CDNA 2 and 3.
int resident_blocks(const KernelResources& kernel, int threads, int shared_bytes, const GpuArchitecture& architecture);

// Reads what `ptxas -v` prints.
std::vector<KernelResources> parse_ptxas_report(const std::string& report);

// On PATH, then in the toolkit's usual place, then in Python packages (causeway/base/python_packages.h); else empty.
std::string find_ptxas();
// What to do where it is not found.
std::string_view how_to_get_ptxas();

}  // namespace causeway::codegen
