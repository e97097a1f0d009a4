// One AMD GPU with streams of its own, as a GpuQueues.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/device/gpu_queues.h"
#include "causeway/device/hip/hip_runtime.h"

namespace causeway::device {

class HipQueues : public GpuQueues {
 public:
  HipQueues(std::shared_ptr<const HipRuntime> runtime, std::string name, int device);
  ~HipQueues() override;

  void enter() const override;
  void* allocate(size_t bytes) override;
  void release(void* memory) noexcept override;
  Memory memory() override;
  void* allocate_pinned(size_t bytes) override;
  void release_pinned(void* memory) noexcept override;
  void copy(void* to, const void* from, size_t bytes, Direction direction, DeviceQueue queue = kComputeQueue) override;
  void fill_with_zeros(void* memory, size_t bytes) override;
  Event make_event(bool timed) override;
  void release_event(Event event) noexcept override;
  void record_event(Event event, DeviceQueue queue = kComputeQueue) override;
  void wait_for_event(Event event) override;
  bool has_passed(Event event) override;
  void wait_in_queue(Event event, DeviceQueue queue) override;
  double seconds_between(Event from, Event to) override;
  void synchronize() override;
  // Thread-safe.
  void* stream(DeviceQueue queue = kComputeQueue) override;
  void* load_image(std::string_view image) override;
  void unload_image(void* module) noexcept override;
  GpuKernel find_kernel(void* module, const std::string& name) override;
  TensorMapBytes encode_tensor_map(const TensorMap& map, void* buffer) override;
  void launch(const GpuLaunch& launch) override;
  void begin_recording() override;
  void* end_recording() override;
  void abandon_recording() noexcept override;
  void replay(void* recording) override;
  void release_recording(void* recording) noexcept override;

 private:
  // Of all queues; gives the first failure.
  HipRuntime::Result wait_for_streams() const noexcept;
  void check(HipRuntime::Result result, std::string_view doing) const;

  std::shared_ptr<const HipRuntime> runtime_;
  int index_;
  mutable std::mutex streams_mutex_;
  std::vector<void*> streams_;  // by queue; null where nobody has named it yet
};

}  // namespace causeway::device
