#include "causeway/communicator/thread_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/communicator/memory_collectives.h"

namespace causeway::communicator {
namespace {

// What a rank gets that waits for one which does not come.
struct OtherRankIsGone : CollectiveError {
  explicit OtherRankIsGone(const std::string& what)
      : CollectiveError(ErrorKind::kIo, what, "collectives",
                        "This rank waited for it in vain; look for the reason there.") {}
};

// What all groups of one run share.
struct ThreadWorld {
  std::mutex mutex;
  std::condition_variable changed;
  std::string failure;  // of the first rank that failed; empty while none has
};

// What one rank brings to a meeting.
struct Brought {
  enum class Kind { kCollective, kTransfers, kBytes, kSplit };
  Kind kind = Kind::kBytes;
  Collective collective;
  const void* from = nullptr;
  void* to = nullptr;
  std::span<const Transfer> transfers;
  const std::string* bytes = nullptr;

  std::string text() const {
    switch (kind) {
      case Kind::kCollective:
        return fmt::format("runs {} of {} {}", collective_name(collective.kind), collective.count,
                           dtype_name(collective.dtype));
      case Kind::kTransfers:
        return fmt::format("sends and receives {} times", transfers.size());
      case Kind::kBytes:
        return "exchanges bytes";
      default:
        return "splits the group";
    }
  }
};

// Where the ranks of one group meet.
class ThreadGroup {
 public:
  ThreadGroup(std::shared_ptr<ThreadWorld> world, std::vector<int> world_ranks)
      : world_(std::move(world)), world_ranks_(std::move(world_ranks)), brought_(world_ranks_.size()) {}

  int size() const { return static_cast<int>(world_ranks_.size()); }

  // work(what every rank has brought) between a meeting of all and another one.
  template <typename Work>
  void exchange(int rank, const Brought& mine, Work&& work) {
    brought_[static_cast<size_t>(rank)] = mine;
    meet();
    check_alike();
    work(std::as_const(brought_));
    meet();
  }

  // The group of those who ask with the same number and members; each asks once.
  std::shared_ptr<ThreadGroup> subgroup(int split, const std::vector<int>& members) {
    const std::lock_guard lock(world_->mutex);
    const auto key = std::pair(split, members);
    auto& [group, taken] = subgroups_[key];
    if (group == nullptr) {
      std::vector<int> world_ranks;
      for (const int member : members) world_ranks.push_back(world_ranks_[static_cast<size_t>(member)]);
      group = std::make_shared<ThreadGroup>(world_, std::move(world_ranks));
    }
    const std::shared_ptr<ThreadGroup> made = group;
    if (++taken == members.size()) subgroups_.erase(key);
    return made;
  }

  void send(int rank, const Message& message, const void* from) {
    const auto* bytes = static_cast<const std::byte*>(from);
    std::vector<std::byte> copy(bytes, bytes + byte_size(message));
    const std::lock_guard lock(world_->mutex);
    mail_[{rank, message.peer, message.stream}].push_back(std::move(copy));
    world_->changed.notify_all();
  }

  void receive(int rank, const Message& message, void* to) {
    std::unique_lock lock(world_->mutex);
    std::deque<std::vector<std::byte>>& mail = mail_[{message.peer, rank, message.stream}];
    world_->changed.wait(lock,
                         [&] { return !mail.empty() || left_.contains(message.peer) || !world_->failure.empty(); });
    if (mail.empty())
      throw OtherRankIsGone(world_->failure.empty()
                                ? fmt::format("rank {} has ended", world_ranks_[place(message.peer)])
                                : world_->failure);
    const std::vector<std::byte> bytes = std::move(mail.front());
    mail.pop_front();
    lock.unlock();
    if (bytes.size() != byte_size(message))
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("rank {} was sent {} bytes by rank {} where it expected {}", world_ranks_[place(rank)],
                              bytes.size(), world_ranks_[place(message.peer)], byte_size(message)),
                  "messages", "Both ends of a stream name the same messages in the same order.");
    std::memcpy(to, bytes.data(), bytes.size());
  }

