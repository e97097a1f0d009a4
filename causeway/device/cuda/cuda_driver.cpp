#include "causeway/device/cuda/cuda_driver.h"

#include <array>
#include <cstdlib>
#include <mutex>

#include "causeway/base/error.h"
#include "causeway/base/log.h"
#include "causeway/base/user_cache.h"
#include "causeway/device/vendor_library.h"

namespace causeway::device {
namespace {

// What PTX 8.0, the language of our images, was new with.
constexpr int kOldestVersion = 12000;
constexpr const char* kWhere = "cuda";
constexpr const char* kInstall =
    "Install NVIDIA's driver, version 525 (CUDA 12.0) or newer; nothing else of CUDA is needed. In a container, start "
    "it with access to the GPUs (`--gpus all`).";

[[noreturn]] void refuse_to_start(const CudaDriver& driver, CudaDriver::Result result) {
  const std::string what =
      fmt::format("the NVIDIA driver does not start: {} ({})", driver.name_of(result), driver.text_of(result));
  switch (result) {
    case CudaDriver::kNoDevice:
      throw Error(ErrorKind::kNotFound, "the NVIDIA driver finds no GPU", kWhere,
                  "Look whether `nvidia-smi` lists one, and whether CUDA_VISIBLE_DEVICES hides it.");
    case CudaDriver::kStubLibrary:
      throw Error(ErrorKind::kUnsupported, what, kWhere,
                  "The libcuda.so.1 found first is the CUDA toolkit's stub: take its folder out of LD_LIBRARY_PATH.");
    case CudaDriver::kSystemDriverMismatch:
      throw Error(ErrorKind::kUnsupported, what, kWhere,
                  "The driver was updated while its kernel module stayed loaded: reboot the machine.");
    case CudaDriver::kSystemNotReady:
      throw Error(ErrorKind::kUnsupported, what, kWhere,
                  "On machines with NVSwitch, nvidia-fabricmanager must run, in the driver's version.");
    default:
      throw Error(ErrorKind::kUnsupported, what, kWhere, "`nvidia-smi` and the kernel's log (`dmesg`) say more.");
  }
}

// What the driver reads from the environment when it starts, set whatever was there, so that a start is the same
// everywhere. Code goes to a GPU when it is needed there: loaded eagerly, as drivers before CUDA 12.2 do, each library
// would be assembled for all GPUs of the process.
void set_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    setenv("CUDA_MODULE_LOADING", "LAZY", 1);
    choose_cuda_cache();
  });
}

}  // namespace

void choose_cuda_cache() {
  UserCache cache = open_user_cache(kCudaCacheName);
  try {
    if (cache.directory) cache.directory->check_everything_below();
  } catch (const Error& error) {
    cache = {{}, error.what()};
  }
  setenv("CUDA_CACHE_DISABLE", cache.directory ? "0" : "1", 1);
  if (cache.directory) {
    setenv("CUDA_CACHE_PATH", cache.directory->path().c_str(), 1);
  } else {
    unsetenv("CUDA_CACHE_PATH");
  }
  if (!cache.problem.empty())
    log_warning("what NVIDIA's driver makes of kernels is kept {}: {}",
                cache.directory ? "in " + cache.directory->path().string() : "for this run alone", cache.problem);
}

