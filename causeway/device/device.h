// What the program asks of a device, whatever its vendor: memory, kernels, launches, on queues of work that events
// order. A launch may return before it has run. Pointers are addresses in the device's memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "causeway/device/target.h"

namespace causeway::device {

// A queue of a device. Work in it runs in order; queues run beside one another where the device can, and whoever needs
// an order between them uses events. A device makes a queue when it is first named.
using DeviceQueue = int;
// Where everything goes that names no queue. Buffers are handed out and released in its order: who uses one in another
// queue lets this queue wait for that before the buffer is released.
inline constexpr DeviceQueue kComputeQueue = 0;
// Copies that run beside kernels.
inline constexpr DeviceQueue kCopyQueue = 1;
// What ranks exchange beside kernels.
inline constexpr DeviceQueue kCommunicationQueue = 2;
// Copies to the host that run beside everything else.
inline constexpr DeviceQueue kSaveQueue = 3;
// Messages between two ranks beside kernels: of each stream those sent have a queue, and those received another.
inline constexpr int kMessageStreams = 3;
inline constexpr DeviceQueue send_queue(int stream) { return 4 + 2 * stream; }
inline constexpr DeviceQueue receive_queue(int stream) { return 5 + 2 * stream; }
// What programs keep in the host's memory comes by one of these queues and goes by the other, so that both ways of the
// link are used at once.
inline constexpr DeviceQueue kLoadQueue = 4 + 2 * kMessageStreams;
inline constexpr DeviceQueue kStoreQueue = kLoadQueue + 1;

// A piece of device memory, shared by reference and released with the last one.
struct DeviceBuffer {
  std::shared_ptr<std::byte> memory;
  size_t bytes = 0;
  std::byte* data() const { return memory.get(); }
};

// A piece of host memory, likewise.
struct HostBuffer {
  std::shared_ptr<std::byte> memory;
  size_t bytes = 0;
  std::byte* data() const { return memory.get(); }
};

// A kernel's entry point; valid while its module lives. What it points to is the device's business.
using DeviceKernel = const void*;

// A loaded image.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;
  // Throws Error(kNotFound) when the image exports no such function.
  virtual DeviceKernel kernel(const std::string& name) const = 0;
};

// A window through which TMA moves boxes of a buffer into shared memory (cuTensorMapEncodeTiled).
// Dimension 0 is the contiguous one. Elements outside `sizes` read as zero and are not written.
struct TensorMap {
  static constexpr int kMaxRank = 5;
  int buffer = 0;         // position in DeviceLaunch::buffers
  int64_t offset = 0;     // of the first element, in bytes; a multiple of 16
  int element_bytes = 2;  // 1, 2 or 4
  int rank = 2;
  std::array<int64_t, kMaxRank> sizes{};         // elements
  std::array<int64_t, kMaxRank> stride_bytes{};  // [0] is element_bytes; the others are multiples of 16
  std::array<int, kMaxRank> box{};               // elements, at most 256 each
  // 0, 32, 64 or 128: pattern in which 16-byte pieces of the box lie in shared memory, whose rows are that far apart.
  int swizzle_bytes = 0;
  // Elements are f32 and are rounded to tf32 when they are loaded: to the nearest, ties to even.
  bool rounds_to_tf32 = false;

  bool operator==(const TensorMap&) const = default;
};

// A kernel over `task_count` tasks. A task is a call on one of a CPU's workers, or one block of threads of a GPU.
struct DeviceLaunch {
  DeviceKernel kernel = nullptr;
  std::span<void* const> buffers;
  std::span<const int64_t> sizes;
  int64_t task_count = 0;
  int64_t scratch_bytes = 0;  // CPU: per worker
  int threads = 1;            // GPU: per task, a multiple of the wave's width
  int shared_bytes = 0;       // GPU: shared memory of a task
  int cluster = 1;            // GPU: neighbouring tasks that run at the same time and share memory; divides task_count
  std::span<const TensorMap> tensor_maps = {};
  DeviceQueue queue = kComputeQueue;
  // What was queued last is a launch of the same program. On a GPU whose kernels wait for that themselves
  // (intrinsics.h) blocks are then set up before it has ended.
  bool follows_launch = false;
};

// A point in a queue that other queues wait for.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

// Recorded launches, copies and events, replayed in one go. Addresses are those of the recording.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
};

// A moment in a queue of a device: when the work before it was done.
class DeviceMoment {
 public:
  virtual ~DeviceMoment() = default;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;
  virtual const Target& target() const = 0;

