// Devices by name, as recipes and commands give them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/device/cuda/cuda_device.h"
#include "causeway/device/device.h"
#include "causeway/device/hip/hip_device.h"
#include "causeway/device/target.h"

namespace causeway::device {

// Where the vendors' libraries are looked for.
struct DeviceLibraries {
  std::string cuda = CudaOptions().library;
  std::vector<std::string> hip = HipOptions().libraries;
};

// "auto"             the first usable of: NVIDIA's GPUs, AMD's GPUs, the processor; the debug log says which
// "cpu"              the processor
// "cpu:x86-64-v3"    the same with the kernels of that level, of those up to its own
// "cuda", "cuda:1"   an NVIDIA GPU: the first, or the one of that number as its driver counts
// "hip", "hip:1"     an AMD GPU, likewise
// "emulator:sm_90a"  a GPU of that architecture, imitated on the processor: exact and very slow
// `architecture`: what kernels are compiled for, "sm_80", "sm_90a", "gfx942"; empty: the best that the device has.
// "auto" then takes the first GPU that runs it. Throws Error(kInvalidArgument) for other names, with the nearest one,
// and for an architecture that is not the device's; and as the devices' constructors do.
std::shared_ptr<Device> open_device(const std::string& spec, const DeviceLibraries& libraries = {},
                                    const std::string& architecture = {});
// Throws Error(kInvalidArgument) when kernels of the target are not of this architecture, if it is not empty. `spec` is
// the device's name.
void require_architecture(const Target& target, const std::string& architecture, const std::string& spec);

// The device that a process works with which is one of several on its machine, the `local_rank`-th from 0: GPUs that
// `device` does not number go to them in their order ("cuda": "cuda:1"). A launcher that shows each process one GPU has
// done so already. `architecture`: what kernels are compiled for, or empty; "auto" then is a GPU of the vendor that has
// it. Throws Error(kInvalidArgument) where none is left, and for an architecture that is not known.
std::string device_of_local_rank(const std::string& device, std::optional<int> local_rank,
                                 const std::string& architecture = {}, const DeviceLibraries& libraries = {});

// What kernels are compiled for on a device that need not be here: "cuda:sm_90a", "hip:gfx942", "emulator:gfx942",
// "cpu". Throws Error(kInvalidArgument) for other names.
Target parse_target(const std::string& spec);

// What the maker calls it: "NVIDIA H200", a processor's model name; the device's own name for an emulator.
std::string product_name(Device& device);

struct DeviceDescription {
  std::string spec;                               // what open_device() takes
  std::string product;                            // "NVIDIA H200"; empty when there is none
  std::string architecture;                       // as the vendor names it: "sm_90", "gfx942:sramecc+:xnack-"
  std::vector<std::string> kernel_architectures;  // of a GPU: what kernels may be compiled for, the best first
  std::string software;                           // "driver for CUDA 13.0"
  int parallel_units = 0;                         // threads, multiprocessors or compute units
  int64_t memory_total = 0;                       // bytes
  int64_t memory_free = 0;
  bool found = false;  // there is a driver and a device; it may still not be usable
  bool usable = false;
  std::string problem;  // why it is not usable
  std::string advice;   // and what to do
};

// The processor; then every GPU that a driver shows, each opened for a moment, or one entry for a vendor ("cuda",
// "hip") that says why there is none. Does not throw.
std::vector<DeviceDescription> describe_devices(const DeviceLibraries& libraries = {});

}  // namespace causeway::device
