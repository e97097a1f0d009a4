// The part of AMD's HIP runtime that is used here, declared after the HIP API reference (ROCm 6.0) so that nothing of
// ROCm is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::device {

// hipDeviceProp_tR0600, of which these members are read. Later releases fill the reserved space behind them.
struct HipDeviceProperties {
  char name[256];
  std::byte before_memory[32];
  size_t total_memory;
  size_t shared_bytes_per_block;
  std::byte before_units[84];
  int multiprocessors;
  std::byte before_architecture[768];
  char architecture[256];  // gcnArchName, "gfx942:sramecc+:xnack-"
  std::byte behind[2680];
};
static_assert(offsetof(HipDeviceProperties, total_memory) == 288);
static_assert(offsetof(HipDeviceProperties, shared_bytes_per_block) == 296);
static_assert(offsetof(HipDeviceProperties, multiprocessors) == 388);
static_assert(offsetof(HipDeviceProperties, architecture) == 1160);

// One table of the runtime's functions. Handles are void*.
struct HipRuntime {
  enum Result : int {
    kSuccess = 0,
    kOutOfMemory = 2,
    kInsufficientDriver = 35,
    kNoDevice = 100,
    kEccUncorrectable = 214,
    kNotFound = 500,
    kNotReady = 600,
    kIllegalAddress = 700,
    kLaunchTimeout = 702,
    kAssert = 710,
    kLaunchFailure = 719,
  };
  enum FunctionAttribute : int { kMaxThreadsPerBlock = 0, kSharedSizeBytes = 1 };
  enum CopyKind : int { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 };
  enum CaptureMode : int { kCaptureThreadLocal = 1 };
  enum Flags : unsigned { kStreamNonBlocking = 1, kEventDisableTiming = 2 };

  Result (*init)(unsigned flags) = nullptr;
  Result (*runtime_version)(int* version) = nullptr;
  const char* (*error_name)(Result error) = nullptr;
  const char* (*error_string)(Result error) = nullptr;

  Result (*device_count)(int* count) = nullptr;
  Result (*device_properties)(HipDeviceProperties* properties, int device) = nullptr;
  Result (*set_device)(int device) = nullptr;
  Result (*memory_info)(size_t* free, size_t* total) = nullptr;
  Result (*memory_allocate)(void** memory, size_t bytes) = nullptr;
  Result (*memory_free)(void* memory) = nullptr;
  Result (*host_register)(void* memory, size_t bytes, unsigned flags) = nullptr;
  Result (*host_unregister)(void* memory) = nullptr;
  Result (*copy)(void* to, const void* from, size_t bytes, CopyKind kind, void* stream) = nullptr;
  Result (*fill_bytes)(void* to, int value, size_t bytes, void* stream) = nullptr;

  Result (*module_load)(void** module, const void* image) = nullptr;
  Result (*module_unload)(void* module) = nullptr;
  Result (*module_function)(void** function, void* module, const char* name) = nullptr;
  Result (*function_attribute)(int* value, FunctionAttribute attribute, void* function) = nullptr;
  Result (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters,
                   void** extra) = nullptr;

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

  int version = 0;  // 60241134: HIP 6.2.41134

  // "6.2".
  std::string version_text() const;
  std::string name_of(Result result) const;
  std::string text_of(Result result) const;

  // Opens the first of `libraries` that is there and starts the runtime. Throws Error with what to do: kNotFound when
  // there is no runtime or no GPU, else kUnsupported.
  static std::shared_ptr<const HipRuntime> open(std::span<const std::string> libraries);
};

}  // namespace causeway::device
