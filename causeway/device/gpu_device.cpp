#include "causeway/device/gpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "causeway/base/error.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {
namespace {

// The largest that every GPU with clusters accepts (CUDA C++ Programming Guide, thread block clusters).
constexpr int kMaxCluster = 8;
constexpr size_t kNamedInRecording = 8;

// An event of the driver's.
struct OwnedEvent {
  OwnedEvent(std::shared_ptr<GpuQueues> queues, bool timed)
      : queues(std::move(queues)), handle(this->queues->make_event(timed)) {}
  ~OwnedEvent() { queues->release_event(handle); }
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  std::shared_ptr<GpuQueues> queues;
  GpuQueues::Event handle;
};

struct GpuMoment : DeviceMoment {
  explicit GpuMoment(std::shared_ptr<GpuQueues> queues) : event(std::move(queues), true) {}
  OwnedEvent event;
};

struct GpuEvent : DeviceEvent {
  explicit GpuEvent(std::shared_ptr<GpuQueues> queues) : event(std::move(queues), false) {}
  OwnedEvent event;
  bool signalled = false;
};

class GpuModule : public DeviceModule {
 public:
  GpuModule(std::shared_ptr<GpuQueues> queues, std::string_view image)
      : queues_(std::move(queues)), module_(queues_->load_image(image)) {}
  ~GpuModule() override {
    for (const auto& [name, kernel] : kernels_) queues_->forget(kernel.name);
    queues_->unload_image(module_);
  }

  DeviceKernel kernel(const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    const auto known = kernels_.find(name);
    if (known != kernels_.end()) return &known->second;
    return &kernels_.emplace(name, queues_->find_kernel(module_, name)).first->second;
  }

 private:
  std::shared_ptr<GpuQueues> queues_;
  void* module_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, GpuKernel> kernels_;
};

class GpuRecording : public DeviceGraph {
 public:
  GpuRecording(std::shared_ptr<GpuQueues> queues, void* handle, std::string description)
      : queues_(std::move(queues)), handle_(handle), description_(std::move(description)) {}
  ~GpuRecording() override {
    queues_->forget(description_);
    queues_->release_recording(handle_);
  }
  const GpuQueues* queues() const { return queues_.get(); }
  void* handle() const { return handle_; }
  const std::string& description() const { return description_; }

 private:
  std::shared_ptr<GpuQueues> queues_;
  void* handle_;
  std::string description_;
};

}  // namespace

GpuDevice::GpuDevice(std::shared_ptr<GpuQueues> queues, Target target, GpuInfo info, int64_t max_blocks,
                     int64_t max_threads)
    : queues_(std::move(queues)),
      target_(std::move(target)),
      info_(std::move(info)),
      max_blocks_(max_blocks),
      max_threads_(max_threads),
      pool_(std::make_shared<GpuMemoryPool>(queues_)),
      staging_(queues_) {
  if (info_.parallel_units > 0) target_.parallel_units = info_.parallel_units;
}

GpuInfo GpuDevice::info() {
  const GpuQueues::Memory memory = queues_->memory();
  info_.memory_free = memory.free;
  info_.memory_total = memory.total;
  return info_;
}

DeviceBuffer GpuDevice::allocate(size_t bytes, bool zeroed) {
  CAUSEWAY_CHECK(!recording_, "memory is allocated while launches are recorded");
  DeviceBuffer buffer = pool_->allocate(bytes);
  if (zeroed) fill_with_zeros(buffer.data(), bytes);
  return buffer;
}

void GpuDevice::copy_to_device(void* to, const void* host, size_t bytes) {
  CAUSEWAY_CHECK(!recording_, "host memory is copied while launches are recorded");
  if (bytes != 0) staging_.copy_to_device(to, host, bytes);
}

void GpuDevice::copy_to_host(void* host, const void* from, size_t bytes) {
  CAUSEWAY_CHECK(!recording_, "device memory is read while launches are recorded");
  if (bytes != 0) staging_.copy_to_host(host, from, bytes);
}

void GpuDevice::copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue) {
  if (bytes != 0 && to != from) queues_->copy(to, from, bytes, GpuQueues::Direction::kOnDevice, queue);
}

