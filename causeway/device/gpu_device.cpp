#include "causeway/device/gpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "causeway/base/error.h"

namespace causeway::device {
namespace {

// The largest that every GPU with clusters accepts (CUDA C++ Programming Guide, thread block clusters).
constexpr int kMaxCluster = 8;
constexpr size_t kNamedInRecording = 8;

struct GpuMoment : DeviceMoment {
  explicit GpuMoment(std::shared_ptr<GpuQueue> queue) : queue(std::move(queue)), event(this->queue->make_event(true)) {}
  ~GpuMoment() override { queue->release_event(event); }
  GpuMoment(const GpuMoment&) = delete;
  GpuMoment& operator=(const GpuMoment&) = delete;

  std::shared_ptr<GpuQueue> queue;
  GpuQueue::Event event;
};

class GpuModule : public DeviceModule {
 public:
  GpuModule(std::shared_ptr<GpuQueue> queue, std::string_view image)
      : queue_(std::move(queue)), module_(queue_->load_image(image)) {}
  ~GpuModule() override {
    for (const auto& [name, kernel] : kernels_) queue_->forget(kernel.name);
    queue_->unload_image(module_);
  }

  DeviceKernel kernel(const std::string& name) const override {
    const std::lock_guard lock(mutex_);
    const auto known = kernels_.find(name);
    if (known != kernels_.end()) return &known->second;
    return &kernels_.emplace(name, queue_->find_kernel(module_, name)).first->second;
  }

 private:
  std::shared_ptr<GpuQueue> queue_;
  void* module_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, GpuKernel> kernels_;
};

class GpuRecording : public DeviceGraph {
 public:
  GpuRecording(std::shared_ptr<GpuQueue> queue, void* handle, std::string description)
      : queue_(std::move(queue)), handle_(handle), description_(std::move(description)) {}
  ~GpuRecording() override {
    queue_->forget(description_);
    queue_->release_recording(handle_);
  }
  const GpuQueue* queue() const { return queue_.get(); }
  void* handle() const { return handle_; }
  const std::string& description() const { return description_; }

 private:
  std::shared_ptr<GpuQueue> queue_;
  void* handle_;
  std::string description_;
};

}  // namespace

GpuDevice::GpuDevice(std::shared_ptr<GpuQueue> queue, Target target, GpuInfo info, int64_t max_blocks,
                     int64_t max_threads)
    : queue_(std::move(queue)),
      target_(std::move(target)),
      info_(std::move(info)),
      max_blocks_(max_blocks),
      max_threads_(max_threads),
      pool_(std::make_shared<GpuMemoryPool>(queue_)),
      staging_(queue_) {
  if (info_.parallel_units > 0) target_.parallel_units = info_.parallel_units;
}

GpuInfo GpuDevice::info() {
  const GpuQueue::Memory memory = queue_->memory();
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

void GpuDevice::copy_on_device(void* to, const void* from, size_t bytes) {
  if (bytes != 0 && to != from) queue_->copy(to, from, bytes, GpuQueue::Direction::kOnDevice);
}

void GpuDevice::fill_with_zeros(void* memory, size_t bytes) {
  if (bytes != 0) queue_->fill_with_zeros(memory, bytes);
}

std::shared_ptr<DeviceModule> GpuDevice::load(std::string_view image) {
  return std::make_shared<GpuModule>(queue_, image);
}

void GpuDevice::check_limits(const DeviceLaunch& launch, const GpuKernel& kernel) const {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kResource, fmt::format("the kernel {} {}", kernel.name, what), queue_->device(),
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
  if (launch.cluster > 1 && !target_.architecture().has_warpgroup_matrix) {
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
    maps_.push_back(queue_->encode_tensor_map(map, launch.buffers[static_cast<size_t>(map.buffer)]));
  arguments_.pack(maps_, launch.buffers, launch.sizes);
  CAUSEWAY_CHECK(kernel.argument_bytes < 0 || arguments_.bytes() == static_cast<size_t>(kernel.argument_bytes),
                 "{} takes {} bytes of arguments and is launched with {}: {} maps, {} buffers, {} sizes", kernel.name,
                 kernel.argument_bytes, arguments_.bytes(), maps_.size(), launch.buffers.size(), launch.sizes.size());
  if (recording_) {
    recorded_.push_back(&kernel.name);
  } else {
    queue_->note(kernel.name);
  }
  queue_->launch({&kernel, static_cast<unsigned>(launch.task_count), static_cast<unsigned>(launch.threads),
                  static_cast<unsigned>(launch.shared_bytes), static_cast<unsigned>(launch.cluster), arguments_.data(),
                  arguments_.bytes()});
}

std::shared_ptr<DeviceGraph> GpuDevice::record(const std::function<void()>& work) {
  CAUSEWAY_CHECK(!recording_, "a recording within a recording");
  recorded_.clear();
  queue_->begin_recording();
  recording_ = true;
  try {
    work();
  } catch (...) {
    recording_ = false;
    queue_->abandon_recording();
    throw;
  }
  recording_ = false;
  void* handle = queue_->end_recording();
  const size_t first = recorded_.size() - std::min(kNamedInRecording, recorded_.size());
  std::string names = first > 0 ? "..." : "";
  for (size_t i = first; i < recorded_.size(); ++i) names += (names.empty() ? "" : ", ") + *recorded_[i];
  return std::make_shared<GpuRecording>(queue_, handle,
                                        fmt::format("a recorded run of {} launches ({})", recorded_.size(), names));
}

void GpuDevice::replay(const DeviceGraph& graph) {
  CAUSEWAY_CHECK(!recording_, "a recording is replayed within a recording");
  const auto& recording = static_cast<const GpuRecording&>(graph);
  CAUSEWAY_CHECK(recording.queue() == queue_.get(), "a recording of another device");
  queue_->note(recording.description());
  queue_->replay(recording.handle());
}

void GpuDevice::synchronize() {
  CAUSEWAY_CHECK(!recording_, "the device is waited for while launches are recorded");
  queue_->synchronize();
}

std::shared_ptr<DeviceMoment> GpuDevice::mark() {
  auto moment = std::make_shared<GpuMoment>(queue_);
  queue_->record_event(moment->event);
  return moment;
}

double GpuDevice::seconds_between(const DeviceMoment& from, const DeviceMoment& to) {
  const auto& last = static_cast<const GpuMoment&>(to);
  queue_->wait_for_event(last.event);
  return queue_->seconds_between(static_cast<const GpuMoment&>(from).event, last.event);
}

int64_t GpuDevice::memory_limit() const {
  return queue_->memory().free + pool_->cached_bytes() + pool_->bytes_in_use();
}

}  // namespace causeway::device
