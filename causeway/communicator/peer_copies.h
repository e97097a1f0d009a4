// Exchanges among the GPUs of one machine by their copy engines: each rank reads what it is to have of the others'
// memory, which takes no multiprocessor, where a library's kernels hold some of them while they wait and copy. Methods:
// CUDA's memory handles between processes (Programming Guide, Interprocess Communication) and stream memory operations
// (Driver API, 6.18), put together as NCCL 2.28 does for its copy engine collectives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/communicator/communicator.h"
#include "causeway/device/gpu_device.h"

namespace causeway::communicator {

// An all_gather or all_to_all of this rank's.
struct PeerCopy {
  Collective collective;
  const void* from = nullptr;
  void* to = nullptr;
};

// One rank's end. Calls are made by all ranks of the group in the same order.
class PeerCopies {
 public:
  // `control`: the ranks of the group, each a process with a GPU. Null, on all ranks, where one of them cannot read
  // another's memory: on other machines, without a way between the GPUs, on GPUs that share none.
  static std::unique_ptr<PeerCopies> open(GpuDevice& gpu, Communicator& control);
  ~PeerCopies();
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  // What ranks may read of each other: memory as the driver gave it, of one size on all ranks, in which what they send
  // lies at the same place, and what they receive as well. It takes the place of what was shared before. Every rank
  // closes it when it is forgotten, which precedes its release. False, on all ranks, where it cannot be shared; then
  // nothing is.
  bool share(std::byte* memory, size_t bytes);
  void forget();

  // Whether it is done here: from memory that is shared or, of an all_gather, to such memory, and long enough to be
  // worth two meetings of the ranks.
  bool serves(const PeerCopy& copy) const;
  // All at once. When `queue` has done it, each rank has what it is to receive, and nobody reads what it sent.
  void run(std::span<const PeerCopy> copies, DeviceQueue queue);

 private:
  PeerCopies(GpuDevice& gpu, Communicator& control) : gpu_(gpu), control_(control) {}

  // By rank the memory of the others, as this process maps it; nothing, on all ranks, where one cannot.
  std::optional<std::vector<std::byte*>> exchange_memory(std::byte* memory);
  static size_t part_bytes(const Collective& collective);  // what a rank sends to one other
  bool is_shared(const void* memory, size_t bytes) const;
  // Whether others read this rank's part of an all_gather where it receives it: it is there already, or sent from
  // memory that is not shared.
  bool is_read_in_result(const PeerCopy& copy) const;
  void close(std::vector<std::byte*>& mapped) noexcept;
  uint32_t* word(std::byte* words, size_t meeting, int rank) const;
  void tell_others(size_t meeting, DeviceQueue queue);
  void wait_for_others(size_t meeting, DeviceQueue queue);
  int rank() const { return control_.first_local(); }
  int ranks() const { return control_.size(); }

  GpuDevice& gpu_;
  Communicator& control_;
  std::byte* words_ = nullptr;              // a one, and for each meeting a word of each rank's
  std::vector<std::byte*> words_of_ranks_;  // null: this rank's own
  std::byte* shared_ = nullptr;
  size_t shared_bytes_ = 0;
  std::vector<std::byte*> shared_of_ranks_;
};

}  // namespace causeway::communicator
