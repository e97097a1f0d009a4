// Asynchronous copies of the emulated architectures: cp.async of 16 bytes by every thread, and TMA
// of Hopper (PTX ISA, "Data movement: asynchronous copy"). A destination holds poison from the moment a copy is issued
// until the moment, chosen at random, at which it is applied.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "causeway/device/emulator/async_host.h"
#include "causeway/device/emulator/mbarrier.h"
#include "causeway/device/emulator/tensor_map.h"

namespace causeway::device {

// What shared memory holds before anything is written there, and what a pending copy leaves in its destination: NaN in
// every floating-point type.
inline constexpr std::byte kPoison{0xff};

// Shared memory as the asynchronous proxy sees it: ordinary stores become visible to TMA and to
// wgmma by fence_async_shared(). Where kernels report their stores, a fence publishes those of its own thread; where
// they do not, those of all threads of the block.
class AsyncView {
 public:
  explicit AsyncView(AsyncHost& host) : host_(host) {}

  // The running thread stores to its block's shared memory.
  void stored(int offset, int bytes);
  // A copy of the running thread's has ended there: to be published like a store.
  void copied(int offset, int bytes);
  void publish();  // fence_async_shared()
  // The engine itself wrote these bytes of that block.
  void written(int block_rank, int offset, int bytes);
  // Fails when a byte was stored to since the last fence. `reader` is the operation that is about to read.
  void check(int block_rank, int offset, int bytes, const std::string& reader);

 private:
  std::vector<std::byte>& view(int block_rank);

  AsyncHost& host_;
  std::map<int, std::vector<std::byte>> views_;
  bool reports_stores_ = false;
  std::map<std::pair<int, int>, std::map<int, int>> stores_;  // of a thread, not yet published: offset to bytes
};

// cp.async.
class ThreadCopies {
 public:
  ThreadCopies(AsyncHost& host, AsyncView& view) : host_(host), view_(view) {}

  void copy_16(void* shared, const void* global, bool valid);
  void commit();
  void wait(int groups);

 private:
  struct Copy {
    void* shared;
    const void* global;
    bool valid;
  };
  struct Thread {
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
  };
  void apply(const Copy& copy);
  Thread& current() { return threads_[{host_.block_rank(), host_.thread()}]; }

  AsyncHost& host_;
  AsyncView& view_;
  std::map<std::pair<int, int>, Thread> threads_;
};

// cp.async.bulk.tensor.
class TensorCopies {
 public:
  TensorCopies(AsyncHost& host, DelayedEffects& effects, Mbarriers& barriers, AsyncView& view)
      : host_(host), effects_(effects), barriers_(barriers), view_(view) {}

  // With a mask of 0, to the running thread's block only.
  void load(void* shared, const void* map, void* barrier, const BoxCoordinates& first, int rank, uint32_t block_mask);
  void store(const void* map, const void* shared, const BoxCoordinates& first, int rank);
  // `bytes` of shared memory to `to`, or floats added to those there.
  void store(float* to, const void* shared, int bytes, bool adds);
  void store_commit();
  void store_wait(int groups);
  void write_wait(int groups);
  void prefetch(const void* map) { decode(map, "prefetch_tensor_map()"); }
  // The running thread has ended: its stores must no longer need its block's shared memory.
  void thread_ended();

 private:
  struct Store {
    EmulatedTensorMap map;
    BoxCoordinates first;
    float* to = nullptr;  // without a map
    int bytes = 0;
    bool adds = false;
    int block_rank = 0;
    int thread = 0;
    int offset = 0;
    std::vector<std::byte> box;  // once it is read
    bool read = false;
    bool written = false;
  };
  using StorePointer = std::shared_ptr<Store>;
  struct Thread {
    std::vector<StorePointer> open;
    std::deque<std::vector<StorePointer>> groups;  // from the oldest one with a store that is not written on
  };

  static void drop_written(Thread& thread);
  const EmulatedTensorMap& decode(const void* map, const std::string& by);
  int box_offset(const EmulatedTensorMap& map, const void* shared, int rank, const std::string& by);
  void read(Store& store);
  void advance(const StorePointer& store);

  AsyncHost& host_;
  DelayedEffects& effects_;
  Mbarriers& barriers_;
  AsyncView& view_;
  std::map<std::pair<int, int>, Thread> threads_;
};

}  // namespace causeway::device
