// A GPU as a device: what is alike whoever made it, on top of its driver's GpuQueues.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/device/argument_packer.h"
#include "causeway/device/device.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/gpu_memory_pool.h"
#include "causeway/device/gpu_queues.h"
#include "causeway/device/staging_memory.h"
#include "causeway/device/target.h"

namespace causeway::device {

// What the driver says of a GPU.
struct GpuInfo {
  std::string product;      // "NVIDIA H200"
  std::string processor;    // as the vendor names it: "sm_90", "gfx942:sramecc+:xnack-"
  std::string software;     // "driver for CUDA 13.0"
  int parallel_units = 0;   // multiprocessors or compute units
  int shared_bytes = 0;     // most shared memory of one thread block
  int64_t memory_free = 0;  // when asked
  int64_t memory_total = 0;
  // Those that kernels may be compiled for (GpuArchitecture::processor), the best first.
  std::vector<std::string> architectures = {};
};

// One thread at a time, but for load() and the release of buffers. Buffers, modules and recordings may outlive
// the device.
class GpuDevice : public Device {
 public:
  std::string name() const override { return queues_->device(); }
  const Target& target() const override { return target_; }
  // Memory as of this call.
  GpuInfo info();

  // Aligned to 256 bytes, from a pool: see GpuMemoryPool.
  DeviceBuffer allocate(size_t bytes, bool zeroed = false) override;
  // Returns when the host memory may be reused.
  void copy_to_device(void* to, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* from, size_t bytes) override;
  void copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue = kComputeQueue) override;
  void fill_with_zeros(void* memory, size_t bytes) override;
  // Pinned.
  HostBuffer allocate_host(size_t bytes, bool zeroed = false) override;
  void queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) override;
  void queue_copy_to_device(void* to, const void* host, size_t bytes, DeviceQueue queue) override;

  std::shared_ptr<DeviceModule> load(std::string_view image) override;
  void launch(const DeviceLaunch& launch) override;
  std::shared_ptr<DeviceEvent> make_event() override;
  void signal(DeviceEvent& event, DeviceQueue queue) override;
  void wait(const DeviceEvent& event, DeviceQueue queue) override;
  void wait_on_host(const DeviceEvent& event) override;
  bool has_passed(const DeviceEvent& event) override;
  // `work` must not allocate, copy from or to the host but by queue_copy_to_host() and queue_copy_to_device(), or
  // synchronize.
  std::shared_ptr<DeviceGraph> record(const std::function<void()>& work) override;
  void replay(const DeviceGraph& graph) override;
  void synchronize() override;
  std::shared_ptr<DeviceMoment> mark(DeviceQueue queue = kComputeQueue) override;
  double seconds_between(const DeviceMoment& from, const DeviceMoment& to) override;
  // For libraries that work on the calling thread's GPU. Of any thread.
  void make_current() const { queues_->enter(); }
  // The driver's handle of a queue.
  void* stream(DeviceQueue queue = kComputeQueue) { return queues_->stream(queue); }
  // What processes that exchange memory work with.
  GpuQueues& queues() { return *queues_; }

  int64_t bytes_in_use() const override { return pool_->bytes_in_use(); }
  int64_t peak_bytes() const override { return pool_->peak_bytes(); }
  int64_t reserved_bytes() const override { return pool_->reserved_bytes(); }
  int64_t peak_reserved_bytes() const override { return pool_->peak_reserved_bytes(); }
  int64_t occupied_bytes() const override;
  int64_t memory_limit() const override;
  void limit_memory(int64_t bytes) override;
  void release_unused_memory() override { pool_->release_cached(); }
  GpuMemoryPool& pool() { return *pool_; }

 protected:
  // `max_blocks` of a launch and `max_threads` of a launch in all are the driver's limits.
  GpuDevice(std::shared_ptr<GpuQueues> queues, Target target, GpuInfo info, int64_t max_blocks, int64_t max_threads);

 private:
  void check_limits(const DeviceLaunch& launch, const GpuKernel& kernel) const;
  GpuQueues::Event signalled(const DeviceEvent& event) const;

  std::shared_ptr<GpuQueues> queues_;
  Target target_;
  GpuInfo info_;
  int64_t max_blocks_;
  int64_t max_threads_;
  std::shared_ptr<GpuMemoryPool> pool_;
  StagingMemory staging_;
  ArgumentPacker arguments_;
  std::vector<TensorMapBytes> maps_;  // of the launch at hand
  bool recording_ = false;
  std::vector<const std::string*> recorded_;  // names of the kernels launched since record() began
};

}  // namespace causeway::device