void GpuDevice::fill_with_zeros(void* memory, size_t bytes) {
  if (bytes != 0) queues_->fill_with_zeros(memory, bytes);
}

HostBuffer GpuDevice::allocate_host(size_t bytes, bool zeroed) {
  if (bytes == 0) return {};
  auto* const memory = static_cast<std::byte*>(queues_->allocate_pinned(bytes));
  if (zeroed) std::memset(memory, 0, bytes);
  return {std::shared_ptr<std::byte>(memory, [queues = queues_](std::byte* pinned) { queues->release_pinned(pinned); }),
          bytes};
}

void GpuDevice::queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) {
  if (bytes != 0) queues_->copy(host, from, bytes, GpuQueues::Direction::kToHost, queue);
}

void GpuDevice::queue_copy_to_device(void* to, const void* host, size_t bytes, DeviceQueue queue) {
  if (bytes != 0) queues_->copy(to, host, bytes, GpuQueues::Direction::kToDevice, queue);
}

std::shared_ptr<DeviceModule> GpuDevice::load(std::string_view image) {
  return std::make_shared<GpuModule>(queues_, image);
}

void GpuDevice::check_limits(const DeviceLaunch& launch, const GpuKernel& kernel) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kResource, fmt::format("the kernel {} {}", kernel.name, what), queues_->device(),
                fmt::format("It was made for {}; this is a {}. Please report it.", target_.processor, info_.product));
  };
  const int shared = launch.shared_bytes + kernel.fixed_shared_bytes;
  if (shared > info_.shared_bytes) {
    refuse(fmt::format("needs {} bytes of shared memory in a block; the GPU has {}", shared, info_.shared_bytes));
  }
  if (launch.threads > kernel.max_threads) {
    refuse(fmt::format("needs blocks of {} threads; with its registers, the GPU allows {}", launch.threads,
                       kernel.max_threads));
  }
  if (launch.cluster > 1 && !target_.architecture().has_clusters) {
    refuse(fmt::format("needs clusters of {} blocks; the GPU has no clusters", launch.cluster));
  }
  if (launch.cluster > kMaxCluster) {
    refuse(fmt::format("needs clusters of {} blocks; the GPU allows {}", launch.cluster, kMaxCluster));
  }
  if (launch.task_count > max_blocks_ || launch.task_count > max_threads_ / launch.threads) {
    refuse(fmt::format("needs {} blocks of {} threads; a launch has at most {}", launch.task_count, launch.threads,
                       std::min(max_blocks_, max_threads_ / launch.threads)));
  }
}

void GpuDevice::launch(const DeviceLaunch& launch) {
  if (launch.task_count <= 0) return;
  const auto& kernel = *static_cast<const GpuKernel*>(launch.kernel);
  CAUSEWAY_CHECK(launch.threads > 0 && launch.threads % target_.architecture().wave_width == 0,
                 "{} is launched with blocks of {} threads", kernel.name, launch.threads);
  CAUSEWAY_CHECK(launch.cluster >= 1 && launch.task_count % launch.cluster == 0,
                 "{} is launched with {} blocks in clusters of {}", kernel.name, launch.task_count, launch.cluster);
  check_limits(launch, kernel);
  maps_.clear();
  for (const TensorMap& map : launch.tensor_maps)
    maps_.push_back(queues_->encode_tensor_map(map, launch.buffers[static_cast<size_t>(map.buffer)]));
  arguments_.pack(maps_, launch.buffers, launch.sizes);
  CAUSEWAY_CHECK(kernel.argument_bytes < 0 || arguments_.bytes() == static_cast<size_t>(kernel.argument_bytes),
                 "{} takes {} bytes of arguments and is launched with {}: {} maps, {} buffers, {} sizes", kernel.name,
                 kernel.argument_bytes, arguments_.bytes(), maps_.size(), launch.buffers.size(), launch.sizes.size());
  if (recording_) {
    recorded_.push_back(&kernel.name);
  } else {
    queues_->note(kernel.name);
  }
  queues_->launch({&kernel, static_cast<unsigned>(launch.task_count), static_cast<unsigned>(launch.threads),
                   static_cast<unsigned>(launch.shared_bytes), static_cast<unsigned>(launch.cluster), arguments_.data(),
                   arguments_.bytes(), launch.queue,
                   launch.follows_launch && target_.architecture().waits_for_launches});
}

