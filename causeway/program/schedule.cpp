#include "causeway/program/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "causeway/program/early_exchange.h"

namespace causeway::program {
namespace {

constexpr int64_t kWorthASignal = int64_t{4} << 20;
constexpr int64_t kBucketBytes = int64_t{64} << 20;
// The compute queue waits for collectives so many instructions behind: what they read and write serves others then.
constexpr size_t kCollectivesBehind = 4;
constexpr size_t kSendsBehind = 2;
constexpr int64_t kHostBatchBytes = int64_t{64} << 20;

// The last instruction that wrote a buffer, and the last that wrote or read it.
struct LastUse {
  int write = -1;
  int access = -1;
};

// The instruction list so far. Whoever is added waits for the instructions of other queues that wrote what it reads,
// and for those that used what it writes.
class InstructionList {
 public:
  void add(Instruction instruction) {
    const DeviceQueue queue = instruction.queue;
    const std::vector<Access> accesses = instruction.accesses();
    come_after(queue, kComputeQueue, kStart);
    for (const Access& access : accesses)
      for (const auto& [other, use] : uses_[access.holding.buffer])
        come_after(queue, other, access.written ? use.access : use.write);
    const int position = static_cast<int>(list_.size());
    list_.push_back(std::move(instruction));
    last_[queue] = position;
    for (const Access& access : accesses) {
      LastUse& use = uses_[access.holding.buffer][queue];
      use.access = position;
      if (access.written) use.write = position;
    }
  }

  // Beside what kernels do; the compute queue stays at most kCollectivesBehind of them ahead.
  void add_collectives(Collectives collectives, bool follows_kernels) {
    if (follows_kernels)
      if (const auto last = last_.find(kComputeQueue); last != last_.end())
        come_after(kCommunicationQueue, kComputeQueue, last->second);
    add({kCommunicationQueue, std::move(collectives)});
    collectives_.push_back(last_.at(kCommunicationQueue));
    if (collectives_.size() > kCollectivesBehind)
      come_after(kComputeQueue, kCommunicationQueue, collectives_[collectives_.size() - 1 - kCollectivesBehind]);
  }

  // Beside what kernels do. What is received has its memory from where the kernels before the last message begin; the
  // compute queue stays at most kSendsBehind sends of a stream ahead, so that their memory serves others.
  void add_message(StageMessage message) {
    const bool sends = message.sends;
    const DeviceQueue queue = sends ? send_queue(message.stream) : receive_queue(message.stream);
    if (!sends && before_last_message_ >= 0) come_after(queue, kComputeQueue, before_last_message_);
    add({queue, std::move(message)});
    before_last_message_ = at_last_message_;
    if (const auto last = last_.find(kComputeQueue); last != last_.end()) at_last_message_ = last->second;
    if (!sends) return;
    std::vector<int>& sent = sends_[queue];
    sent.push_back(last_.at(queue));
    if (sent.size() > kSendsBehind) come_after(kComputeQueue, queue, sent[sent.size() - 1 - kSendsBehind]);
  }

  // Beside what kernels do, behind all that the compute queue was given before it: what a load writes to was somebody
  // else's memory. A load waits for the stores that were queued when the batch before its own began, so that their
  // memory serves it.
  void add_load(const Copy& copy, int batch) {
    if (const auto last = last_.find(kComputeQueue); last != last_.end())
      come_after(kLoadQueue, kComputeQueue, last->second);
    if (batch > batch_) {
      stored_at_begin_ = stored_at_next_;
      stored_at_next_ = stores_.empty() ? kStart : stores_.back().first;
      batch_ = batch;
    }
    if (stored_at_begin_ != kStart) come_after(kLoadQueue, kStoreQueue, stored_at_begin_);
    add({kLoadQueue, copy});
  }

  // Beside what kernels do. The compute queue stays at most two stores of `batch_bytes` ahead, so that their memory
  // serves others.
  void add_store(const Copy& copy, int64_t batch_bytes) {
    add({kStoreQueue, copy});
    stores_.emplace_back(last_.at(kStoreQueue), copy.bytes);
    int64_t behind = 0;
    size_t first = stores_.size();
    while (first > 0 && (behind < 2 * batch_bytes || stores_.size() - first < 2)) behind += stores_[--first].second;
    if (first > 0) come_after(kComputeQueue, kStoreQueue, stores_[first - 1].first);
  }

  InstructionSchedule finish() {
    for (const auto& [queue, position] : last_) come_after(kComputeQueue, queue, position);
    return {std::move(list_), signals_};
  }

 private:
  static constexpr int kStart = -1;  // where the program begins, on the compute queue

