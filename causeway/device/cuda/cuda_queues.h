// One NVIDIA GPU's primary context with streams of its own, as a GpuQueues.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/device/cuda/cuda_driver.h"
#include "causeway/device/gpu_queues.h"

namespace causeway::device {

class CudaQueues : public GpuQueues {
 public:
  // `device` is the driver's handle. Throws Error(kResource) when another process holds the GPU for itself, or its
  // memory is full.
  CudaQueues(std::shared_ptr<const CudaDriver> driver, std::string name, int device);
  ~CudaQueues() override;

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
  bool shares_memory() const override {
    return driver_->stream_wait_word != nullptr && driver_->stream_write_word != nullptr;
  }
  MemoryHandle export_memory(void* memory) override;
  void* import_memory(const MemoryHandle& handle) override;
  void close_imported(void* memory) noexcept override;
  void wait_for_word(const uint32_t* word, uint32_t value, DeviceQueue queue) override;
  void write_word(uint32_t* word, uint32_t value, DeviceQueue queue) override;
  // A CudaImage.
  void* load_image(std::string_view image) override;
  void unload_image(void* image) noexcept override;
  GpuKernel find_kernel(void* image, const std::string& name) override;
  TensorMapBytes encode_tensor_map(const TensorMap& map, void* buffer) override;
  void launch(const GpuLaunch& launch) override;
  void begin_recording() override;
  void* end_recording() override;
  void abandon_recording() noexcept override;
  void replay(void* recording) override;
  void release_recording(void* recording) noexcept override;

 private:
  // Of all queues; gives the first failure.
  CudaDriver::Result wait_for_streams() const noexcept;
  void check(CudaDriver::Result result, std::string_view doing) const;

  std::shared_ptr<const CudaDriver> driver_;
  int handle_;
  void* context_ = nullptr;
  mutable std::mutex streams_mutex_;
  std::vector<void*> streams_;  // by queue; null where nobody has named it yet
};

}  // namespace causeway::device
