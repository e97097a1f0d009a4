// A GPU imitated on the processor, for any architecture that kernels are compiled for: the same kernel text, a fiber
// for every thread. Exact and slow. What it finds beside wrong results: threads that wait for each other for ever or
// meet in different operations, too much shared memory, asynchronous results that are used too early; with checked
// kernels also accesses outside of memory and races. What it cannot see: registers, spills, scheduling, the real
// instructions.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/thread_pool.h"
#include "causeway/device/argument_packer.h"
#include "causeway/device/device.h"
#include "causeway/device/emulator/emulated_memory.h"
#include "causeway/device/emulator/late_queues.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {

class ThreadCluster;

struct EmulatorOptions {
  // Draws the order in which threads run. Results must not depend on it; the same seed gives the same order in any run.
  uint64_t seed = 1;
  // The target has the feature "checked": every access to memory is examined, which takes several times as long, and
  // a launch takes twelve times the memory that it touches.
  bool checked = false;
  // Of the host. 0: as many as the processors this process may use.
  int threads = 0;
};

class EmulatorDevice : public Device {
 public:
  // Throws as gpu_architecture() does.
  explicit EmulatorDevice(std::string_view processor, const EmulatorOptions& options = {});
  ~EmulatorDevice() override;

  std::string name() const override { return name_; }  // "emulator:sm_90a"
  const Target& target() const override { return target_; }

  // Memory that is not zeroed holds 0xff: NaN in every floating-point type. A buffer may outlive the device.
  DeviceBuffer allocate(size_t bytes, bool zeroed = false) override;
  // These throw Error(kInvalidArgument) when the device's side is not within one buffer.
  void copy_to_device(void* to, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* from, size_t bytes) override;
  void copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue = kComputeQueue) override;
  void fill_with_zeros(void* memory, size_t bytes) override;
  // Memory that is not zeroed holds 0xff.
  HostBuffer allocate_host(size_t bytes, bool zeroed = false) override;
  // In another queue than the compute queue these are put off, as a launch is.
  void queue_copy_to_device(void* to, const void* host, size_t bytes, DeviceQueue queue) override;
  void queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) override;
  bool shares_host_memory() const override { return true; }
  void run_on_host(std::function<void()> work, DeviceQueue queue = kComputeQueue) override;
  void hasten_messages() override;

  std::shared_ptr<DeviceModule> load(std::string_view image) override;
  // In the compute queue, returns when all blocks have ended; in another one the launch is put off (LateQueues), and
  // whoever waits for it gets its errors. Throws Error(kInvalidArgument) that names kernel, block and thread for
  // whatever a kernel does wrong; what the launch wrote is undefined then, what was put off is dropped, and the device
  // can be used on.
  void launch(const DeviceLaunch& launch) override;
  std::shared_ptr<DeviceEvent> make_event() override { return queues_.make_event(); }
  void signal(DeviceEvent& event, DeviceQueue queue) override { queues_.signal(event, queue); }
  void wait(const DeviceEvent& event, DeviceQueue queue) override { queues_.wait(event, queue); }
  void synchronize() override { queues_.finish(); }

  int64_t bytes_in_use() const override { return memory_->bytes_in_use(); }
  int64_t peak_bytes() const override { return memory_->peak_bytes(); }

 private:
  void launch_now(const DeviceLaunch& launch);
  void check_limits(const DeviceLaunch& launch, const std::string& kernel) const;
  std::vector<TensorMapBytes> encode_maps(const DeviceLaunch& launch, const AllocationTable& allocations,
                                          const std::string& kernel) const;

  Target target_;
  std::string name_;
  uint64_t seed_;
  std::shared_ptr<EmulatedMemory> memory_ = std::make_shared<EmulatedMemory>();
  std::mutex mutex_;  // one launch at a time
  ThreadPool pool_;
  std::vector<std::unique_ptr<ThreadCluster>> clusters_;  // one per thread of the host
  ArgumentPacker arguments_;
  uint64_t launches_ = 0;
  LateQueues queues_;
};

std::unique_ptr<Device> make_emulator_device(std::string_view processor, const EmulatorOptions& options = {});

}  // namespace causeway::device
