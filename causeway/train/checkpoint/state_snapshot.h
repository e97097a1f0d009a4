// A copy in the host's memory of what a checkpoint holds, which a thread writes out while training goes on.
//
// A GPU copies by itself, in a queue beside its kernels. As the way to the host may take longer than a step, what there
// is room for is copied on the GPU before the next step, and goes on from there beside later steps. The rest is copied
// while the next step computes, which waits only where it is about to write over what is being copied (HeldMemory). A
// device whose memory is the host's copies at once, and so does what lies in the host's memory (offload.optimizer).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "causeway/program/context.h"
#include "causeway/tensor/tensor.h"

namespace causeway::train {

class StateSnapshot {
 public:
  // Of what this rank holds of the tensors, which are of the context.
  StateSnapshot(std::shared_ptr<Context> context, const std::vector<Tensor>& tensors);
  // Waits for a copy that has begun, whose values are lost.
  ~StateSnapshot();
  StateSnapshot(const StateSnapshot&) = delete;
  StateSnapshot& operator=(const StateSnapshot&) = delete;

  // Of host memory, that it takes from prepare() or allocate() on.
  int64_t bytes() const { return bytes_; }
  // Begins to allocate, in a thread of its own beside the context's programs. A driver launches nothing while it pins
  // memory, so that the thread rests after each block as long as the block took. Nothing happens where it was called
  // before.
  void prepare();
  // Returns when all is allocated, without rests from now on. Seconds where the memory is pinned and was not prepared,
  // and nothing where this was called before. Throws Error(kResource), what prepare() met included.
  void allocate();

  // Begins to copy the tensors as they are now, over what was copied before; through memory of the device of at most
  // `spare_bytes`, as far as it is to be had, which it takes until finish(). The thread of the context, after
  // allocate(). Programs of the context may run from now on, and nothing else may write to the tensors.
  void begin(int64_t spare_bytes = 0);
  // Whether finish() would return at once, after begin().
  bool is_copied() const;
  // Returns when all is copied. The seconds for which the context's programs stood still for it. The thread of the
  // context.
  double finish();
  bool is_copying() const { return copying_; }

  // What this rank holds of one of the tensors, as it lies on the device (row-major, or in halves); to be read by any
  // thread after finish() and before the next begin().
  std::span<const std::byte> of(const Tensor& tensor) const;

 private:
  struct Block {
    size_t bytes = 0;
    HostBuffer memory;
  };
  struct Place {
    size_t block = 0;
    size_t offset = 0;
    size_t bytes = 0;
  };

  void allocate_blocks(const std::stop_token& stop);
  void take_spare(int64_t bytes);
  bool passes_through_spare() const;
  void copy_from_host();

  std::shared_ptr<Context> context_;
  std::vector<Tensor> tensors_;              // those on the device first
  size_t on_device_ = 0;                     // how many there are
  std::vector<Place> places_;                // by tensor
  std::map<const void*, size_t> by_memory_;  // the tensors
  std::vector<Block> blocks_;
  std::vector<DeviceBuffer> spare_;  // by block; null where there was no room: of those that come first
  std::shared_ptr<DeviceEvent> copied_;
  int64_t bytes_ = 0;
  bool copying_ = false;
  std::mutex mutex_;  // of what the thread that allocates and the context's share
  std::condition_variable_any hurried_;
  bool hurries_ = false;  // somebody waits: no rests
  std::exception_ptr failure_;
  std::jthread preparing_;  // the last member: it ends before the others do
};

}  // namespace causeway::train
