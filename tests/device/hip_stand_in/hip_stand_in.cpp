// The functions of libamdhip64.so that HipDevice uses, without a GPU.
#include "causeway/device/hip/hip_runtime.h"
#include "tests/device/gpu_stand_in.h"

using causeway::device::HipDeviceProperties;
using Result = int;

namespace {

StandIn state;
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
Result hipHostRegister(void*, size_t, unsigned) {
  ++state.pinned;
  return ready();
}
Result hipHostUnregister(void*) {
  --state.pinned;
  return ready();
}
Result hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (kind < 1 || kind > 3 || !state.is_open(stream)) return 1;
  state.enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return ready();
}
Result hipMemsetAsync(void* to, int value, size_t bytes, void* stream) {
  state.enqueue(stream, [=] { std::memset(to, value, bytes); });
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
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || !state.is_open(stream) || parameters != nullptr)
    return 1;
  const auto* kernel = static_cast<const StandInKernel*>(function);
  const StandInLaunch call{kernel->name, grid_x, block_x, shared_bytes, 1, stand_in_arguments(extra, 3)};
  if (call.arguments.size() != static_cast<size_t>(kernel->argument_bytes)) return 1;
  return state.launch(call, stream);
}

Result hipStreamCreateWithFlags(void** stream, unsigned flags) {
  if (flags != 1) return 1;
  return *stream = state.open_stream(), ready();
}
Result hipStreamDestroy(void* stream) { return state.close_stream(stream), 0; }
Result hipStreamSynchronize(void* stream) { return state.synchronize(stream); }
Result hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
  if (flags != 0 || !state.is_open(stream)) return 1;
  const Result result = state.wait_in_stream(stream, event);
  return result != 0 ? result : ready();
}
Result hipStreamBeginCapture(void* stream, int) {
  const Result result = state.begin_capture(stream);
  return result != 0 ? result : ready();
}
Result hipStreamEndCapture(void* stream, void** graph) {
  const Result result = state.end_capture(stream, graph);
  return result != 0 ? result : ready();
}
Result hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return *executable = state.instantiate(graph), ready();
}
Result hipGraphLaunch(void* executable, void* stream) {
  state.launch_graph(executable, stream);
  return ready();
}
Result hipGraphExecDestroy(void* executable) { return state.release_graph(executable), 0; }
Result hipGraphDestroy(void* graph) { return state.release_graph(graph), 0; }
Result hipEventCreateWithFlags(void** event, unsigned flags) {
  if (flags != 0 && flags != 2) return 1;  // timed or not
  ++state.events;
  return *event = new StandInEvent, ready();
}
Result hipEventDestroy(void* event) {
  delete static_cast<StandInEvent*>(event);
  return --state.events, 0;
}
Result hipEventRecord(void* event, void* stream) {
  state.record(event, stream);
  return ready();
}
Result hipEventSynchronize(void* event) { return state.wait(event); }
Result hipEventQuery(void* event) { return state.query(event); }
Result hipEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 2.5f, ready(); }

}  // extern "C"
