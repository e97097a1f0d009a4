// Collectives over a group of ranks, each with a device of its own or a share of one. Who has a Communicator drives a
// contiguous range of the ranks, its local ones: all of them, or exactly one, as a rank's end of a group of processes
// or of threads has (below, such a thread counts as a process). Every process of the group makes the same calls in the
// same order, each with the buffers of its local ranks; each device does its part in a queue, after what was queued
// there before, and a call may return before it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/device/device.h"
#include "causeway/graph/dtype.h"

namespace causeway::communicator {

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
  bool operator==(const Collective&) const = default;
};

// From one rank to another.
struct Transfer {
  int sender = 0;
  int receiver = 0;
  const void* from = nullptr;  // the sender's memory; not looked at where the sender is not local
  void* to = nullptr;          // the receiver's, likewise
  int64_t count = 0;
  DType dtype = DType::kF32;  // f32 or bf16
};

// From this process's rank to another one, or from another one to it.
struct Message {
  int peer = 0;
  int stream = 0;  // below device::kMessageStreams: messages of one stream between the same two ranks arrive in order
  int64_t count = 0;
  DType dtype = DType::kF32;  // f32 or bf16
};

// How ranks lie on machines.
struct Placement {
  int machines = 1;
  // Of the machine that has the most ranks for its processors: ranks that compute on processors, and the processors
  // that they may use. No such ranks on GPUs.
  int ranks = 0;
  int processors = 0;
};

// The exchange itself failed, so that what the ranks do from here on cannot be agreed on: most often because another
// one is gone.
struct CollectiveError : Error {
  using Error::Error;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Who does the work, with its version: "threads", "NCCL 2.27.5", "Open MPI 4.1.4".
  virtual std::string name() const = 0;
  int size() const { return size_; }
  // Local ranks are [first_local(), first_local() + local_size()); never none.
  int first_local() const { return first_local_; }
  int local_size() const { return static_cast<int>(devices_.size()); }
  bool is_local(int rank) const { return rank >= first_local_ && rank < first_local_ + local_size(); }
  bool spans_processes() const { return local_size() < size_; }
  // Of a local rank.
  Device& device(int rank) const { return *shared_device(rank); }
  const std::shared_ptr<Device>& shared_device(int rank) const;
  virtual Placement placement() const;

  // Where ranks have to be connected before anything runs, that may go on beside other work from here on, in a thread.
  // Called by all processes, as connect(), which returns when they are; what is run is preceded by it.
  virtual void start_connecting() {}
  virtual void connect() {}

  // Memory of this process's device, as its driver gave it, in which much of what it sends will lie, at the same place
  // on every rank: where GPUs can read each other's memory, they do. Called by all processes, again where the memory
  // has moved, before anything is sent from it; forget_memory() before it is released. True where it is read so.
  virtual bool share_memory(std::byte* memory, size_t bytes) { return false; }
  virtual void forget_memory() {}