  void leave(int rank) {
    const std::lock_guard lock(world_->mutex);
    left_.insert(rank);
    if (gone_.empty()) gone_ = fmt::format("rank {} has ended", world_ranks_[static_cast<size_t>(rank)]);
    world_->changed.notify_all();
  }
  void abandon(int rank, std::string_view reason) {
    const std::lock_guard lock(world_->mutex);
    if (world_->failure.empty())
      world_->failure = fmt::format("rank {} has failed: {}", world_ranks_[static_cast<size_t>(rank)], reason);
    world_->changed.notify_all();
  }

 private:
  static size_t place(int rank) { return static_cast<size_t>(rank); }
  static size_t byte_size(const Message& message) {
    return static_cast<size_t>(message.count) * size_bytes(message.dtype);
  }

  void meet() {
    std::unique_lock lock(world_->mutex);
    const uint64_t meeting = meetings_;
    if (++arrived_ == world_ranks_.size()) {
      arrived_ = 0;
      ++meetings_;
      world_->changed.notify_all();
      return;
    }
    world_->changed.wait(lock, [&] { return meetings_ != meeting || !gone_.empty() || !world_->failure.empty(); });
    if (meetings_ == meeting) throw OtherRankIsGone(world_->failure.empty() ? gone_ : world_->failure);
  }

  // Every rank finds the same.
  void check_alike() const {
    const Brought& first = brought_.front();
    for (size_t rank = 1; rank < brought_.size(); ++rank) {
      const Brought& other = brought_[rank];
      if (other.kind == first.kind && other.collective == first.collective &&
          other.transfers.size() == first.transfers.size())
        continue;
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("rank {} {} where rank {} {}", world_ranks_[rank], other.text(), world_ranks_.front(),
                              first.text()),
                  "collectives", "All ranks of a group do the same in the same order.");
    }
  }

  std::shared_ptr<ThreadWorld> world_;  // its mutex guards what changes
  std::vector<int> world_ranks_;
  std::vector<Brought> brought_;  // by rank; each writes its own before a meeting
  size_t arrived_ = 0;
  uint64_t meetings_ = 0;
  std::string gone_;  // who has left; empty while all are there
  std::set<int> left_;
  std::map<std::tuple<int, int, int>, std::deque<std::vector<std::byte>>> mail_;  // by sender, receiver and stream
  std::map<std::pair<int, std::vector<int>>, std::pair<std::shared_ptr<ThreadGroup>, size_t>> subgroups_;
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(std::shared_ptr<Device> device, int rank, std::shared_ptr<ThreadGroup> group)
      : Communicator({device}, rank, group->size()), shared_device_(std::move(device)), group_(std::move(group)) {}
  ~ThreadRank() override { group_->leave(rank()); }

  std::string name() const override { return "threads"; }
  void abandon(std::string_view reason) override { group_->abandon(rank(), reason); }

 private:
  int rank() const { return first_local(); }

  void do_run(const Collective& collective, std::span<const void* const> sent, std::span<void* const> received,
              DeviceQueue queue) override {
    shared_device_->run_on_host(
        [this, collective, from = sent[0], to = received[0]] {
          shared_device_->hasten_messages();
          group_->exchange(rank(), {Brought::Kind::kCollective, collective, from, to, {}, nullptr},
                           [&](const std::vector<Brought>& of_all) {
                             std::vector<const void*> all_sent;
                             std::vector<void*> all_received;
                             for (const Brought& one : of_all) {
                               all_sent.push_back(one.from);
                               all_received.push_back(one.to);
                             }
                             run_share(collective, static_cast<size_t>(rank()), all_sent, all_received);
                           });
        },
        queue);
  }

