#include "causeway/device/emulator/emulator_device.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/device/emulator/emulator_module.h"
#include "causeway/device/emulator/thread_cluster.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {
namespace {

constexpr int kMostThreads = 1024;     // of a block, on every architecture
constexpr int kMostClusterBlocks = 8;  // that every GPU of NVIDIA's can hold
// Blocks are spread over this many units, so that tests are quick.
constexpr int kParallelUnits = 4;

Target emulated_target(std::string_view processor, bool checked) {
  Target target = gpu_target(processor, true);
  target.parallel_units = kParallelUnits;
  if (checked) target.add_feature("checked");
  return target;
}

}  // namespace

EmulatorDevice::EmulatorDevice(std::string_view processor, const EmulatorOptions& options)
    : target_(emulated_target(processor, options.checked)),
      name_(fmt::format("emulator:{}", target_.processor)),
      seed_(options.seed),
      pool_(options.threads) {
  for (int i = 0; i < pool_.thread_count(); ++i) clusters_.push_back(std::make_unique<ThreadCluster>());
}

EmulatorDevice::~EmulatorDevice() = default;

DeviceBuffer EmulatorDevice::allocate(size_t bytes, bool zeroed) {
  require_below_limit(bytes, bytes_in_use(), told_limit(), name_);
  return memory_->allocate(bytes, zeroed, name_);
}

HostBuffer EmulatorDevice::allocate_host(size_t bytes, bool zeroed) {
  HostBuffer buffer = Device::allocate_host(bytes, zeroed);
  if (!zeroed && bytes != 0) std::memset(buffer.data(), kPoisonByte, bytes);
  return buffer;
}

void EmulatorDevice::copy_to_device(void* to, const void* host, size_t bytes) {
  memory_->require(to, bytes, "copy_to_device()", name_);
  if (bytes != 0) std::memcpy(to, host, bytes);
}

void EmulatorDevice::copy_to_host(void* host, const void* from, size_t bytes) {
  memory_->require(from, bytes, "copy_to_host()", name_);
  if (bytes != 0) std::memcpy(host, from, bytes);
}

void EmulatorDevice::copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue) {
  queues_.add(queue, [this, to, from, bytes] {
    memory_->require(to, bytes, "copy_on_device()", name_);
    memory_->require(from, bytes, "copy_on_device()", name_);
    if (bytes != 0) std::memmove(to, from, bytes);
  });
}

void EmulatorDevice::fill_with_zeros(void* memory, size_t bytes) {
  memory_->require(memory, bytes, "fill_with_zeros()", name_);
  if (bytes != 0) std::memset(memory, 0, bytes);
}

void EmulatorDevice::queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) {
  queues_.add(queue, [this, host, from, bytes] { copy_to_host(host, from, bytes); });
}

void EmulatorDevice::queue_copy_to_device(void* to, const void* host, size_t bytes, DeviceQueue queue) {
  queues_.add(queue, [this, to, host, bytes] { copy_to_device(to, host, bytes); });
}

void EmulatorDevice::run_on_host(std::function<void()> work, DeviceQueue queue) { queues_.add(queue, std::move(work)); }

void EmulatorDevice::hasten_messages() {
  for (int stream = 0; stream < kMessageStreams; ++stream) queues_.finish(send_queue(stream));
}

std::shared_ptr<DeviceModule> EmulatorDevice::load(std::string_view image) {
  return std::make_shared<EmulatorModule>(image, name_);
}

void EmulatorDevice::check_limits(const DeviceLaunch& launch, const std::string& kernel) const {
  const GpuArchitecture& architecture = target_.architecture();
  const std::string where = fmt::format("kernel {} on {}", kernel, name_);
  if (launch.threads > kMostThreads) {
    throw Error(ErrorKind::kResource,
                fmt::format("a block of {} threads is asked for, and {} has at most {}", launch.threads,
                            architecture.processor, kMostThreads),
                where);
  }
  if (launch.threads < 1 || launch.threads % architecture.wave_width != 0) {
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("a block of {} threads is not made of whole waves of {}", launch.threads, architecture.wave_width),
        where);
  }
  if (launch.shared_bytes < 0 || launch.shared_bytes > architecture.shared_bytes) {
    throw Error(ErrorKind::kResource,
                fmt::format("{} bytes of shared memory are asked for, and a block on {} has at most {}",
                            launch.shared_bytes, architecture.processor, architecture.shared_bytes),
                where, "Use smaller tiles or fewer stages.");
  }
  const int most_blocks = architecture.has_clusters ? kMostClusterBlocks : 1;
  if (launch.cluster < 1 || launch.cluster > most_blocks) {
    throw Error(ErrorKind::kResource,
                fmt::format("clusters of {} blocks are asked for, and {} has at most {}", launch.cluster,
                            architecture.processor, most_blocks),
                where);
  }
  if (launch.task_count < 0 || launch.task_count % launch.cluster != 0 || launch.task_count > INT32_MAX) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} blocks cannot be launched in clusters of {}", launch.task_count, launch.cluster),
                where);
  }
}