  // Buffers of the local ranks, in their order. Sums of f32 are f32; those of bf16 are rounded as the backend says.
  // Throws Error(kUnsupported) for other types, in every process, and CollectiveError(kIo) when a library of the
  // backend fails: then what other processes do is not known, and a process of several must end.
  void run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
           DeviceQueue queue = kComputeQueue);
  // All at once, in any order; those between the same two ranks in the order given. Every process gives the same
  // transfers, those between ranks that it does not drive too.
  void send_receive(std::span<const Transfer> transfers, DeviceQueue queue = kComputeQueue);
  // One end of a message, whose other end the peer calls: the group need not take part. Of a process that drives one
  // rank. Where ranks are threads or exchange by MPI, what is sent is copied at once, and nobody waits for the
  // receiver. Otherwise a message is under way when both ends have come to it: each stream has a group of its own then
  // (has_streams(), MeshCommunicators::channel()).
  void send(const Message& message, const void* from, DeviceQueue queue = kComputeQueue);
  void receive(const Message& message, void* to, DeviceQueue queue = kComputeQueue);
  // Whether one group tells streams apart.
  virtual bool has_streams() const { return true; }
  // What `work` runs of this communicator may be one operation: none of it may need what another part gives.
  void in_one(const std::function<void()>& work) { do_in_one(work); }

  // Called in every process, each of which drives one rank: a group of those who give the same color, in the order of
  // their keys (of equal ones: of their ranks). Null without a color. The group may outlive this communicator.
  std::unique_ptr<Communicator> split(std::optional<int> color, int key);
  // This process takes no more part: whoever waits for it, or will, gets an Error(kIo) with its name and `reason`
  // instead of waiting for ever; so do groups split off. Thread-safe where the processes are threads.
  virtual void abandon(std::string_view reason) {}

  // Waits for every local device.
  void synchronize();

  // Control: what processes need to decide alike. Nothing where one process drives all ranks. Errors are kIo. Not
  // ordered with what queues have yet to do.

  // Returns when every process has come here.
  void barrier();
  // What the process that drives rank 0 gives.
  double of_first(double value);
  std::string of_first(std::string bytes);
  // What each process gives, in the order of their ranks.
  std::vector<std::string> gather(const std::string& bytes);
  // Element by element the sum over processes, in the order of their ranks: the same bits in each.
  void total(std::span<double> values);
  // Does the work, and throws in every process when Error came out of it in one: that of the lowest rank. A
  // CollectiveError is thrown as it is, where it was thrown.
  void together(const std::function<void()>& work);

 protected:
  // Of one process: local ranks are all.
  explicit Communicator(std::vector<std::shared_ptr<Device>> devices);
  Communicator(std::vector<std::shared_ptr<Device>> devices, int first_local, int size);

 private:
  // Of arguments that are checked; never kSendReceive.
  virtual void do_run(const Collective& collective, std::span<const void* const> from, std::span<void* const> to,
                      DeviceQueue queue) = 0;
  virtual void do_send_receive(std::span<const Transfer> transfers, DeviceQueue queue) = 0;
  virtual void do_send(const Message& message, const void* from, DeviceQueue queue);
  virtual void do_receive(const Message& message, void* to, DeviceQueue queue);
  virtual void do_in_one(const std::function<void()>& work) { work(); }
  // Not called where one process drives all ranks.
  virtual std::unique_ptr<Communicator> do_split(std::optional<int> color, int key);
  virtual void do_barrier() { do_gather({}); }
  virtual double do_of_first(double value);
  virtual std::vector<std::string> do_gather(const std::string& bytes);

  void check_message(const Message& message) const;

  std::vector<std::shared_ptr<Device>> devices_;
  int first_local_ = 0;
  int size_ = 0;
};

struct CommunicatorOptions {
  // The file of NCCL or RCCL; otherwise the loader's, the vendor's and Python packages' places are searched.
  std::string library;
  // Whether NCCL may let NVSwitch add up what GPUs send (NVLink SHARP). Without it, NCCL_NVLS_ENABLE=0 is put into this
  // process's environment, where NCCL reads it once.
  bool nvlink_multicast = true;
};

// A group of this process alone, by what the devices are: processors and emulators by threads (any number of ranks may
// share one), NVIDIA's GPUs by NCCL, AMD's by RCCL. Throws Error: kUnsupported for a mixture, kInvalidArgument for a
// GPU that is named twice, kNotFound where the library is not installed, kIo when it does not start. One rank's end of
// several processes: mpi_communicator.h; of several threads: thread_ranks.h.
std::unique_ptr<Communicator> open_communicator(std::vector<std::shared_ptr<Device>> devices,
                                                const CommunicatorOptions& options = {});

// One rank's end for collectives on its device, where `ends` has one of each rank of a group of processes or of threads
// that exchange bytes through it: `ends` itself where the device shares the host's memory, otherwise NCCL or RCCL.
// Called by all ranks, whose devices are of one kind. Throws as open_communicator(), in every process.
std::shared_ptr<Communicator> open_device_communicator(std::shared_ptr<Communicator> ends,
                                                       const CommunicatorOptions& options = {});

}  // namespace causeway::communicator
