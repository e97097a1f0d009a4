#include "causeway/device/hip/hip_queues.h"

#include <array>
#include <cstdlib>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/device/populated_memory.h"

namespace causeway::device {
namespace {

using Result = HipRuntime::Result;

// After these, every call on the device fails the same way.
bool is_fatal(Result result) {
  return result == HipRuntime::kEccUncorrectable || result == HipRuntime::kIllegalAddress ||
         result == HipRuntime::kLaunchTimeout || result == HipRuntime::kAssert || result == HipRuntime::kLaunchFailure;
}

// The extra parameter of a launch: a list of keys and values (HIP_LAUNCH_PARAM_*).
void* launch_key(uintptr_t key) { return reinterpret_cast<void*>(key); }

}  // namespace

HipQueues::HipQueues(std::shared_ptr<const HipRuntime> runtime, std::string name, int device)
    : GpuQueues(std::move(name)), runtime_(std::move(runtime)), index_(device) {
  stream();
}

HipQueues::~HipQueues() {
  runtime_->set_device(index_);
  wait_for_streams();
  for (void* stream : streams_)
    if (stream != nullptr) runtime_->stream_destroy(stream);
}

void* HipQueues::stream(DeviceQueue queue) {
  const std::lock_guard lock(streams_mutex_);
  const auto index = static_cast<size_t>(queue);
  if (index >= streams_.size()) streams_.resize(index + 1);
  if (streams_[index] == nullptr) {
    enter();
    check(runtime_->stream_create(&streams_[index], HipRuntime::kStreamNonBlocking), "create a stream");
  }
  return streams_[index];
}

HipRuntime::Result HipQueues::wait_for_streams() const noexcept {
  std::vector<void*> streams;
  {
    const std::lock_guard lock(streams_mutex_);
    streams = streams_;
  }
  Result first = HipRuntime::kSuccess;
  for (void* stream : streams) {
    if (stream == nullptr) continue;
    const Result result = runtime_->stream_synchronize(stream);
    if (first == HipRuntime::kSuccess) first = result;
  }
  return first;
}

void HipQueues::enter() const { check(runtime_->set_device(index_), "select the GPU"); }

void HipQueues::check(Result result, std::string_view doing) const {
  if (result != HipRuntime::kSuccess)
    fail(doing, runtime_->name_of(result), runtime_->text_of(result), is_fatal(result));
}

void* HipQueues::allocate(size_t bytes) {
  enter();
  void* memory = nullptr;
  const Result result = runtime_->memory_allocate(&memory, bytes);
  if (result == HipRuntime::kOutOfMemory) return nullptr;
  check(result, "allocate memory");
  return memory;
}

void HipQueues::release(void* memory) noexcept {
  runtime_->set_device(index_);
  runtime_->memory_free(memory);
}

GpuQueues::Memory HipQueues::memory() {
  enter();
  size_t free = 0, total = 0;
  check(runtime_->memory_info(&free, &total), "ask for free memory");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

void* HipQueues::allocate_pinned(size_t bytes) {
  enter();
  std::unique_ptr<void, decltype(&std::free)> memory(allocate_populated(bytes), &std::free);
  check(runtime_->host_register(memory.get(), bytes, 0), "pin host memory for copies");
  return memory.release();
}

void HipQueues::release_pinned(void* memory) noexcept {
  runtime_->set_device(index_);
  wait_for_streams();
  runtime_->host_unregister(memory);
  std::free(memory);
}

void HipQueues::copy(void* to, const void* from, size_t bytes, Direction direction, DeviceQueue queue) {
  enter();
  const auto kind = direction == Direction::kToDevice ? HipRuntime::kHostToDevice
                    : direction == Direction::kToHost ? HipRuntime::kDeviceToHost
                                                      : HipRuntime::kDeviceToDevice;
  check(runtime_->copy(to, from, bytes, kind, stream(queue)), "copy");
}

void HipQueues::fill_with_zeros(void* memory, size_t bytes) {
  enter();
  check(runtime_->fill_bytes(memory, 0, bytes, stream()), "clear memory");
}

GpuQueues::Event HipQueues::make_event(bool timed) {
  enter();
  void* event = nullptr;
  check(runtime_->event_create(&event, timed ? 0 : HipRuntime::kEventDisableTiming), "create an event");
  return event;
}

void HipQueues::release_event(Event event) noexcept {
  runtime_->set_device(index_);
  runtime_->event_destroy(event);
}

void HipQueues::record_event(Event event, DeviceQueue queue) {
  enter();
  check(runtime_->event_record(event, stream(queue)), "record an event");
}

void HipQueues::wait_for_event(Event event) {
  enter();
  check(runtime_->event_synchronize(event), "wait for a copy");
}

bool HipQueues::has_passed(Event event) {
  enter();
  const Result result = runtime_->event_query(event);
  if (result == HipRuntime::kNotReady) return false;
  check(result, "look at an event");
  return true;
}

void HipQueues::wait_in_queue(Event event, DeviceQueue queue) {
  enter();
  check(runtime_->stream_wait_event(stream(queue), event, 0), "let a queue wait for an event");
}

double HipQueues::seconds_between(Event from, Event to) {
  enter();
  float milliseconds = 0;
  check(runtime_->event_elapsed_time(&milliseconds, from, to), "time events");
  return static_cast<double>(milliseconds) / 1e3;
}

void HipQueues::synchronize() {
  enter();
  check(wait_for_streams(), "wait for the GPU");
}

void* HipQueues::load_image(std::string_view image) {
  enter();
  const std::string copy(image);
  void* module = nullptr;
  const Result result = runtime_->module_load(&module, copy.data());
  if (result != HipRuntime::kSuccess && !is_fatal(result) && result != HipRuntime::kOutOfMemory) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("a compiled kernel cannot be loaded: {} ({})", runtime_->name_of(result),
                            runtime_->text_of(result)),
                device(), "Empty the kernel cache: `causeway cache clear`.");
  }
  check(result, "load a kernel");
  return module;
}