std::shared_ptr<DeviceEvent> GpuDevice::make_event() { return std::make_shared<GpuEvent>(queues_); }

void GpuDevice::signal(DeviceEvent& event, DeviceQueue queue) {
  auto& gpu_event = static_cast<GpuEvent&>(event);
  queues_->record_event(gpu_event.event.handle, queue);
  gpu_event.signalled = true;
}

// The drivers take a wait for an event that was never recorded for one that has passed.
void GpuDevice::wait(const DeviceEvent& event, DeviceQueue queue) {
  const auto& gpu_event = static_cast<const GpuEvent&>(event);
  CAUSEWAY_CHECK(gpu_event.signalled, "queue {} waits for an event that nobody signalled", queue);
  queues_->wait_in_queue(gpu_event.event.handle, queue);
}

void GpuDevice::wait_on_host(const DeviceEvent& event) { queues_->wait_for_event(signalled(event)); }

bool GpuDevice::has_passed(const DeviceEvent& event) { return queues_->has_passed(signalled(event)); }

GpuQueues::Event GpuDevice::signalled(const DeviceEvent& event) const {
  const auto& gpu_event = static_cast<const GpuEvent&>(event);
  CAUSEWAY_CHECK(gpu_event.signalled && !recording_, "an event is waited for that nobody signalled, or in a recording");
  return gpu_event.event.handle;
}

std::shared_ptr<DeviceGraph> GpuDevice::record(const std::function<void()>& work) {
  CAUSEWAY_CHECK(!recording_, "a recording within a recording");
  recorded_.clear();
  queues_->begin_recording();
  recording_ = true;
  try {
    work();
  } catch (...) {
    recording_ = false;
    queues_->abandon_recording();
    throw;
  }
  recording_ = false;
  void* handle = queues_->end_recording();
  const size_t first = recorded_.size() - std::min(kNamedInRecording, recorded_.size());
  std::string names = first > 0 ? "..." : "";
  for (size_t i = first; i < recorded_.size(); ++i) names += (names.empty() ? "" : ", ") + *recorded_[i];
  return std::make_shared<GpuRecording>(queues_, handle,
                                        fmt::format("a recorded run of {} launches ({})", recorded_.size(), names));
}

void GpuDevice::replay(const DeviceGraph& graph) {
  CAUSEWAY_CHECK(!recording_, "a recording is replayed within a recording");
  const auto& recording = static_cast<const GpuRecording&>(graph);
  CAUSEWAY_CHECK(recording.queues() == queues_.get(), "a recording of another device");
  queues_->note(recording.description());
  queues_->replay(recording.handle());
}

void GpuDevice::synchronize() {
  CAUSEWAY_CHECK(!recording_, "the device is waited for while launches are recorded");
  queues_->synchronize();
}

std::shared_ptr<DeviceMoment> GpuDevice::mark(DeviceQueue queue) {
  auto moment = std::make_shared<GpuMoment>(queues_);
  queues_->record_event(moment->event.handle, queue);
  return moment;
}

double GpuDevice::seconds_between(const DeviceMoment& from, const DeviceMoment& to) {
  const auto& last = static_cast<const GpuMoment&>(to);
  queues_->wait_for_event(last.event.handle);
  return queues_->seconds_between(static_cast<const GpuMoment&>(from).event.handle, last.event.handle);
}

int64_t GpuDevice::occupied_bytes() const {
  const GpuQueues::Memory memory = queues_->memory();
  return memory.total - memory.free;
}

int64_t GpuDevice::memory_limit() const {
  return at_most_limit(queues_->memory().free + pool_->cached_bytes() + pool_->bytes_in_use());
}

void GpuDevice::limit_memory(int64_t bytes) {
  Device::limit_memory(bytes);
  pool_->limit(bytes);
}

}  // namespace causeway::device
