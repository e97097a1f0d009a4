// The functions of libcuda.so.1 that CudaDevice uses, without a GPU.
#include <atomic>
#include <thread>

#include "causeway/device/cuda/cuda_driver.h"
#include "tests/device/gpu_stand_in.h"

using causeway::device::CudaLaunchConfig;
using Result = int;

namespace {

// A whole program that opens this library as its driver names the product in the environment.
StandIn initial_state() {
  StandIn initial;
  if (const char* product = std::getenv("CAUSEWAY_STAND_IN_PRODUCT"); product != nullptr) {
    initial.product = product;
    initial.computes_nothing = true;
    initial.memory_total = size_t{1} << 30;
  }
  return initial;
}

// Never destroyed: a program gives its memory back as it ends, after this library's own ends.
StandIn& state = *new StandIn(initial_state());
int context_tag = 0;
thread_local void* current = nullptr;

// Every call but these needs a context, and fails once a kernel has crashed.
Result ready() {
  if (current != &context_tag) return 201;
  return state.fault;
}

}  // namespace

extern "C" {

StandIn* stand_in() { return &state; }

Result cuInit(unsigned) { return state.init_result; }
Result cuDriverGetVersion(int* version) { return *version = state.version, 0; }
Result cuGetErrorName(int error, const char** text) {
  switch (error) {
    case 1:
      return *text = "CUDA_ERROR_INVALID_VALUE", 0;
    case 218:
      return *text = "CUDA_ERROR_INVALID_PTX", 0;
    case 700:
      return *text = "CUDA_ERROR_ILLEGAL_ADDRESS", 0;
    case 803:
      return *text = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 0;
    default:
      return *text = nullptr, 1;
  }
}
Result cuGetErrorString(int error, const char** text) { return *text = "as the stand-in says", 0; }

Result cuDeviceGetCount(int* count) { return *count = state.device_count, 0; }
Result cuDeviceGet(int* device, int index) { return *device = 100 + index, 0; }
Result cuDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, state.product.c_str(), static_cast<size_t>(bytes));
  return 0;
}
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 16   ? state.units
           : attribute == 20 ? state.compute_mode
           : attribute == 75 ? state.major
           : attribute == 76 ? state.minor
           : attribute == 97 ? state.shared_bytes
                             : -1;
  return 0;
}
Result cuDevicePrimaryCtxRetain(void** context, int) {
  if (state.open_result != 0) return state.open_result;
  ++state.contexts;
  return *context = &context_tag, 0;
}
Result cuDevicePrimaryCtxRelease_v2(int) { return --state.contexts, 0; }
Result cuCtxSetCurrent(void* context) { return current = context, 0; }

Result cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = state.memory_total - state.memory_used;
  *total = state.memory_total;
  return ready();
}
Result cuMemAlloc_v2(uint64_t* memory, size_t bytes) {
  if (const Result result = ready(); result != 0) return result;
  *memory = reinterpret_cast<uint64_t>(state.allocate(bytes));
  return *memory == 0 ? 2 : 0;
}
Result cuMemFree_v2(uint64_t memory) {
  state.release(reinterpret_cast<void*>(memory));
  return ready();
}
Result cuMemHostRegister_v2(void*, size_t, unsigned) {
  ++state.pinned;
  return ready();
}
Result cuMemHostUnregister(void*) {
  --state.pinned;
  return ready();
}

// Words at once, as another rank may wait for them.
static Result copy(void* to, const void* from, size_t bytes, void* stream) {
  if (const Result result = ready(); result != 0) return result;
  state.enqueue(stream, [=] {
    if (bytes != sizeof(uint32_t)) return static_cast<void>(std::memcpy(to, from, bytes));
    std::atomic_ref(*static_cast<uint32_t*>(to)).store(*static_cast<const uint32_t*>(from));
  });
  return 0;
}
Result cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  return copy(reinterpret_cast<void*>(to), from, bytes, stream);
}
Result cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return copy(to, reinterpret_cast<void*>(from), bytes, stream);
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes, stream);
}
Result cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void* stream) {
  state.enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
  return ready();
}

// A handle holds the address: all processes are this one.
struct MemoryHandle {
  char bytes[64];
};
Result cuIpcGetMemHandle(MemoryHandle* handle, uint64_t memory) {
  if (!state.is_allocated(reinterpret_cast<void*>(memory))) return 1;
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle->bytes, &memory, sizeof memory);
  return ready();
}
Result cuIpcOpenMemHandle_v2(uint64_t* memory, MemoryHandle handle, unsigned flags) {
  if (flags != 1 || state.out_of_reach) return 217;
  std::memcpy(memory, handle.bytes, sizeof *memory);
  state.count_imported(1);
  return ready();
}
Result cuIpcCloseMemHandle(uint64_t) { return state.count_imported(-1), ready(); }
Result cuStreamWaitValue32_v2(void* stream, uint64_t word, uint32_t value, unsigned flags) {
  if (flags != 1) return 1;
  state.enqueue(stream, [=] {
    while (std::atomic_ref(*reinterpret_cast<uint32_t*>(word)).load() != value) std::this_thread::yield();
  });
  return ready();
}
Result cuStreamWriteValue32_v2(void* stream, uint64_t word, uint32_t value, unsigned flags) {
  if (flags != 0) return 1;
  state.enqueue(stream, [=] { std::atomic_ref(*reinterpret_cast<uint32_t*>(word)).store(value); });
  return ready();
}

