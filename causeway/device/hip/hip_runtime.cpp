#include "causeway/device/hip/hip_runtime.h"

#include "causeway/base/error.h"
#include "causeway/device/vendor_library.h"

namespace causeway::device {
namespace {

constexpr const char* kWhere = "hip";
constexpr const char* kInstall =
    "Install AMD's driver and the HIP runtime of ROCm 6.0 or newer (package hip-runtime-amd). In a container, pass in "
    "/dev/kfd and /dev/dri.";

}  // namespace

std::string HipRuntime::version_text() const {
  return fmt::format("{}.{}", version / 10000000, version % 10000000 / 100000);
}

std::string HipRuntime::name_of(Result result) const {
  const char* text = error_name(result);
  return text == nullptr ? fmt::format("error {}", static_cast<int>(result)) : text;
}

std::string HipRuntime::text_of(Result result) const {
  const char* text = error_string(result);
  return text == nullptr ? "no description" : text;
}

std::shared_ptr<const HipRuntime> HipRuntime::open(std::span<const std::string> libraries) {
  const VendorLibrary library(libraries, kWhere, kInstall);
  auto runtime = std::make_shared<HipRuntime>();
  HipRuntime& r = *runtime;
  library.bind(r.init, "hipInit");
  library.bind(r.runtime_version, "hipRuntimeGetVersion");
  library.bind(r.error_name, "hipGetErrorName");
  library.bind(r.error_string, "hipGetErrorString");
  library.bind(r.device_count, "hipGetDeviceCount");
  library.bind(r.device_properties, "hipGetDevicePropertiesR0600");
  library.bind(r.set_device, "hipSetDevice");
  library.bind(r.memory_info, "hipMemGetInfo");
  library.bind(r.memory_allocate, "hipMalloc");
  library.bind(r.memory_free, "hipFree");
  library.bind(r.host_register, "hipHostRegister");
  library.bind(r.host_unregister, "hipHostUnregister");
  library.bind(r.copy, "hipMemcpyAsync");
  library.bind(r.fill_bytes, "hipMemsetAsync");
  library.bind(r.module_load, "hipModuleLoadData");
  library.bind(r.module_unload, "hipModuleUnload");
  library.bind(r.module_function, "hipModuleGetFunction");
  library.bind(r.function_attribute, "hipFuncGetAttribute");
  library.bind(r.launch, "hipModuleLaunchKernel");
  library.bind(r.stream_create, "hipStreamCreateWithFlags");
  library.bind(r.stream_destroy, "hipStreamDestroy");
  library.bind(r.stream_synchronize, "hipStreamSynchronize");
  library.bind(r.stream_wait_event, "hipStreamWaitEvent");
  library.bind(r.stream_begin_capture, "hipStreamBeginCapture");
  library.bind(r.stream_end_capture, "hipStreamEndCapture");
  library.bind(r.graph_instantiate, "hipGraphInstantiateWithFlags");
  library.bind(r.graph_launch, "hipGraphLaunch");
  library.bind(r.graph_executable_destroy, "hipGraphExecDestroy");
  library.bind(r.graph_destroy, "hipGraphDestroy");
  library.bind(r.event_create, "hipEventCreateWithFlags");
  library.bind(r.event_destroy, "hipEventDestroy");
  library.bind(r.event_record, "hipEventRecord");
  library.bind(r.event_synchronize, "hipEventSynchronize");
  library.bind(r.event_query, "hipEventQuery");
  library.bind(r.event_elapsed_time, "hipEventElapsedTime");

  const Result result = r.init(0);
  if (result == kNoDevice) {
    throw Error(ErrorKind::kNotFound, "the HIP runtime finds no GPU", kWhere,
                "Look whether `rocminfo` lists one, whether HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES hides it, and "
                "whether this user may open /dev/kfd (groups render and video).");
  }
  if (result != kSuccess) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the HIP runtime does not start: {} ({})", r.name_of(result), r.text_of(result)), kWhere,
                result == kInsufficientDriver ? "The kernel driver is older than the runtime: update amdgpu."
                                              : "`rocminfo` and the kernel's log (`dmesg`) say more.");
  }
  r.runtime_version(&r.version);
  return runtime;
}

}  // namespace causeway::device