void HipQueues::unload_image(void* module) noexcept {
  runtime_->set_device(index_);
  wait_for_streams();
  runtime_->module_unload(module);
}

GpuKernel HipQueues::find_kernel(void* module, const std::string& name) {
  enter();
  GpuKernel kernel;
  kernel.name = name;
  const Result result = runtime_->module_function(&kernel.function, module, name.c_str());
  if (result == HipRuntime::kNotFound)
    throw Error(ErrorKind::kNotFound, fmt::format("the module has no kernel \"{}\"", name));
  check(result, "find a kernel");
  check(runtime_->function_attribute(&kernel.max_threads, HipRuntime::kMaxThreadsPerBlock, kernel.function),
        "ask for a kernel's threads");
  check(runtime_->function_attribute(&kernel.fixed_shared_bytes, HipRuntime::kSharedSizeBytes, kernel.function),
        "ask for a kernel's shared memory");
  return kernel;
}

TensorMapBytes HipQueues::encode_tensor_map(const TensorMap& map, void* buffer) {
  throw Error(ErrorKind::kUnsupported, "AMD's GPUs have no TMA", device(),
              "The kernel was made for another architecture. Please report it.");
}

void HipQueues::launch(const GpuLaunch& launch) {
  enter();
  size_t bytes = launch.argument_bytes;
  std::array<void*, 5> extra = {launch_key(1), launch.arguments, launch_key(2), &bytes, launch_key(3)};
  const Result result = runtime_->launch(launch.kernel->function, launch.blocks, 1, 1, launch.threads, 1, 1,
                                         launch.shared_bytes, stream(launch.queue), nullptr, extra.data());
  if (result != HipRuntime::kSuccess)
    check(result, fmt::format("launch {} ({} blocks of {} threads, {} bytes of shared memory)", launch.kernel->name,
                              launch.blocks, launch.threads, launch.shared_bytes));
}

void HipQueues::begin_recording() {
  enter();
  check(runtime_->stream_begin_capture(stream(), HipRuntime::kCaptureThreadLocal), "begin to record launches");
}

void* HipQueues::end_recording() {
  enter();
  void* graph = nullptr;
  check(runtime_->stream_end_capture(stream(), &graph), "record launches");
  void* executable = nullptr;
  const Result result = runtime_->graph_instantiate(&executable, graph, 0);
  runtime_->graph_destroy(graph);
  check(result, "prepare recorded launches");
  return executable;
}

void HipQueues::abandon_recording() noexcept {
  void* graph = nullptr;
  runtime_->set_device(index_);
  runtime_->stream_end_capture(stream(), &graph);
  if (graph != nullptr) runtime_->graph_destroy(graph);
}

void HipQueues::replay(void* recording) {
  enter();
  check(runtime_->graph_launch(recording, stream()), "run recorded launches");
}

// The reference does not say that a graph may be destroyed while it runs.
void HipQueues::release_recording(void* recording) noexcept {
  runtime_->set_device(index_);
  wait_for_streams();
  runtime_->graph_executable_destroy(recording);
}

}  // namespace causeway::device
