#include "causeway/device/hip/hip_queue.h"

#include <array>

#include "causeway/base/error.h"

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

HipQueue::HipQueue(std::shared_ptr<const HipRuntime> runtime, std::string name, int device)
    : GpuQueue(std::move(name)), runtime_(std::move(runtime)), index_(device) {
  enter();
  check(runtime_->stream_create(&stream_, HipRuntime::kStreamNonBlocking), "create a stream");
}

HipQueue::~HipQueue() {
  runtime_->set_device(index_);
  runtime_->stream_synchronize(stream_);
  runtime_->stream_destroy(stream_);
}

void HipQueue::enter() const { check(runtime_->set_device(index_), "select the GPU"); }

void HipQueue::check(Result result, std::string_view doing) const {
  if (result != HipRuntime::kSuccess)
    fail(doing, runtime_->name_of(result), runtime_->text_of(result), is_fatal(result));
}

void* HipQueue::allocate(size_t bytes) {
  enter();
  void* memory = nullptr;
  const Result result = runtime_->memory_allocate(&memory, bytes);
  if (result == HipRuntime::kOutOfMemory) return nullptr;
  check(result, "allocate memory");
  return memory;
}

void HipQueue::release(void* memory) noexcept {
  runtime_->set_device(index_);
  runtime_->memory_free(memory);
}

GpuQueue::Memory HipQueue::memory() {
  enter();
  size_t free = 0, total = 0;
  check(runtime_->memory_info(&free, &total), "ask for free memory");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

void* HipQueue::allocate_pinned(size_t bytes) {
  enter();
  void* memory = nullptr;
  check(runtime_->host_allocate(&memory, bytes, 0), "allocate host memory for copies");
  return memory;
}

void HipQueue::release_pinned(void* memory) noexcept {
  runtime_->set_device(index_);
  runtime_->stream_synchronize(stream_);
  runtime_->host_free(memory);
}

void HipQueue::copy(void* to, const void* from, size_t bytes, Direction direction) {
  enter();
  const auto kind = direction == Direction::kToDevice ? HipRuntime::kHostToDevice
                    : direction == Direction::kToHost ? HipRuntime::kDeviceToHost
                                                      : HipRuntime::kDeviceToDevice;
  check(runtime_->copy(to, from, bytes, kind, stream_), "copy");
}

void HipQueue::fill_with_zeros(void* memory, size_t bytes) {
  enter();
  check(runtime_->fill_bytes(memory, 0, bytes, stream_), "clear memory");
}

GpuQueue::Event HipQueue::make_event(bool timed) {
  enter();
  void* event = nullptr;
  check(runtime_->event_create(&event, timed ? 0 : HipRuntime::kEventDisableTiming), "create an event");
  return event;
}

void HipQueue::release_event(Event event) noexcept {
  runtime_->set_device(index_);
  runtime_->event_destroy(event);
}

void HipQueue::record_event(Event event) {
  enter();
  check(runtime_->event_record(event, stream_), "record an event");
}

void HipQueue::wait_for_event(Event event) {
  enter();
  check(runtime_->event_synchronize(event), "wait for a copy");
}

double HipQueue::seconds_between(Event from, Event to) {
  enter();
  float milliseconds = 0;
  check(runtime_->event_elapsed_time(&milliseconds, from, to), "time events");
  return static_cast<double>(milliseconds) / 1e3;
}

void HipQueue::synchronize() {
  enter();
  check(runtime_->stream_synchronize(stream_), "wait for the GPU");
}

void* HipQueue::load_image(std::string_view image) {
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

void HipQueue::unload_image(void* module) noexcept {
  runtime_->set_device(index_);
  runtime_->stream_synchronize(stream_);
  runtime_->module_unload(module);
}

GpuKernel HipQueue::find_kernel(void* module, const std::string& name) {
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

TensorMapBytes HipQueue::encode_tensor_map(const TensorMap& map, void* buffer) {
  throw Error(ErrorKind::kUnsupported, "AMD's GPUs have no copy engine that reads tensor maps", device(),
              "The kernel was made for another architecture. Please report it.");
}

void HipQueue::launch(const GpuLaunch& launch) {
  enter();
  size_t bytes = launch.argument_bytes;
  std::array<void*, 5> extra = {launch_key(1), launch.arguments, launch_key(2), &bytes, launch_key(3)};
  const Result result = runtime_->launch(launch.kernel->function, launch.blocks, 1, 1, launch.threads, 1, 1,
                                         launch.shared_bytes, stream_, nullptr, extra.data());
  if (result != HipRuntime::kSuccess)
    check(result, fmt::format("launch {} ({} blocks of {} threads, {} bytes of shared memory)", launch.kernel->name,
                              launch.blocks, launch.threads, launch.shared_bytes));
}

void HipQueue::begin_recording() {
  enter();
  check(runtime_->stream_begin_capture(stream_, HipRuntime::kCaptureThreadLocal), "begin to record launches");
}

void* HipQueue::end_recording() {
  enter();
  void* graph = nullptr;
  check(runtime_->stream_end_capture(stream_, &graph), "record launches");
  void* executable = nullptr;
  const Result result = runtime_->graph_instantiate(&executable, graph, 0);
  runtime_->graph_destroy(graph);
  check(result, "prepare recorded launches");
  return executable;
}

void HipQueue::abandon_recording() noexcept {
  void* graph = nullptr;
  runtime_->set_device(index_);
  runtime_->stream_end_capture(stream_, &graph);
  if (graph != nullptr) runtime_->graph_destroy(graph);
}

void HipQueue::replay(void* recording) {
  enter();
  check(runtime_->graph_launch(recording, stream_), "run recorded launches");
}

// The reference does not say that a graph may be destroyed while it runs.
void HipQueue::release_recording(void* recording) noexcept {
  runtime_->set_device(index_);
  runtime_->stream_synchronize(stream_);
  runtime_->graph_executable_destroy(recording);
}

}  // namespace causeway::device
