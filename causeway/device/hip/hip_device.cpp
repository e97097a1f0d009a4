#include "causeway/device/hip/hip_device.h"

#include <cstdint>

#include "causeway/base/error.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {
namespace {

constexpr int64_t kMaxBlocks = INT32_MAX;
// A dispatch counts its work items, not its groups, in 32 bits (HSA runtime specification, kernel dispatch packet).
constexpr int64_t kMaxThreads = UINT32_MAX;

int device_count(const HipRuntime& runtime) {
  int count = 0;
  const HipRuntime::Result result = runtime.device_count(&count);
  if (result != HipRuntime::kSuccess || count == 0) {
    throw Error(ErrorKind::kNotFound, "the HIP runtime finds no GPU", "hip",
                "Look whether `rocminfo` lists one, whether HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides it, and "
                "whether this user may open /dev/kfd (groups render and video).");
  }
  return count;
}

// "gfx942:sramecc+:xnack-" names the architecture and settings; kernels are made for any setting.
std::string target_for(const std::string& processor, const std::string& product, const std::string& where) {
  const std::string architecture = processor.substr(0, processor.find(':'));
  for (const GpuArchitecture& known : gpu_architectures())
    if (known.driver == "hip" && known.processor == architecture) return architecture;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("{} is a {}, which kernels are not made for", product,
                          architecture.empty() ? "GPU of unknown architecture" : architecture),
              where, fmt::format("Supported: {}.", gpu_architecture_names(true, "hip")));
}

}  // namespace

HipDevice::Opened HipDevice::open(const HipOptions& options) {
  const std::shared_ptr<const HipRuntime> runtime = HipRuntime::open(options.libraries);
  const int count = device_count(*runtime);
  const std::string name = fmt::format("hip:{}", options.index);
  if (options.index < 0 || options.index >= count) {
    throw Error(ErrorKind::kNotFound, "there is no such GPU", name,
                count == 1 ? "The runtime shows one: hip:0."
                           : fmt::format("The runtime shows {}: hip:0 to hip:{}.", count, count - 1));
  }
  HipDeviceProperties properties = {};
  if (const HipRuntime::Result result = runtime->device_properties(&properties, options.index);
      result != HipRuntime::kSuccess) {
    throw Error(ErrorKind::kResource,
                fmt::format("the runtime does not answer for this GPU: {} ({})", runtime->name_of(result),
                            runtime->text_of(result)),
                name, "`rocminfo` and the kernel's log (`dmesg`) say more.");
  }
  Opened opened;
  opened.info.product = properties.name;
  opened.info.processor = properties.architecture;
  opened.info.software = fmt::format("HIP {}", runtime->version_text());
  opened.info.parallel_units = properties.multiprocessors;
  opened.info.shared_bytes = static_cast<int>(properties.shared_bytes_per_block);
  opened.target = target_for(opened.info.processor, opened.info.product, name);
  opened.info.architectures = {opened.target};
  opened.queues = std::make_shared<HipQueues>(runtime, name, options.index);
  return opened;
}

HipDevice::HipDevice(const HipOptions& options) : HipDevice(open(options)) {}

HipDevice::HipDevice(const Opened& opened)
    : GpuDevice(opened.queues, gpu_target(opened.target), opened.info, kMaxBlocks, kMaxThreads) {}

int HipDevice::count(const std::vector<std::string>& libraries) { return device_count(*HipRuntime::open(libraries)); }

}  // namespace causeway::device
