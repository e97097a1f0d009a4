#include "causeway/device/cuda/cuda_queues.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/device/cuda/cuda_image.h"
#include "causeway/device/cuda/cuda_tensor_map.h"
#include "causeway/device/populated_memory.h"

namespace causeway::device {
namespace {

using Result = CudaDriver::Result;

// Dynamic shared memory that a kernel may have without asking.
constexpr int kDefaultSharedBytes = 48 << 10;

uint64_t address(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

// After these, every call on the context fails the same way.
bool is_fatal(Result result) {
  switch (result) {
    case CudaDriver::kEccUncorrectable:
    case CudaDriver::kNvlinkUncorrectable:
    case CudaDriver::kIllegalAddress:
    case CudaDriver::kLaunchTimeout:
    case CudaDriver::kAssert:
      return true;
    default:
      return result >= CudaDriver::kHardwareStackError && result <= CudaDriver::kLaunchFailed;
  }
}

using CudaLaunchAttributes = std::array<CudaLaunchAttribute, 3>;

// All but the stream; the attributes that it points to are set.
CudaLaunchConfig launch_config(const GpuLaunch& launch, int driver_version, CudaLaunchAttributes& attributes) {
  unsigned count = 0;
  if (launch.cluster > 1) attributes[count++].value.cluster = {launch.cluster, 1, 1};
  // Older drivers wait for what was launched before, of which kernels then find nothing to wait for.
  if (launch.may_begin_early && driver_version >= CudaDriver::kRecordsEarlyLaunches) {
    attributes[count].id = CudaLaunchAttribute::kProgrammaticStreamSerialization;
    attributes[count++].value.allowed = 1;
  }
  // Blocks of launches that divide a multiprocessor's memory otherwise between cache and shared memory would wait until
  // it has none of the other left.
  if (launch.may_begin_early && driver_version >= CudaDriver::kDividesMemoryByLaunch) {
    attributes[count].id = CudaLaunchAttribute::kPreferredSharedMemoryCarveout;
    attributes[count++].value.shared_percent = 100;
  }
  CudaLaunchConfig config;
  config.grid_x = launch.blocks;
  config.block_x = launch.threads;
  config.shared_bytes = launch.shared_bytes;
  config.attributes = attributes.data();
  config.attribute_count = count;
  return config;
}

}  // namespace

CudaQueues::CudaQueues(std::shared_ptr<const CudaDriver> driver, std::string name, int device)
    : GpuQueues(std::move(name)), driver_(std::move(driver)), handle_(device) {
  const Result result = driver_->primary_context_retain(&context_, handle_);
  if (result == CudaDriver::kDeviceUnavailable) {
    int mode = 0;
    driver_->device_attribute(&mode, CudaDriver::kComputeMode, handle_);
    if (mode == CudaDriver::kModeProhibited) {
      throw Error(ErrorKind::kResource, "the GPU is closed to programs (compute mode: prohibited)", this->device(),
                  "An administrator opens it with `nvidia-smi -c DEFAULT`.");
    }
    throw Error(ErrorKind::kResource, "the GPU is taken: another process holds it for itself", this->device(),
                "Wait for that process (`nvidia-smi` lists it), choose another GPU, or let an administrator allow "
                "several processes with `nvidia-smi -c DEFAULT`.");
  }
  if (result == CudaDriver::kOutOfMemory) {
    throw Error(ErrorKind::kResource, "the GPU's memory is full: there is not enough left to start", this->device(),
                "`nvidia-smi` lists the processes that hold it.");
  }
  check(result, "open the GPU");
  try {
    enter();
    stream();
  } catch (...) {
    driver_->primary_context_release(handle_);
    throw;
  }
}

CudaQueues::~CudaQueues() {
  driver_->context_set_current(context_);
  wait_for_streams();
  for (void* stream : streams_)
    if (stream != nullptr) driver_->stream_destroy(stream);
  driver_->primary_context_release(handle_);
}

void* CudaQueues::stream(DeviceQueue queue) {
  const std::lock_guard lock(streams_mutex_);
  const auto index = static_cast<size_t>(queue);
  if (index >= streams_.size()) streams_.resize(index + 1);
  if (streams_[index] == nullptr) {
    enter();
    check(driver_->stream_create(&streams_[index], CudaDriver::kStreamNonBlocking), "create a stream");
  }
  return streams_[index];
}

CudaDriver::Result CudaQueues::wait_for_streams() const noexcept {
  std::vector<void*> streams;
  {
    const std::lock_guard lock(streams_mutex_);
    streams = streams_;
  }
  Result first = CudaDriver::kSuccess;
  for (void* stream : streams) {
    if (stream == nullptr) continue;
    const Result result = driver_->stream_synchronize(stream);
    if (first == CudaDriver::kSuccess) first = result;
  }
  return first;
}

void CudaQueues::enter() const { check(driver_->context_set_current(context_), "select the GPU"); }

void CudaQueues::check(Result result, std::string_view doing) const {
  if (result != CudaDriver::kSuccess) fail(doing, driver_->name_of(result), driver_->text_of(result), is_fatal(result));
}

void* CudaQueues::allocate(size_t bytes) {
  enter();
  uint64_t memory = 0;
  const Result result = driver_->memory_allocate(&memory, bytes);
  if (result == CudaDriver::kOutOfMemory) return nullptr;
  check(result, "allocate memory");
  return reinterpret_cast<void*>(memory);
}

void CudaQueues::release(void* memory) noexcept {
  driver_->context_set_current(context_);
  driver_->memory_free(address(memory));
}

GpuQueues::Memory CudaQueues::memory() {
  enter();
  size_t free = 0, total = 0;
  check(driver_->memory_info(&free, &total), "ask for free memory");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

void* CudaQueues::allocate_pinned(size_t bytes) {
  enter();
  std::unique_ptr<void, decltype(&std::free)> memory(allocate_populated(bytes), &std::free);
  check(driver_->host_register(memory.get(), bytes, 0), "pin host memory for copies");
  return memory.release();
}

void CudaQueues::release_pinned(void* memory) noexcept {
  driver_->context_set_current(context_);
  wait_for_streams();
  driver_->host_unregister(memory);
  std::free(memory);
}

void CudaQueues::copy(void* to, const void* from, size_t bytes, Direction direction, DeviceQueue queue) {
  enter();
  switch (direction) {
    case Direction::kToDevice:
      return check(driver_->copy_to_device(address(to), from, bytes, stream(queue)), "copy to the GPU");
    case Direction::kToHost:
      return check(driver_->copy_to_host(to, address(from), bytes, stream(queue)), "copy from the GPU");
    case Direction::kOnDevice:
      return check(driver_->copy_on_device(address(to), address(from), bytes, stream(queue)), "copy on the GPU");
  }
}

void CudaQueues::fill_with_zeros(void* memory, size_t bytes) {
  enter();
  check(driver_->fill_bytes(address(memory), 0, bytes, stream()), "clear memory");
}

GpuQueues::Event CudaQueues::make_event(bool timed) {
  enter();
  void* event = nullptr;
  check(driver_->event_create(&event, timed ? 0 : CudaDriver::kEventDisableTiming), "create an event");
  return event;
}

void CudaQueues::release_event(Event event) noexcept {
  driver_->context_set_current(context_);
  driver_->event_destroy(event);
}

void CudaQueues::record_event(Event event, DeviceQueue queue) {
  enter();
  check(driver_->event_record(event, stream(queue)), "record an event");
}

void CudaQueues::wait_for_event(Event event) {
  enter();
  check(driver_->event_synchronize(event), "wait for a copy");
}

bool CudaQueues::has_passed(Event event) {
  enter();
  const Result result = driver_->event_query(event);
  if (result == CudaDriver::kNotReady) return false;
  check(result, "look at an event");
  return true;
}

void CudaQueues::wait_in_queue(Event event, DeviceQueue queue) {
  enter();
  check(driver_->stream_wait_event(stream(queue), event, 0), "let a queue wait for an event");
}

double CudaQueues::seconds_between(Event from, Event to) {
  enter();
  float milliseconds = 0;
  check(driver_->event_elapsed_time(&milliseconds, from, to), "time events");
  return static_cast<double>(milliseconds) / 1e3;
}

void CudaQueues::synchronize() {
  enter();
  check(wait_for_streams(), "wait for the GPU");
}

GpuQueues::MemoryHandle CudaQueues::export_memory(void* memory) {
  enter();
  MemoryHandle handle{};
  static_assert(sizeof handle == sizeof(CudaDriver::MemoryHandle));
  CudaDriver::MemoryHandle given{};
  check(driver_->memory_export(&given, address(memory)), "let other processes read memory");
  std::memcpy(handle.data(), given.bytes, handle.size());
  return handle;
}

void* CudaQueues::import_memory(const MemoryHandle& handle) {
  enter();
  CudaDriver::MemoryHandle given{};
  std::memcpy(given.bytes, handle.data(), handle.size());
  uint64_t memory = 0;
  const Result result = driver_->memory_import(&memory, given, CudaDriver::kEnablePeerAccess);
  if (is_fatal(result)) check(result, "read another process's memory");
  return result == CudaDriver::kSuccess ? reinterpret_cast<void*>(memory) : nullptr;
}

void CudaQueues::close_imported(void* memory) noexcept {
  driver_->context_set_current(context_);
  driver_->imported_close(address(memory));
}

void CudaQueues::wait_for_word(const uint32_t* word, uint32_t value, DeviceQueue queue) {
  enter();
  check(driver_->stream_wait_word(stream(queue), address(word), value, CudaDriver::kWaitEqual), "let a queue wait");
}

void CudaQueues::write_word(uint32_t* word, uint32_t value, DeviceQueue queue) {
  enter();
  check(driver_->stream_write_word(stream(queue), address(word), value, CudaDriver::kWriteDefault), "write a word");
}

void* CudaQueues::load_image(std::string_view image) {
  enter();
  auto loaded = std::make_unique<CudaImage>();
  check(loaded->load(*driver_, image, device()), "load a kernel");
  return loaded.release();
}

void CudaQueues::unload_image(void* image) noexcept {
  driver_->context_set_current(context_);
  wait_for_streams();
  driver_->library_unload(static_cast<CudaImage*>(image)->library());
  delete static_cast<CudaImage*>(image);
}

GpuKernel CudaQueues::find_kernel(void* image, const std::string& name) {
  enter();
  void* module = nullptr;
  check(driver_->library_module(&module, static_cast<CudaImage*>(image)->library()), "find a kernel's module");
  GpuKernel kernel;
  kernel.name = name;
  kernel.dynamic_shared_limit = kDefaultSharedBytes;
  const Result result = driver_->module_function(&kernel.function, module, name.c_str());
  if (result == CudaDriver::kNotFound)
    throw Error(ErrorKind::kNotFound, fmt::format("the module has no kernel \"{}\"", name));
  check(result, "find a kernel");
  check(driver_->function_attribute(&kernel.max_threads, CudaDriver::kMaxThreadsPerBlock, kernel.function),
        "ask for a kernel's threads");
  check(driver_->function_attribute(&kernel.fixed_shared_bytes, CudaDriver::kSharedSizeBytes, kernel.function),
        "ask for a kernel's shared memory");
  size_t offset = 0, bytes = 0;
  if (driver_->function_parameter != nullptr &&
      driver_->function_parameter(kernel.function, 0, &offset, &bytes) == CudaDriver::kSuccess)
    kernel.argument_bytes = static_cast<int>(bytes);
  return kernel;
}

TensorMapBytes CudaQueues::encode_tensor_map(const TensorMap& map, void* buffer) {
  return encode_cuda_tensor_map(*driver_, map, buffer);
}

void CudaQueues::launch(const GpuLaunch& launch) {
  enter();
  const GpuKernel& kernel = *launch.kernel;
  if (static_cast<int>(launch.shared_bytes) > kernel.dynamic_shared_limit) {
    check(driver_->function_set_attribute(kernel.function, CudaDriver::kMaxDynamicSharedSizeBytes,
                                          static_cast<int>(launch.shared_bytes)),
          fmt::format("give {} bytes of shared memory to {}", launch.shared_bytes, kernel.name));
    kernel.dynamic_shared_limit = static_cast<int>(launch.shared_bytes);
  }
  CudaLaunchAttributes attributes;
  CudaLaunchConfig config = launch_config(launch, driver_->version, attributes);
  config.stream = stream(launch.queue);
  // Not as one buffer of all parameters: a kernel's first parameter need not lie at its start when it is aligned.
  void* parameter = launch.arguments;
  const Result result = driver_->launch(&config, kernel.function, &parameter, nullptr);
  if (result != CudaDriver::kSuccess)
    check(result, fmt::format("launch {} ({} blocks of {} threads, {} bytes of shared memory, clusters of {})",
                              kernel.name, launch.blocks, launch.threads, launch.shared_bytes, launch.cluster));
}

void CudaQueues::begin_recording() {
  enter();
  check(driver_->stream_begin_capture(stream(), CudaDriver::kCaptureThreadLocal), "begin to record launches");
}

void* CudaQueues::end_recording() {
  enter();
  void* graph = nullptr;
  check(driver_->stream_end_capture(stream(), &graph), "record launches");
  void* executable = nullptr;
  const Result result = driver_->graph_instantiate(&executable, graph, 0);
  driver_->graph_destroy(graph);
  check(result, "prepare recorded launches");
  return executable;
}

void CudaQueues::abandon_recording() noexcept {
  void* graph = nullptr;
  driver_->context_set_current(context_);
  driver_->stream_end_capture(stream(), &graph);
  if (graph != nullptr) driver_->graph_destroy(graph);
}

void CudaQueues::replay(void* recording) {
  enter();
  check(driver_->graph_launch(recording, stream()), "run recorded launches");
}

void CudaQueues::release_recording(void* recording) noexcept {
  driver_->context_set_current(context_);
  driver_->graph_executable_destroy(recording);
}

}  // namespace causeway::device
