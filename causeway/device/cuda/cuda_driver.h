// The part of NVIDIA's driver API that is used here, declared after the CUDA Driver API reference (CUDA 12.0) so that
// nothing of CUDA is needed to build, and libcuda alone to run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::device {

// Of open_user_cache(): where the driver keeps machine code.
inline constexpr char kCudaCacheName[] = "nvidia";

// Tells the driver, which has not started yet, where to keep the machine code that it makes of PTX: beside our kernels,
// where both are found and emptied together; images for containers often tell it to keep none. It loads that code
// unseen, so where others could have written any of it, it keeps none, and a warning says why. Sets environment
// variables: no other thread may read them meanwhile.
void choose_cuda_cache();

struct CudaLaunchAttribute {
  enum Id : int { kClusterDimension = 4, kProgrammaticStreamSerialization = 6, kPreferredSharedMemoryCarveout = 14 };
  Id id = kClusterDimension;
  char pad[4] = {};
  union Value {
    char bytes[64] = {};
    struct {
      unsigned x, y, z;
    } cluster;
    int allowed;              // kProgrammaticStreamSerialization
    unsigned shared_percent;  // kPreferredSharedMemoryCarveout: of the most that there can be
  } value;
};
static_assert(sizeof(CudaLaunchAttribute) == 72);

struct CudaLaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  void* stream = nullptr;
  CudaLaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(CudaLaunchConfig) == 56);

// One table of the driver's functions. Handles are void*, addresses in device memory uint64_t.
struct CudaDriver {
  enum Result : int {
    kSuccess = 0,
    kOutOfMemory = 2,
    kStubLibrary = 34,
    kDeviceUnavailable = 46,
    kNoDevice = 100,
    kEccUncorrectable = 214,
    kInvalidPtx = 218,
    kNvlinkUncorrectable = 220,
    kUnsupportedPtxVersion = 222,
    kNotFound = 500,
    kNotReady = 600,
    kIllegalAddress = 700,
    kLaunchTimeout = 702,
    kAssert = 710,
    kHardwareStackError = 714,
    kLaunchFailed = 719,
    kSystemNotReady = 802,
    kSystemDriverMismatch = 803,
  };
  enum DeviceAttribute : int {
    kMultiprocessorCount = 16,
    kComputeMode = 20,
    kComputeCapabilityMajor = 75,
    kComputeCapabilityMinor = 76,
    kMaxSharedMemoryPerBlockOptin = 97,
  };
  enum ComputeMode : int { kModeDefault = 0, kModeProhibited = 2, kModeExclusiveProcess = 3 };
  enum FunctionAttribute : int { kMaxThreadsPerBlock = 0, kSharedSizeBytes = 1, kMaxDynamicSharedSizeBytes = 8 };
  enum JitOption : int { kInfoLog = 3, kInfoLogBytes = 4, kErrorLog = 5, kErrorLogBytes = 6, kLogVerbose = 12 };
  enum CaptureMode : int { kCaptureThreadLocal = 1 };
  enum Flags : unsigned { kStreamNonBlocking = 1, kEventDisableTiming = 2 };
  enum TensorMapType : int { kUint8 = 0, kUint16 = 1, kUint32 = 2, kTfloat32 = 11 };
  enum TensorMapPromotion : int { kPromote256Bytes = 3 };

  Result (*init)(unsigned flags) = nullptr;
  Result (*driver_version)(int* version) = nullptr;
  Result (*error_name)(Result error, const char** text) = nullptr;
  Result (*error_string)(Result error, const char** text) = nullptr;

  Result (*device_count)(int* count) = nullptr;
  Result (*device_get)(int* device, int index) = nullptr;
  Result (*device_name)(char* name, int bytes, int device) = nullptr;
  Result (*device_attribute)(int* value, DeviceAttribute attribute, int device) = nullptr;
  Result (*primary_context_retain)(void** context, int device) = nullptr;
  Result (*primary_context_release)(int device) = nullptr;
  Result (*context_set_current)(void* context) = nullptr;

