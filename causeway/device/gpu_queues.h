// What the vendors' drivers do alike: one GPU, its queues of work, its memory and its kernels. GpuDevice is written
// against this. Every call binds the GPU to the calling thread first, and throws Error when the driver
// refuses; those marked noexcept ignore it, as they also run while the process ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "causeway/device/argument_packer.h"
#include "causeway/device/device.h"

namespace causeway::device {

// What a GPU's DeviceKernel points to.
struct GpuKernel {
  std::string name;
  void* function = nullptr;              // the driver's handle
  int max_threads = 0;                   // per block, given the kernel's registers
  int fixed_shared_bytes = 0;            // declared by the kernel itself
  int argument_bytes = -1;               // -1: the driver does not tell
  mutable int dynamic_shared_limit = 0;  // granted so far
};

struct GpuLaunch {
  const GpuKernel* kernel = nullptr;
  unsigned blocks = 0;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  unsigned cluster = 1;
  void* arguments = nullptr;
  size_t argument_bytes = 0;
  DeviceQueue queue = kComputeQueue;
  bool may_begin_early = false;  // the kernel waits for what was launched before it
};

class GpuQueues {
 public:
  struct Memory {
    int64_t free = 0;
    int64_t total = 0;
  };
  enum class Direction { kToDevice, kToHost, kOnDevice };
  using Event = void*;

  explicit GpuQueues(std::string device) : device_(std::move(device)) {}
  virtual ~GpuQueues() = default;
  GpuQueues(const GpuQueues&) = delete;
  GpuQueues& operator=(const GpuQueues&) = delete;

  // "cuda:0".
  const std::string& device() const { return device_; }
  // Binds the GPU to the calling thread, and no more.
  virtual void enter() const = 0;

  // Null when the memory is not to be had.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual Memory memory() = 0;
  // Host memory that the device reads and writes directly.
  virtual void* allocate_pinned(size_t bytes) = 0;
  virtual void release_pinned(void* memory) noexcept = 0;

  // Queued. Host memory must be pinned and stay as it is until an event after the copy has passed.
  virtual void copy(void* to, const void* from, size_t bytes, Direction direction,
                    DeviceQueue queue = kComputeQueue) = 0;
  // In the compute queue.
  virtual void fill_with_zeros(void* memory, size_t bytes) = 0;

  virtual Event make_event(bool timed = false) = 0;
  virtual void release_event(Event event) noexcept = 0;
  virtual void record_event(Event event, DeviceQueue queue = kComputeQueue) = 0;
  // Returns when the event has passed.
  virtual void wait_for_event(Event event) = 0;
  virtual bool has_passed(Event event) = 0;
  // What `queue` is given from now on runs when the event has passed.
  virtual void wait_in_queue(Event event, DeviceQueue queue) = 0;
  // Of timed events that have passed.
  virtual double seconds_between(Event from, Event to) = 0;
  // Of all queues.
  virtual void synchronize() = 0;
  // The driver's handle of a queue, for libraries that queue work of their own.
  virtual void* stream(DeviceQueue queue = kComputeQueue) = 0;

  // Whether GPUs of several processes of a machine may read each other's memory, and queues wait for what another one
  // writes there: the five calls below.
  virtual bool shares_memory() const { return false; }
  // For another process, of memory as allocate() gave it.
  using MemoryHandle = std::array<std::byte, 64>;
  virtual MemoryHandle export_memory(void* memory);
  // Another process's memory, as this GPU reads and writes it, until it is closed. Null where it cannot be had: the
  // other GPU is out of reach. As often as it is imported it has to be closed; whoever exported it releases it
  // afterwards.
  virtual void* import_memory(const MemoryHandle& handle);
  virtual void close_imported(void* memory) noexcept {}
  // What `queue` is given from now on runs when the word, in this GPU's memory, has the value. May be recorded.
  virtual void wait_for_word(const uint32_t* word, uint32_t value, DeviceQueue queue);
  virtual void write_word(uint32_t* word, uint32_t value, DeviceQueue queue);

  virtual void* load_image(std::string_view image) = 0;  // thread-safe
  virtual void unload_image(void* image) noexcept = 0;
  // Throws Error(kNotFound) when the image exports no such kernel.
  virtual GpuKernel find_kernel(void* image, const std::string& name) = 0;
  // Of the same size and alignment for any device of the vendor. Throws Error(kUnsupported) where there is no copy
  // engine that reads maps.
  virtual TensorMapBytes encode_tensor_map(const TensorMap& map, void* buffer) = 0;
  // The arguments may be reused when it returns.
  virtual void launch(const GpuLaunch& launch) = 0;

  // Until end_recording(), work that this thread gives the compute queue is recorded instead, and so is that of queues
  // which wait for an event recorded in it; by its end the compute queue has waited for each of them.
  virtual void begin_recording() = 0;
  virtual void* end_recording() = 0;
  virtual void abandon_recording() noexcept = 0;
  // In the compute queue.
  virtual void replay(void* recording) = 0;
  virtual void release_recording(void* recording) noexcept = 0;

  // What was queued of late, for the message when the device reports a fault later on. `name` must live until
  // forget() of the same object.
  void note(const std::string& name);
  void forget(const std::string& name) noexcept;
  // "a, b, c", oldest first; "none" when nothing was queued.
  std::string recent() const;

 protected:
  // Throws what the driver reported. `fatal`: the device serves this process no more.
  [[noreturn]] void fail(std::string_view doing, std::string_view code_name, std::string_view code_text,
                         bool fatal) const;

 private:
  std::string device_;
  mutable std::mutex mutex_;
  std::array<const std::string*, 6> noted_{};  // a ring
  size_t next_ = 0;
};

}  // namespace causeway::device
