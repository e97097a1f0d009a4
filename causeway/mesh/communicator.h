// Collectives over a group of devices that one process drives: rank r is the r-th of the devices. A call is made once
// for the whole group, with every rank's buffers; each device does its part in its queue, after what was queued there
// before, and the call may return before it is done.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/graph/dtype.h"

namespace causeway {

// What rank r of n ends up with. Elements of the buffers follow NCCL: `count` is what its functions take.
//
//                  sent        received    received by rank r
// kAllReduce       count       count       the sum over all ranks
// kAllGather       count       n * count   every rank's elements, in the order of ranks
// kReduceScatter   n * count   count       the r-th part of the sum
// kAllToAll        n * count   n * count   every rank's r-th part, in the order of ranks
// kBroadcast       count       count       the root's elements; what others send is not looked at
// kSendReceive     count       count       what rank r - 1 sent (rank 0: what rank n - 1 sent)
//
// In place, as NCCL defines it: kAllReduce and kBroadcast where both buffers are one; kAllGather where a rank sends the
// r-th part of what it receives; kReduceScatter where a rank receives in the r-th part of what it sends. Any other
// overlap, and any in the other two kinds, gives undefined results.
enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kSendReceive };

inline constexpr CollectiveKind kAllCollectives[] = {CollectiveKind::kAllReduce,     CollectiveKind::kAllGather,
                                                     CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll,
                                                     CollectiveKind::kBroadcast,     CollectiveKind::kSendReceive};

// "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_receive".
std::string_view collective_name(CollectiveKind kind);
bool has_in_place(CollectiveKind kind);

struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kF32;  // f32 or bf16
  int64_t count = 0;
  int root = 0;  // kBroadcast

  // Elements of one rank's buffers.
  int64_t sent(int ranks) const;
  int64_t received(int ranks) const;
};

// From one rank to another.
struct Transfer {
  int sender = 0;
  int receiver = 0;
  const void* from = nullptr;  // the sender's memory
  void* to = nullptr;          // the receiver's
  int64_t count = 0;
  DType dtype = DType::kF32;  // f32 or bf16
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Who does the work, with its version: "threads", "NCCL 2.27.5".
  virtual std::string name() const = 0;
  int size() const { return static_cast<int>(devices_.size()); }
  Device& device(int rank) const { return *devices_[static_cast<size_t>(rank)]; }

  // Buffers by rank. Sums of f32 are f32; those of bf16 are rounded as the backend says. Throws Error(kUnsupported) for
  // other types, and Error(kIo) when a library of the backend fails.
  void run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to);
  // All at once, in any order; those between the same two ranks in the order given.
  void send_receive(std::span<const Transfer> transfers);
  // Waits for every device.
  void synchronize();

 protected:
  explicit Communicator(std::vector<std::shared_ptr<Device>> devices);

 private:
  // Of arguments that are checked; never kSendReceive.
  virtual void do_run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to) = 0;
  virtual void do_send_receive(std::span<const Transfer> transfers) = 0;

  std::vector<std::shared_ptr<Device>> devices_;
};

struct CommunicatorOptions {
  // The file of NCCL or RCCL; otherwise the loader's, the vendor's and Python packages' places are searched.
  std::string library;
  // Whether NCCL may let NVSwitch add up what GPUs send (NVLink SHARP). Without it, NCCL_NVLS_ENABLE=0 is put into this
  // process's environment, where NCCL reads it once.
  bool nvlink_multicast = true;
};

// By what the devices are: processors by threads (any number of ranks may share one), NVIDIA's GPUs by NCCL, AMD's by
// RCCL. Throws Error: kUnsupported for other devices and for a mixture, kInvalidArgument for a GPU that is named twice,
// kNotFound where the library is not installed, kIo when it does not start.
std::unique_ptr<Communicator> open_communicator(std::vector<std::shared_ptr<Device>> devices,
                                                const CommunicatorOptions& options = {});

}  // namespace causeway