  Result (*memory_info)(size_t* free, size_t* total) = nullptr;
  Result (*memory_allocate)(uint64_t* memory, size_t bytes) = nullptr;
  Result (*memory_free)(uint64_t memory) = nullptr;
  Result (*host_register)(void* memory, size_t bytes, unsigned flags) = nullptr;
  Result (*host_unregister)(void* memory) = nullptr;
  Result (*copy_to_device)(uint64_t to, const void* from, size_t bytes, void* stream) = nullptr;
  Result (*copy_to_host)(void* to, uint64_t from, size_t bytes, void* stream) = nullptr;
  Result (*copy_on_device)(uint64_t to, uint64_t from, size_t bytes, void* stream) = nullptr;
  Result (*fill_bytes)(uint64_t to, unsigned char value, size_t bytes, void* stream) = nullptr;

  // What processes of one machine give each other of their memory: the handle is passed by value.
  struct MemoryHandle {
    char bytes[64];
  };
  enum MemoryFlags : unsigned { kEnablePeerAccess = 1 };
  Result (*memory_export)(MemoryHandle* handle, uint64_t memory) = nullptr;
  Result (*memory_import)(uint64_t* memory, MemoryHandle handle, unsigned flags) = nullptr;
  Result (*imported_close)(uint64_t memory) = nullptr;
  // In a stream, of words of four bytes. Absent in drivers that cannot.
  enum WordFlags : unsigned { kWaitEqual = 1, kWriteDefault = 0 };
  Result (*stream_wait_word)(void* stream, uint64_t word, uint32_t value, unsigned flags) = nullptr;
  Result (*stream_write_word)(void* stream, uint64_t word, uint32_t value, unsigned flags) = nullptr;

  Result (*library_load)(void** library, const void* image, JitOption* names, void** values, unsigned options,
                         int* library_names, void** library_values, unsigned library_options) = nullptr;
  Result (*library_unload)(void* library) = nullptr;
  Result (*library_module)(void** module, void* library) = nullptr;
  Result (*module_function)(void** function, void* module, const char* name) = nullptr;
  Result (*function_attribute)(int* value, FunctionAttribute attribute, void* function) = nullptr;
  Result (*function_set_attribute)(void* function, FunctionAttribute attribute, int value) = nullptr;
  // Since CUDA 12.4; null in drivers before.
  Result (*function_parameter)(void* function, size_t index, size_t* offset, size_t* bytes) = nullptr;
  Result (*launch)(const CudaLaunchConfig* config, void* function, void** parameters, void** extra) = nullptr;
  Result (*tensor_map_encode)(void* map, TensorMapType type, uint32_t rank, void* address, const uint64_t* sizes,
                              const uint64_t* stride_bytes, const uint32_t* box, const uint32_t* element_strides,
                              int interleave, int swizzle, TensorMapPromotion promotion, int fill) = nullptr;

  Result (*stream_create)(void** stream, unsigned flags) = nullptr;
  Result (*stream_destroy)(void* stream) = nullptr;
  Result (*stream_synchronize)(void* stream) = nullptr;
  Result (*stream_wait_event)(void* stream, void* event, unsigned flags) = nullptr;
  Result (*stream_begin_capture)(void* stream, CaptureMode mode) = nullptr;
  Result (*stream_end_capture)(void* stream, void** graph) = nullptr;
  Result (*graph_instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  Result (*graph_launch)(void* executable, void* stream) = nullptr;
  Result (*graph_executable_destroy)(void* executable) = nullptr;
  Result (*graph_destroy)(void* graph) = nullptr;
  Result (*event_create)(void** event, unsigned flags) = nullptr;
  Result (*event_destroy)(void* event) = nullptr;
  Result (*event_record)(void* event, void* stream) = nullptr;
  Result (*event_synchronize)(void* event) = nullptr;
  Result (*event_query)(void* event) = nullptr;
  Result (*event_elapsed_time)(float* milliseconds, void* from, void* to) = nullptr;

  int version = 0;  // 12040: the driver serves CUDA 12.4
  // From which versions on launches that begin early may be recorded, and launches say how much shared memory they
  // want.
  static constexpr int kRecordsEarlyLaunches = 12030, kDividesMemoryByLaunch = 12080;

  // "12.4".
  std::string version_text() const;
  // "CUDA_ERROR_ILLEGAL_ADDRESS" and the driver's sentence on it.
  std::string name_of(Result result) const;
  std::string text_of(Result result) const;

  // Opens the library (a name for the system's loader, or a path), starts the driver and checks its version. Throws
  // Error with what to do: kNotFound when there is no driver or no GPU, else kUnsupported. The first call sets
  // environment variables of the driver's: no other thread may read the environment meanwhile.
  static std::shared_ptr<const CudaDriver> open(const std::string& library);
};

}  // namespace causeway::device