std::string CudaDriver::version_text() const { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string CudaDriver::name_of(Result result) const {
  const char* text = nullptr;
  if (error_name(result, &text) != kSuccess || text == nullptr)
    return fmt::format("error {}", static_cast<int>(result));
  return text;
}

std::string CudaDriver::text_of(Result result) const {
  const char* text = nullptr;
  return error_string(result, &text) != kSuccess || text == nullptr ? "no description" : text;
}

std::shared_ptr<const CudaDriver> CudaDriver::open(const std::string& name) {
  const VendorLibrary library(std::array{name}, kWhere, kInstall);
  auto driver = std::make_shared<CudaDriver>();
  CudaDriver& d = *driver;
  library.bind(d.init, "cuInit");
  library.bind(d.driver_version, "cuDriverGetVersion");
  library.bind(d.error_name, "cuGetErrorName");
  library.bind(d.error_string, "cuGetErrorString");
  set_environment();
  if (const Result result = d.init(0); result != kSuccess) refuse_to_start(d, result);
  if (const Result result = d.driver_version(&d.version); result != kSuccess) refuse_to_start(d, result);
  if (d.version < kOldestVersion) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the NVIDIA driver is too old: it serves CUDA {}, and kernels need 12.0", d.version_text()),
                kWhere, kInstall);
  }
  library.bind(d.device_count, "cuDeviceGetCount");
  library.bind(d.device_get, "cuDeviceGet");
  library.bind(d.device_name, "cuDeviceGetName");
  library.bind(d.device_attribute, "cuDeviceGetAttribute");
  library.bind(d.primary_context_retain, "cuDevicePrimaryCtxRetain");
  library.bind(d.primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  library.bind(d.context_set_current, "cuCtxSetCurrent");
  library.bind(d.memory_info, "cuMemGetInfo_v2");
  library.bind(d.memory_allocate, "cuMemAlloc_v2");
  library.bind(d.memory_free, "cuMemFree_v2");
  library.bind(d.host_register, "cuMemHostRegister_v2");
  library.bind(d.host_unregister, "cuMemHostUnregister");
  library.bind(d.copy_to_device, "cuMemcpyHtoDAsync_v2");
  library.bind(d.copy_to_host, "cuMemcpyDtoHAsync_v2");
  library.bind(d.copy_on_device, "cuMemcpyDtoDAsync_v2");
  library.bind(d.fill_bytes, "cuMemsetD8Async");
  library.bind(d.memory_export, "cuIpcGetMemHandle");
  library.bind(d.memory_import, "cuIpcOpenMemHandle_v2");
  library.bind(d.imported_close, "cuIpcCloseMemHandle");
  library.bind_if_present(d.stream_wait_word, "cuStreamWaitValue32_v2");
  library.bind_if_present(d.stream_write_word, "cuStreamWriteValue32_v2");
  library.bind(d.library_load, "cuLibraryLoadData");
  library.bind(d.library_unload, "cuLibraryUnload");
  library.bind(d.library_module, "cuLibraryGetModule");
  library.bind(d.module_function, "cuModuleGetFunction");
  library.bind(d.function_attribute, "cuFuncGetAttribute");
  library.bind(d.function_set_attribute, "cuFuncSetAttribute");
  library.bind_if_present(d.function_parameter, "cuFuncGetParamInfo");
  library.bind(d.launch, "cuLaunchKernelEx");
  library.bind(d.tensor_map_encode, "cuTensorMapEncodeTiled");
  library.bind(d.stream_create, "cuStreamCreate");
  library.bind(d.stream_destroy, "cuStreamDestroy_v2");
  library.bind(d.stream_synchronize, "cuStreamSynchronize");
  library.bind(d.stream_wait_event, "cuStreamWaitEvent");
  library.bind(d.stream_begin_capture, "cuStreamBeginCapture_v2");
  library.bind(d.stream_end_capture, "cuStreamEndCapture");
  library.bind(d.graph_instantiate, "cuGraphInstantiateWithFlags");
  library.bind(d.graph_launch, "cuGraphLaunch");
  library.bind(d.graph_executable_destroy, "cuGraphExecDestroy");
  library.bind(d.graph_destroy, "cuGraphDestroy");
  library.bind(d.event_create, "cuEventCreate");
  library.bind(d.event_destroy, "cuEventDestroy_v2");
  library.bind(d.event_record, "cuEventRecord");
  library.bind(d.event_synchronize, "cuEventSynchronize");
  library.bind(d.event_query, "cuEventQuery");
  library.bind(d.event_elapsed_time, "cuEventElapsedTime");
  return driver;
}

}  // namespace causeway::device
