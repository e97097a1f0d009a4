// An AMD GPU through the HIP runtime (libamdhip64 of ROCm 6.0 or newer), needed at run time alone.
//
// Unproven: written after the HIP API reference and tested against a stand-in for the runtime's library; it has not run
// on a GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "causeway/device/gpu_device.h"
#include "causeway/device/hip/hip_queues.h"

namespace causeway::device {

struct HipOptions {
  int index = 0;  // as the runtime counts: HIP_VISIBLE_DEVICES applies
  // Tried in turn.
  std::vector<std::string> libraries = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                                        "/opt/rocm/lib/libamdhip64.so"};
};

class HipDevice : public GpuDevice {
 public:
  // Throws Error: kNotFound without a runtime or such a GPU, kUnsupported for an old runtime or an architecture that
  // kernels are not made for. The hint says what to do.
  explicit HipDevice(const HipOptions& options = {});

  // How many GPUs the runtime shows. Throws as the constructor does where there is no usable runtime.
  static int count(const std::vector<std::string>& libraries = HipOptions().libraries);

 private:
  struct Opened {
    std::shared_ptr<HipQueues> queues;
    std::string target;
    GpuInfo info;
  };
  static Opened open(const HipOptions& options);
  explicit HipDevice(const Opened& opened);
};

}  // namespace causeway::device