  // What `queue` is given from now on comes after what is at `position` of the other.
  void come_after(DeviceQueue queue, DeviceQueue other, int position) {
    if (queue == other) return;
    const auto known = known_.find({queue, other});
    if (known != known_.end() && known->second >= position) return;
    // A queue that takes part waits at least for the start: nothing before it is in question.
    if (position == kStart && other != kComputeQueue) return;
    Signal signal = kBegin;
    if (position != kStart) {
      Signal& set = list_[static_cast<size_t>(position)].sets;
      if (set == kNoSignal) set = signals_++;
      signal = set;
    }
    list_.push_back({queue, Wait{signal}});
    known_[{queue, other}] = position;
  }

  std::vector<Instruction> list_;
  int signals_ = 1;
  std::map<int, std::map<DeviceQueue, LastUse>> uses_;  // by buffer
  std::map<DeviceQueue, int> last_;                     // without waits
  std::vector<int> collectives_;                        // on the communication queue
  std::map<DeviceQueue, std::vector<int>> sends_;
  std::vector<std::pair<int, int64_t>> stores_;               // positions and bytes
  int batch_ = -1;                                            // of the last load
  int stored_at_begin_ = kStart, stored_at_next_ = kStart;    // the last store where the batch before it began, and it
  int before_last_message_ = -1, at_last_message_ = -1;       // the compute queue's last instructions there
  std::map<std::pair<DeviceQueue, DeviceQueue>, int> known_;  // what the first has waited for in the second
};

}  // namespace

ScheduleOptions default_schedule(const Target& target) {
  return target.runs_asynchronously() ? ScheduleOptions{kWorthASignal, kBucketBytes, kHostBatchBytes}
                                      : ScheduleOptions{};
}

InstructionSchedule schedule_instructions(std::vector<KernelWork> kernels, const std::vector<Copy>& copies,
                                          const ScheduleOptions& options, const HostCopies& host) {
  std::vector<OrderedWork> ordered;
  if (options.collective_bucket_bytes > 0) {
    ordered = order_collectives(exchange_early(std::move(kernels)), options.collective_bucket_bytes);
  } else {
    for (KernelWork& kernel : kernels) ordered.push_back({std::move(kernel)});
  }
  std::vector<Instruction> work;
  for (OrderedWork& one : ordered)
    work.push_back(std::visit([](auto& kind) { return Instruction{kComputeQueue, std::move(kind)}; }, one.work));
  // Each copy behind the last kernel, or copy behind such a one, that it depends on; -1: it depends on none.
  std::map<int, LastUse> uses;  // by buffer, in kernels
  for (size_t k = 0; k < work.size(); ++k) {
    for (const Access& access : work[k].accesses()) {
      LastUse& use = uses[access.holding.buffer];
      use.access = static_cast<int>(k);
      if (access.written) use.write = static_cast<int>(k);
    }
  }
  const int last_kernel = static_cast<int>(work.size()) - 1;
  std::map<int, std::vector<Copy>> behind;
  for (const Copy& copy : copies) {
    LastUse &from = uses[copy.from.buffer], &to = uses[copy.to];
    const int kernel = std::max(from.write, to.access);
    from.access = std::max(from.access, kernel);
    to.write = to.access = kernel;
    behind[kernel].push_back(copy);
  }
  int64_t host_bytes = 0;
  for (const Copy& load : host.loads) host_bytes += load.bytes;
  const bool host_queues = options.host_batch_bytes > 0;
  const int64_t batch_bytes = host_queues ? std::min(options.host_batch_bytes, host_bytes / kHostBatches + 1) : 0;
  const std::vector<PlacedLoad> loads = place_loads(work, host, batch_bytes);
  const std::map<int, std::vector<Copy>> stores = place_stores(work, host.stores);
  size_t next_load = 0;
  InstructionList list;
  for (int k = -1; k <= last_kernel; ++k) {
    for (; next_load < loads.size() && loads[next_load].before == k; ++next_load)
      host_queues ? list.add_load(loads[next_load].copy, loads[next_load].batch)
                  : list.add({kComputeQueue, loads[next_load].copy});
    if (k >= 0) {
      Instruction& next = work[static_cast<size_t>(k)];
      auto* collectives = std::get_if<Collectives>(&next.work);
      auto* message = std::get_if<StageMessage>(&next.work);
      if (collectives != nullptr && options.collective_bucket_bytes > 0) {
        list.add_collectives(std::move(*collectives), ordered[static_cast<size_t>(k)].follows_kernels);
      } else if (message != nullptr && options.collective_bucket_bytes > 0) {
        list.add_message(std::move(*message));
      } else {
        list.add(std::move(next));
      }
    }
    for (Copy& copy : behind[k]) {
      const bool beside = k < last_kernel && copy.bytes >= options.copy_queue_from;
      list.add({beside ? kCopyQueue : kComputeQueue, copy});
    }
    if (const auto stored = stores.find(k); stored != stores.end())
      for (const Copy& copy : stored->second)
        host_queues ? list.add_store(copy, batch_bytes) : list.add({kComputeQueue, copy});
  }
  for (const Copy& copy : host.last) list.add({kComputeQueue, copy});
  return list.finish();
}

}  // namespace causeway::program