std::vector<TensorMapBytes> EmulatorDevice::encode_maps(const DeviceLaunch& launch, const AllocationTable& allocations,
                                                        const std::string& kernel) const {
  std::vector<TensorMapBytes> encoded(launch.tensor_maps.size());
  for (size_t i = 0; i < encoded.size(); ++i) {
    const TensorMap& map = launch.tensor_maps[i];
    const std::string where = fmt::format("tensor map {} of kernel {} on {}", i, kernel, name_);
    if (map.buffer < 0 || static_cast<size_t>(map.buffer) >= launch.buffers.size()) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("it is of buffer {}, and the launch has {}", map.buffer, launch.buffers.size()), where);
    }
    if (!target_.architecture().has_tma) {
      throw Error(ErrorKind::kInvalidArgument, fmt::format("{} has no TMA", target_.processor), where);
    }
    const EmulatedTensorMap emulated = encode_tensor_map(map, launch.buffers[static_cast<size_t>(map.buffer)]);
    int64_t last = map.element_bytes - 1;
    for (size_t d = 0; d < static_cast<size_t>(map.rank); ++d) last += (map.sizes[d] - 1) * map.stride_bytes[d];
    const auto begin = reinterpret_cast<uintptr_t>(emulated.base);
    const AllocationTable::Range range = allocations.find(begin);
    if (range.begin == range.end || begin + static_cast<uintptr_t>(last) >= range.end) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("it covers {} bytes that begin {}", last + 1, allocations.describe(begin)), where);
    }
    std::memcpy(encoded[i].bytes, &emulated, sizeof emulated);
  }
  return encoded;
}

void EmulatorDevice::launch(const DeviceLaunch& launch) {
  if (launch.queue == kComputeQueue) return launch_now(launch);
  // What the launch points to is the caller's.
  queues_.add(launch.queue, [this, launch = launch, buffers = std::vector(launch.buffers.begin(), launch.buffers.end()),
                             sizes = std::vector(launch.sizes.begin(), launch.sizes.end()),
                             maps = std::vector(launch.tensor_maps.begin(), launch.tensor_maps.end())]() mutable {
    launch.buffers = buffers;
    launch.sizes = sizes;
    launch.tensor_maps = maps;
    launch_now(launch);
  });
}

void EmulatorDevice::launch_now(const DeviceLaunch& launch) {
  const auto& kernel = *static_cast<const EmulatedKernel*>(launch.kernel);
  check_limits(launch, kernel.name);
  const std::lock_guard lock(mutex_);
  ++launches_;
  if (launch.task_count == 0) return;
  EmulatedLaunch emulated;
  emulated.allocations = memory_->table();
  arguments_.pack(encode_maps(launch, *emulated.allocations, kernel.name), launch.buffers, launch.sizes);
  emulated.kernel = &kernel;
  emulated.architecture = &target_.architecture();
  emulated.arguments = arguments_.data();
  emulated.argument_bytes = arguments_.bytes();
  emulated.blocks = static_cast<int>(launch.task_count);
  emulated.threads = launch.threads;
  emulated.shared_bytes = launch.shared_bytes;
  emulated.cluster = launch.cluster;
  emulated.seed = seed_ + launches_ * 0x9e3779b97f4a7c15;
  emulated.checked = target_.has_feature("checked");
  GlobalHistory history;
  if (emulated.checked) emulated.history = &history;
  try {
    pool_.run(launch.task_count / launch.cluster,
              [&](int64_t cluster, int worker) { clusters_[static_cast<size_t>(worker)]->run(emulated, cluster); });
  } catch (...) {
    queues_.abandon();
    throw;
  }
}

std::unique_ptr<Device> make_emulator_device(std::string_view processor, const EmulatorOptions& options) {
  return std::make_unique<EmulatorDevice>(processor, options);
}

}  // namespace causeway::device