  // Contents are undefined unless zeroed. Zero bytes give a null buffer. Throws Error(kResource) naming the size.
  // Above a limit of limit_memory() it names that too, and what is in use.
  virtual DeviceBuffer allocate(size_t bytes, bool zeroed = false) = 0;
  virtual void copy_to_device(void* to, const void* host, size_t bytes) = 0;
  // Waits for the work that the compute queue was given before it.
  virtual void copy_to_host(void* host, const void* from, size_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue = kComputeQueue) = 0;
  virtual void fill_with_zeros(void* memory, size_t bytes) = 0;
  // Host memory that the device copies to and from by itself, with every page there: it may take seconds to get.
  // Contents are undefined unless zeroed. Any thread may ask for it, and read it. Zero bytes give a null buffer. Throws
  // Error(kResource) naming the size.
  virtual HostBuffer allocate_host(size_t bytes, bool zeroed = false);
  // To memory of allocate_host(), in a queue's order: the bytes are there when an event after it has passed, or the
  // device was synchronized. May be recorded.
  virtual void queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue);
  // From memory of allocate_host(), in a queue's order: it stays as it is until an event after it has passed, or the
  // device was synchronized. May be recorded.
  virtual void queue_copy_to_device(void* to, const void* host, size_t bytes, DeviceQueue queue);
  // Whether this process reads and writes the device's memory as its own.
  virtual bool shares_host_memory() const { return false; }
  // Where it does: `work` of the host in a queue's order, on buffers of the device. It runs on a thread that uses the
  // device, and whoever waits for the queue gets what it throws.
  virtual void run_on_host(std::function<void()> work, DeviceQueue queue = kComputeQueue);
  // Called by such work before it waits for other ranks, which may wait for this one's messages: none that send queues
  // were given may be put off any longer.
  virtual void hasten_messages() {}

  // An image as compile_module() gives it for target(). May take long: NVIDIA's driver makes machine code here.
  // Thread-safe.
  virtual std::shared_ptr<DeviceModule> load(std::string_view image) = 0;
  // Throws Error(kResource) when the kernel needs more shared memory or threads than the device has.
  virtual void launch(const DeviceLaunch& launch) = 0;

  // An event passes when the work that `queue` was given before signal() has ended. What `queue` is given after wait()
  // runs when the event has passed as it was last signalled; waiting for one that never was is an InternalError. An
  // event may outlive the device. A device that has done its work when a call returns has nothing to order.
  virtual std::shared_ptr<DeviceEvent> make_event();
  virtual void signal(DeviceEvent& event, DeviceQueue queue);
  virtual void wait(const DeviceEvent& event, DeviceQueue queue);
  // Returns when the event has passed.
  virtual void wait_on_host(const DeviceEvent& event) { wait(event, kComputeQueue); }
  // Whether it has, without waiting; a device that does its work when it is waited for does it.
  virtual bool has_passed(const DeviceEvent& event) {
    wait_on_host(event);
    return true;
  }

  // Runs `work`, whose launches, copies on the device and events are recorded instead of executed. Other queues than
  // the compute queue are part of it from where they wait for an event signalled in it, and the compute queue waits for
  // them before `work` ends. Null where the device has no such thing; `work` has then not run.
  virtual std::shared_ptr<DeviceGraph> record(const std::function<void()>& work) { return nullptr; }
  // In the compute queue.
  virtual void replay(const DeviceGraph& graph) {}
  // Waits for all queues.
  virtual void synchronize() = 0;
  // Workers that each keep DeviceLaunch::scratch_bytes of the launch that needs most; 0 where launches need none.
  virtual int scratch_workers() const { return 0; }

  // For timing, by the device's own clock where it has one: marks a queue, not while work is recorded; seconds between
  // two marks of any queues, waiting for the later one to pass.
  virtual std::shared_ptr<DeviceMoment> mark(DeviceQueue queue = kComputeQueue);
  virtual double seconds_between(const DeviceMoment& from, const DeviceMoment& to);

  // Of buffers, as they were asked for: now, and at most so far.
  virtual int64_t bytes_in_use() const = 0;
  virtual int64_t peak_bytes() const = 0;
  // What the driver has given for buffers, in its own units, with what is held for reuse.
  virtual int64_t reserved_bytes() const { return bytes_in_use(); }
  virtual int64_t peak_reserved_bytes() const { return peak_bytes(); }
  // All that is taken of the device's memory, by whomever: buffers, contexts, modules, libraries, other processes. 0
  // where no driver says.
  virtual int64_t occupied_bytes() const { return 0; }
  // All that buffers could take, those in use included, at most what limit_memory() says; 0 where the device does not
  // say.
  virtual int64_t memory_limit() const { return at_most_limit(0); }
  // From now on buffers take at most so many bytes (reserved_bytes()): the key device_memory_limit of a recipe. 0: as
  // many as there are. Buffers that are there already stay.
  virtual void limit_memory(int64_t bytes) { limit_ = bytes; }
  // What limit_memory() was told; 0: nothing.
  int64_t told_limit() const { return limit_; }
  // Gives back to the driver what is held for reuse, for other processes to take. Waits for the work launched before
  // it.
  virtual void release_unused_memory() {}

 protected:
  // The lesser of what the device has (0: it does not say) and what limit_memory() was told.
  int64_t at_most_limit(int64_t bytes) const {
    return limit_ == 0 ? bytes : bytes == 0 ? limit_ : std::min(bytes, limit_);
  }

 private:
  int64_t limit_ = 0;
};

// Throws Error(kResource) where `bytes` more than `in_use` are above `limit` (0: there is none). `device`: its name.
void require_below_limit(size_t bytes, int64_t in_use, int64_t limit, const std::string& device);

}  // namespace causeway::device