  void do_send_receive(std::span<const Transfer> transfers, DeviceQueue queue) override {
    shared_device_->run_on_host(
        [this, transfers = std::vector(transfers.begin(), transfers.end())] {
          shared_device_->hasten_messages();
          group_->exchange(rank(), {Brought::Kind::kTransfers, {}, nullptr, nullptr, transfers, nullptr},
                           [&](const std::vector<Brought>& of_all) {
                             for (size_t i = 0; i < transfers.size(); ++i) {
                               Transfer transfer = transfers[i];
                               if (transfer.receiver != rank()) continue;
                               transfer.from = of_all[static_cast<size_t>(transfer.sender)].transfers[i].from;
                               run_transfer(transfer);
                             }
                           });
        },
        queue);
  }

  void do_send(const Message& message, const void* from, DeviceQueue queue) override {
    shared_device_->run_on_host([this, message, from] { group_->send(rank(), message, from); }, queue);
  }

  void do_receive(const Message& message, void* to, DeviceQueue queue) override {
    shared_device_->run_on_host(
        [this, message, to] {
          shared_device_->hasten_messages();
          group_->receive(rank(), message, to);
        },
        queue);
  }

  std::vector<std::string> do_gather(const std::string& bytes) override {
    std::vector<std::string> all;
    group_->exchange(rank(), {Brought::Kind::kBytes, {}, nullptr, nullptr, {}, &bytes},
                     [&](const std::vector<Brought>& of_all) {
                       for (const Brought& one : of_all) all.push_back(*one.bytes);
                     });
    return all;
  }

  std::unique_ptr<Communicator> do_split(std::optional<int> color, int key) override {
    const std::string mine = color ? fmt::format("{} {}", *color, key) : "";
    const int split = splits_++;
    std::vector<std::tuple<int, int>> places;  // key and rank
    std::vector<std::string> of_all;
    group_->exchange(rank(), {Brought::Kind::kSplit, {}, nullptr, nullptr, {}, &mine},
                     [&](const std::vector<Brought>& brought) {
                       for (const Brought& one : brought) of_all.push_back(*one.bytes);
                     });
    if (!color) return nullptr;
    for (size_t other = 0; other < of_all.size(); ++other) {
      const std::string& bytes = of_all[other];
      const size_t space = bytes.find(' ');
      if (space != std::string::npos && std::stoi(bytes.substr(0, space)) == *color)
        places.emplace_back(std::stoi(bytes.substr(space)), static_cast<int>(other));
    }
    std::sort(places.begin(), places.end());
    std::vector<int> members;
    for (const auto& [place, member] : places) members.push_back(member);
    const auto position = std::find(members.begin(), members.end(), rank()) - members.begin();
    return std::make_unique<ThreadRank>(shared_device_, static_cast<int>(position), group_->subgroup(split, members));
  }

  std::shared_ptr<Device> shared_device_;
  std::shared_ptr<ThreadGroup> group_;
  int splits_ = 0;
};

}  // namespace

void run_thread_ranks(const std::vector<std::shared_ptr<Device>>& devices,
                      const std::function<void(std::shared_ptr<Communicator> rank)>& body) {
  std::vector<int> ranks(devices.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<int>(rank);
  const auto group = std::make_shared<ThreadGroup>(std::make_shared<ThreadWorld>(), ranks);
  std::mutex mutex;
  std::exception_ptr first, first_of_others;
  const auto run = [&](size_t rank) {
    const std::shared_ptr<Communicator> communicator =
        std::make_shared<ThreadRank>(devices[rank], static_cast<int>(rank), group);
    std::string reason;
    try {
      return body(communicator);
    } catch (const OtherRankIsGone& error) {
      const std::lock_guard lock(mutex);
      if (first_of_others == nullptr) first_of_others = std::current_exception();
      reason = error.message();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
      reason = error.what();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
      reason = "it threw something";
    }
    communicator->abandon(reason);
  };
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < devices.size(); ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  if (first == nullptr) first = first_of_others;
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace causeway::communicator
