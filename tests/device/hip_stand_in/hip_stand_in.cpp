// The functions of libamdhip64.so that HipDevice uses, without a GPU.
#include "causeway/device/hip/hip_runtime.h"
#include "tests/device/gpu_stand_in.h"

using causeway::device::HipDeviceProperties;
using Result = int;

namespace {

StandIn state;
int stream_tag = 0;
thread_local int current = -1;

Result ready() {
  if (current < 0 || current >= state.device_count) return 101;
  return state.fault;
}

}  // namespace

extern "C" {

StandIn* stand_in() { return &state; }

Result hipInit(unsigned) { return state.init_result; }
Result hipRuntimeGetVersion(int* version) { return *version = state.version, 0; }
const char* hipGetErrorName(int error) {
  return error == 2     ? "hipErrorOutOfMemory"
         : error == 700 ? "hipErrorIllegalAddress"
         : error == 35  ? "hipErrorInsufficientDriver"
                        : "hipErrorUnknown";
}
const char* hipGetErrorString(int) { return "as the stand-in says"; }

Result hipGetDeviceCount(int* count) { return *count = state.device_count, 0; }
Result hipGetDevicePropertiesR0600(HipDeviceProperties* properties, int device) {
  if (device >= state.device_count) return 101;
  std::strcpy(properties->name, state.product.c_str());
  std::strcpy(properties->architecture, state.architecture.c_str());
  properties->total_memory = state.memory_total;
  properties->shared_bytes_per_block = static_cast<size_t>(state.shared_bytes);
  properties->multiprocessors = state.units;
  return 0;
}
Result hipSetDevice(int device) {
  current = device;
  return ready();
}
Result hipMemGetInfo(size_t* free, size_t* total) {
  *free = state.memory_total - state.memory_used;
  *total = state.memory_total;
  return ready();
}
Result hipMalloc(void** memory, size_t bytes) {
  if (const Result result = ready(); result != 0) return result;
  *memory = state.allocate(bytes);
  return *memory == nullptr ? 2 : 0;
}
Result hipFree(void* memory) {
  state.release(memory);
  return ready();
}
Result hipHostMalloc(void** memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  ++state.pinned;
  return ready();
}
Result hipHostFree(void* memory) {
  std::free(memory);
  --state.pinned;
  return ready();
}
Result hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (kind < 1 || kind > 3 || stream != &stream_tag) return 1;
  state.enqueue([=] { std::memcpy(to, from, bytes); });
  return ready();
}
Result hipMemsetAsync(void* to, int value, size_t bytes, void*) {
  state.enqueue([=] { std::memset(to, value, bytes); });
  return ready();
}

Result hipModuleLoadData(void** module, const void* image) {
  if (const Result result = ready(); result != 0) return result;
  *module = state.load(static_cast<const char*>(image), "object");
  return *module == nullptr ? 200 : 0;
}
Result hipModuleUnload(void* module) {
  delete static_cast<StandInModule*>(module);
  --state.modules;
  return 0;
}
Result hipModuleGetFunction(void** function, void* module, const char* name) {
  auto& kernels = static_cast<StandInModule*>(module)->kernels;
  const auto found = kernels.find(name);
  if (found == kernels.end()) return 500;
  return *function = &found->second, ready();
}
Result hipFuncGetAttribute(int* value, int attribute, void* function) {
  const auto* kernel = static_cast<const StandInKernel*>(function);
  *value = attribute == 0 ? kernel->max_threads : attribute == 1 ? kernel->fixed_shared_bytes : -1;
  return ready();
}
Result hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters,
                             void** extra) {
  if (const Result result = ready(); result != 0) return result;
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || stream != &stream_tag || parameters != nullptr)
    return 1;
  const auto* kernel = static_cast<const StandInKernel*>(function);
  const StandInLaunch call{kernel->name, grid_x, block_x, shared_bytes, 1, stand_in_arguments(extra, 3)};
  if (call.arguments.size() != static_cast<size_t>(kernel->argument_bytes)) return 1;
  return state.launch(call);
}

Result hipStreamCreateWithFlags(void** stream, unsigned flags) {
  if (flags != 1) return 1;
  ++state.streams;
  return *stream = &stream_tag, ready();
}
Result hipStreamDestroy(void*) { return --state.streams, 0; }
Result hipStreamSynchronize(void*) { return state.synchronize(); }
Result hipStreamBeginCapture(void*, int) {
  if (state.capture != nullptr) return 901;
  state.capture = new StandInGraph;
  return ready();
}
Result hipStreamEndCapture(void*, void** graph) {
  if (state.capture == nullptr) return 901;
  *graph = state.capture;
  state.capture = nullptr;
  ++state.graphs;
  return ready();
}
Result hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  *executable = new StandInGraph(*static_cast<StandInGraph*>(graph));
  ++state.graphs;
  return ready();
}
Result hipGraphLaunch(void* executable, void*) {
  for (const auto& work : static_cast<StandInGraph*>(executable)->work) state.enqueue(work);
  ++state.replays;
  return ready();
}
Result hipGraphExecDestroy(void* executable) {
  delete static_cast<StandInGraph*>(executable);
  return --state.graphs, 0;
}
Result hipGraphDestroy(void* graph) {
  delete static_cast<StandInGraph*>(graph);
  return --state.graphs, 0;
}
Result hipEventCreateWithFlags(void** event, unsigned flags) {
  if (flags != 2) return 1;
  ++state.events;
  return *event = new char, ready();
}
Result hipEventDestroy(void* event) {
  delete static_cast<char*>(event);
  return --state.events, 0;
}
Result hipEventRecord(void* event, void*) {
  state.record(event);
  return ready();
}
Result hipEventSynchronize(void* event) { return state.wait(event); }
Result hipEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 2.5f, ready(); }

}  // extern "C"