Result cuLibraryLoadData(void** library, const void* image, int* names, void** values, unsigned options, int*, void**,
                         unsigned) {
  if (const Result result = ready(); result != 0) return result;
  char* info = nullptr;
  char* error = nullptr;
  for (unsigned i = 0; i < options; ++i) {
    if (names[i] == 3) info = static_cast<char*>(values[i]);
    if (names[i] == 5) error = static_cast<char*>(values[i]);
  }
  *library = state.load(static_cast<const char*>(image), "ptx");
  if (*library == nullptr) {
    std::strcpy(error, "ptxas error : line 1 is wrong");
    return 218;
  }
  std::strcpy(info, "ptxas info : Used 40 registers");
  if (static_cast<StandInModule*>(*library)->kernels.contains("serialized"))
    std::strcat(info, "\nptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized");
  return 0;
}
Result cuLibraryGetModule(void** module, void* library) { return *module = library, ready(); }
Result cuLibraryUnload(void* library) {
  delete static_cast<StandInModule*>(library);
  --state.modules;
  return 0;
}
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  auto& kernels = static_cast<StandInModule*>(module)->kernels;
  const auto found = kernels.find(name);
  if (found == kernels.end()) return 500;
  return *function = &found->second, ready();
}
Result cuFuncGetAttribute(int* value, int attribute, void* function) {
  const auto* kernel = static_cast<const StandInKernel*>(function);
  *value = attribute == 0 ? kernel->max_threads : attribute == 1 ? kernel->fixed_shared_bytes : -1;
  return ready();
}
Result cuFuncSetAttribute(void* function, int attribute, int value) {
  auto* kernel = static_cast<StandInKernel*>(function);
  if (attribute != 8 || value + kernel->fixed_shared_bytes > state.shared_bytes) return 1;
  kernel->dynamic_shared_limit = value;
  return ready();
}
Result cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* bytes) {
  if (index != 0) return 1;
  *offset = 0;
  *bytes = static_cast<size_t>(static_cast<const StandInKernel*>(function)->argument_bytes);
  return ready();
}
Result cuLaunchKernelEx(const CudaLaunchConfig* config, void* function, void** parameters, void**) {
  if (const Result result = ready(); result != 0) return result;
  const auto* kernel = static_cast<const StandInKernel*>(function);
  if (static_cast<int>(config->shared_bytes) > kernel->dynamic_shared_limit || !state.is_open(config->stream)) return 1;
  const auto* argument = static_cast<const std::byte*>(parameters[0]);
  StandInLaunch call{kernel->name,
                     config->grid_x,
                     config->block_x,
                     config->shared_bytes,
                     1,
                     {argument, argument + kernel->argument_bytes}};
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const auto& attribute = config->attributes[i];
    if (attribute.id == 4) call.cluster = attribute.value.cluster.x;
    if (attribute.id == 6) call.begins_early = attribute.value.allowed == 1;
    if (attribute.id == 14) call.shared_percent = attribute.value.shared_percent;
  }
  return state.launch(call, config->stream);
}
// Writes what it was given, so that tests can read it back from a launch's arguments.
Result cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* address, const uint64_t* sizes,
                              const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
                              int interleave, int swizzle, int promotion, int fill) {
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || reinterpret_cast<uintptr_t>(address) % 16 != 0) return 1;
  const uint64_t fields[16] = {static_cast<uint64_t>(type),
                               rank,
                               reinterpret_cast<uint64_t>(address),
                               sizes[0],
                               sizes[1],
                               strides[0],
                               box[0],
                               box[1],
                               element_strides[0],
                               element_strides[1],
                               static_cast<uint64_t>(interleave),
                               static_cast<uint64_t>(swizzle),
                               static_cast<uint64_t>(promotion),
                               static_cast<uint64_t>(fill)};
  std::memcpy(map, fields, sizeof fields);
  return 0;
}

Result cuStreamCreate(void** stream, unsigned flags) {
  if (flags != 1) return 1;
  return *stream = state.open_stream(), ready();
}
Result cuStreamDestroy_v2(void* stream) { return state.close_stream(stream), 0; }
Result cuStreamSynchronize(void* stream) { return state.synchronize(stream); }
Result cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  if (flags != 0 || !state.is_open(stream)) return 1;
  const Result result = state.wait_in_stream(stream, event);
  return result != 0 ? result : ready();
}
Result cuStreamBeginCapture_v2(void* stream, int) {
  const Result result = state.begin_capture(stream);
  return result != 0 ? result : ready();
}
Result cuStreamEndCapture(void* stream, void** graph) {
  const Result result = state.end_capture(stream, graph);
  return result != 0 ? result : ready();
}
Result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return *executable = state.instantiate(graph), ready();
}
Result cuGraphLaunch(void* executable, void* stream) {
  state.launch_graph(executable, stream);
  return ready();
}
Result cuGraphExecDestroy(void* executable) { return state.release_graph(executable), 0; }
Result cuGraphDestroy(void* graph) { return state.release_graph(graph), 0; }
Result cuEventCreate(void** event, unsigned flags) {
  if (flags != 0 && flags != 2) return 1;  // timed or not
  ++state.events;
  return *event = new StandInEvent, ready();
}
Result cuEventDestroy_v2(void* event) {
  delete static_cast<StandInEvent*>(event);
  return --state.events, 0;
}
Result cuEventRecord(void* event, void* stream) {
  state.record(event, stream);
  return ready();
}
Result cuEventSynchronize(void* event) { return state.wait(event); }
Result cuEventQuery(void* event) { return state.query(event); }
Result cuEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 2.5f, ready(); }

}  // extern "C"
