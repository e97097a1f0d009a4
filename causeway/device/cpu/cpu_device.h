// The processor as a device: memory, and launches of compiled kernels over a pool of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "causeway/base/thread_pool.h"
#include "causeway/device/cpu/cpu_module.h"
#include "causeway/device/device.h"
#include "causeway/device/target.h"

namespace causeway::device {

// Bytes in use, now and at most, over the life of a device. Thread-safe.
struct MemoryUse {
  std::atomic<int64_t> current{0};
  std::atomic<int64_t> peak{0};
};

class CpuDevice : public Device {
 public:
  // `thread_count` 0: as many as the processors this process may use.
  explicit CpuDevice(int thread_count = 0);
  // Kernels as a processor of this target has them: see host_target_of_level().
  explicit CpuDevice(const Target& target, int thread_count = 0);

  std::string name() const override { return "cpu"; }
  const Target& target() const override { return target_; }
  int thread_count() const { return pool_.thread_count(); }
  int scratch_workers() const override { return thread_count(); }
  // Not while a launch runs. Results of kernels do not depend on it.
  void set_thread_count(int thread_count);
  ThreadPool& pool() { return pool_; }

  // Aligned to 64 bytes; buffers of 2 MiB and more ask for huge pages and begin on one. A buffer may outlive the
  // device.
  DeviceBuffer allocate(size_t bytes, bool zeroed = false) override;
  void copy_to_device(void* to, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* from, size_t bytes) override;
  void copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue = kComputeQueue) override;
  void fill_with_zeros(void* memory, size_t bytes) override;
  // On all workers, at once.
  void queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) override;
  bool shares_host_memory() const override { return true; }

  std::shared_ptr<DeviceModule> load(std::string_view image) override;
  // Runs the CpuKernel for every task and returns when all have ended. A single task runs on the calling thread. One
  // launch at a time. Scratch is kept for each worker and grows with demand.
  void launch(const DeviceLaunch& launch) override;
  void synchronize() override {}

  int64_t bytes_in_use() const override { return use_->current.load(); }  // scratch included
  int64_t peak_bytes() const override { return use_->peak.load(); }
  // What the machine and the process's control groups have left, with what this process holds already.
  int64_t memory_limit() const override;
  int64_t launch_count() const { return launch_count_; }

 private:
  Target target_;
  ThreadPool pool_;
  std::shared_ptr<MemoryUse> use_ = std::make_shared<MemoryUse>();
  std::vector<DeviceBuffer> scratch_;  // one per worker
  int64_t launch_count_ = 0;
};

}  // namespace causeway::device
