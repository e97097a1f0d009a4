#include "causeway/communicator/mpi_communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <map>
#include <thread>

#include "causeway/base/error.h"
#include "causeway/base/host_name.h"
#include "causeway/communicator/bf16.h"
#include "causeway/communicator/mpi_launch.h"
#include "causeway/communicator/mpi_library.h"

namespace causeway::communicator {
namespace {

constexpr auto kRest = std::chrono::microseconds(200);

// Its speed is the speed of sums: three times as fast with AVX2. ThreadSanitizer instruments the function that chooses
// between clones, which the loader calls before the sanitizer is there.
#if !__has_feature(thread_sanitizer)
[[gnu::target_clones("avx2", "default")]]
#endif
void add_values(const uint16_t* values, uint16_t* sums, int count) {
  for (int i = 0; i < count; ++i) sums[i] = store_bf16(load_bf16(sums[i]) + load_bf16(values[i]));
}

// Called by the library, of whatever part of a buffer it likes.
void add_bf16(void* from, void* to, int* count, MpiHandle*) {
  add_values(static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), *count);
}

// MPI in this process: begun once, left at exit.
class MpiProcess {
 public:
  static MpiProcess& open(const MpiOptions& options) {
    const std::optional<MpiLaunch> launch = find_mpi_launch();
    if (!launch)
      throw Error(ErrorKind::kInvalidArgument, "this process was not started by mpirun, mpiexec or srun", "mpi",
                  "MPI is between processes that it starts: mpirun -n 4 causeway bench collectives --backend mpi.");
    if (process_ == nullptr) {
      VendorLibrary library = open_mpi_library(options.library, launch->family);
      process_ = new MpiProcess(std::move(library));
      std::atexit([] { process_->leave(); });
      process_->begin(*launch);
    }
    return *process_;
  }

  const MpiLibrary& mpi() const { return mpi_; }
  const MpiAbi& abi() const { return mpi_.abi; }
  const std::string& name() const { return name_; }
  MpiHandle add_bf16() const { return add_bf16_; }

  // From now on, the exit of this process is that of all.
  void fail() { failed_ = true; }
  bool failed() const { return failed_; }

  void check(int code, std::string_view doing) {
    if (code == 0) return;
    fail();
    std::array<char, kMpiLongestText> text{};
    int length = 0;
    if (mpi_.error_string(code, text.data(), &length) != 0) length = 0;
    throw CollectiveError(
        ErrorKind::kIo,
        fmt::format("{} could not {}: {}", name_, doing,
                    length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : fmt::format("error {}", code)),
        "mpi", "All processes of the launch end with this one; the launcher may have said more.");
  }

 private:
  explicit MpiProcess(VendorLibrary library) : library_(std::move(library)), mpi_(library_) {
    std::array<char, kMpiLongestText> text{};
    int length = 0;
    // Allowed before the beginning.
    if (mpi_.library_version(text.data(), &length) == 0)
      name_ = short_mpi_name({text.data(), static_cast<size_t>(std::max(length, 0))});
  }

  void begin(const MpiLaunch& launch) {
    int provided = 0, size = 0;
    // Threads that read clocks and temperatures never call MPI.
    check(mpi_.init(nullptr, nullptr, kMpiThreadFunneled, &provided), "begin");
    begun_ = true;
    check(mpi_.set_error_handler(abi().world, abi().errors_return), "report errors");
    check(mpi_.size(abi().world, &size), "tell the number of processes");
    if (size != launch.size) {
      fail();
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("the launcher started {} processes ({}), and {} ({}) knows of {}", launch.size,
                              launch.variable, name_, library_.path(), size),
                  "mpi", "Launcher and library are of different MPIs: name the launcher's library by --mpi.");
    }
    check(mpi_.create_operation(&communicator::add_bf16, 1, &add_bf16_), "make an operation");
  }

  void leave() const {
    if (!begun_) return;
    if (failed_) {
      // MPICH's launcher drops what it has not read when a process aborts: the reason, most of all.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      mpi_.abort(abi().world, 1);
    } else {
      mpi_.finalize();
    }
  }

  // Never destroyed: it is used at exit.
  static inline MpiProcess* process_ = nullptr;  // NOLINT(readability-identifier-naming)

  VendorLibrary library_;
  MpiLibrary mpi_;
  std::string name_ = "MPI";
  MpiHandle add_bf16_ = 0;
  bool begun_ = false, failed_ = false;
};

std::byte* offset_by(void* buffer, int64_t bytes) { return static_cast<std::byte*>(buffer) + bytes; }
const std::byte* offset_by(const void* buffer, int64_t bytes) { return static_cast<const std::byte*>(buffer) + bytes; }

struct Ranks {
  int rank = 0;
  int size = 0;
};

class MpiGroup final : public Communicator {
 public:
  MpiGroup(MpiProcess& process, MpiHandle communicator, Ranks ranks, const std::shared_ptr<Device>& device,
           const MpiOptions& options)
      : Communicator({device}, ranks.rank, ranks.size),
        process_(process),
        mpi_(process.mpi()),
        communicator_(communicator),
        device_(device),
        options_(options),
        placement_(find_placement()) {}

  ~MpiGroup() override {
    if (std::uncaught_exceptions() > exceptions_) {
      process_.fail();
      return;
    }
    if (process_.failed()) return;
    for (Sent& sent : sent_)
      for (MpiHandle& request : sent.requests) mpi_.wait(&request, process_.abi().ignored_status);
    if (communicator_ != process_.abi().world) mpi_.free_communicator(&communicator_);
  }

  std::string name() const override { return process_.name(); }
  Placement placement() const override { return placement_; }

  void abandon(std::string_view) override { process_.fail(); }

  static Ranks ranks_of(MpiProcess& process, MpiHandle communicator) {
    Ranks ranks;
    process.check(process.mpi().rank(communicator, &ranks.rank), "tell the rank");
    process.check(process.mpi().size(communicator, &ranks.size), "tell the number of processes");
    return ranks;
  }

 private:
  int rank() const { return first_local(); }
  void check(int code, std::string_view doing) { process_.check(code, doing); }

  MpiHandle type_of(DType dtype) const { return dtype == DType::kF32 ? process_.abi().f32 : process_.abi().uint16; }
  MpiHandle sum_of(DType dtype) const { return dtype == DType::kF32 ? process_.abi().sum : process_.add_bf16(); }

  // work(first element, elements) for pieces that one call may be about.
  template <typename Work>
  void in_pieces(int64_t count, Work&& work) const {
    for (int64_t first = 0; first < count; first += options_.largest_count)
      work(first, static_cast<int>(std::min(options_.largest_count, count - first)));
  }

  // Who must wait for others leaves the processor to them meanwhile.
  std::unique_ptr<Communicator> do_split(std::optional<int> color, int key) override {
    wait_at_rest();
    MpiHandle created = 0;
    check(mpi_.split(communicator_, color.value_or(kMpiUndefined), key, &created), "make a group");
    if (!color) return nullptr;
    return std::make_unique<MpiGroup>(process_, created, ranks_of(process_, created), device_, options_);
  }

  void do_run(const Collective& collective, std::span<const void* const> sent, std::span<void* const> received,
              DeviceQueue queue) override {
    device_->run_on_host([this, collective, from = sent[0], to = received[0]] { run_now(collective, from, to); },
                         queue);
  }

  void run_now(const Collective& collective, const void* from, void* to) {
    device_->hasten_messages();
    const auto bytes = collective.count * static_cast<int64_t>(size_bytes(collective.dtype));
    // Libraries add up what all ranks have in an int.
    const bool in_one = collective.count <= options_.largest_count / size();
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        return all_reduce(collective, from, to);
      case CollectiveKind::kAllGather:
        return in_one ? all_gather(collective, from, to) : all_gather_in_pieces(collective, from, to);
      case CollectiveKind::kReduceScatter: {
        // In place, what is received lies within what is sent, which MPI does not allow.
        const bool in_place = to == offset_by(from, rank() * bytes);
        if (in_place) part_.resize(static_cast<size_t>(bytes));
        void* sum = in_place ? part_.data() : to;
        in_one ? reduce_scatter(collective, from, sum) : reduce_scatter_in_pieces(collective, from, sum);
        if (in_place) std::memcpy(to, sum, static_cast<size_t>(bytes));
        return;
      }
      case CollectiveKind::kAllToAll:
        return in_one ? all_to_all(collective, from, to) : all_to_all_in_pieces(collective, from, to);
      default:
        return broadcast(collective.dtype, collective.count, collective.root, from, to);
    }
  }

  void all_reduce(const Collective& c, const void* from, void* to) {
    const auto element = static_cast<int64_t>(size_bytes(c.dtype));
    in_pieces(c.count, [&](int64_t first, int count) {
      const void* piece = from == to ? process_.abi().in_place : offset_by(from, first * element);
      check(mpi_.all_reduce(piece, offset_by(to, first * element), count, type_of(c.dtype), sum_of(c.dtype),
                            communicator_),
            "run all_reduce");
    });
  }

  void all_gather(const Collective& c, const void* from, void* to) {
    const auto count = static_cast<int>(c.count);
    const auto bytes = c.count * static_cast<int64_t>(size_bytes(c.dtype));
    const void* mine = from == offset_by(to, rank() * bytes) ? process_.abi().in_place : from;
    check(mpi_.all_gather(mine, count, type_of(c.dtype), to, count, type_of(c.dtype), communicator_), "run all_gather");
  }

  void all_gather_in_pieces(const Collective& c, const void* from, void* to) {
    const auto bytes = c.count * static_cast<int64_t>(size_bytes(c.dtype));
    for (int root = 0; root < size(); ++root) broadcast(c.dtype, c.count, root, from, offset_by(to, root * bytes));
  }

  void reduce_scatter(const Collective& c, const void* from, void* to) {
    check(mpi_.reduce_scatter(from, to, static_cast<int>(c.count), type_of(c.dtype), sum_of(c.dtype), communicator_),
          "run reduce_scatter");
  }

  void reduce_scatter_in_pieces(const Collective& c, const void* from, void* to) {
    const auto element = static_cast<int64_t>(size_bytes(c.dtype));
    for (int root = 0; root < size(); ++root)
      in_pieces(c.count, [&](int64_t first, int count) {
        check(mpi_.reduce(offset_by(from, (root * c.count + first) * element), offset_by(to, first * element), count,
                          type_of(c.dtype), sum_of(c.dtype), root, communicator_),
              "run reduce_scatter");
      });
  }

  void all_to_all(const Collective& c, const void* from, void* to) {
    const auto count = static_cast<int>(c.count);
    check(mpi_.all_to_all(from, count, type_of(c.dtype), to, count, type_of(c.dtype), communicator_), "run all_to_all");
  }

  void all_to_all_in_pieces(const Collective& c, const void* from, void* to) {
    const auto bytes = c.count * static_cast<int64_t>(size_bytes(c.dtype));
    std::vector<Transfer> transfers;
    for (int other = 0; other < size(); ++other) {
      transfers.push_back(
          {rank(), other, offset_by(from, other * bytes), offset_by(to, rank() * bytes), c.count, c.dtype});
      if (other != rank())
        transfers.push_back({other, rank(), nullptr, offset_by(to, other * bytes), c.count, c.dtype});
    }
    transfer_now(transfers);
  }

  // MPI has one buffer here: the root's own is copied where it has two.
  void broadcast(DType dtype, int64_t elements, int root, const void* from, void* to) {
    const auto element = static_cast<int64_t>(size_bytes(dtype));
    void* data = rank() == root ? const_cast<void*>(from) : to;
    in_pieces(elements, [&](int64_t first, int count) {
      check(mpi_.broadcast(offset_by(data, first * element), count, type_of(dtype), root, communicator_),
            "run broadcast");
    });
    if (data != to && rank() == root) std::memcpy(to, from, static_cast<size_t>(elements * element));
  }

  void do_send_receive(std::span<const Transfer> transfers, DeviceQueue queue) override {
    device_->run_on_host([this, all = std::vector(transfers.begin(), transfers.end())] { transfer_now(all); }, queue);
  }

  void transfer_now(std::span<const Transfer> transfers) {
    device_->hasten_messages();
    // Addresses are given away: no reallocation.
    size_t most = 0;
    for (const Transfer& transfer : transfers)
      most += 2 * static_cast<size_t>(transfer.count / options_.largest_count + 1);
    std::vector<MpiHandle> requests;
    requests.reserve(most);
    for (const Transfer& transfer : transfers) {
      const auto element = static_cast<int64_t>(size_bytes(transfer.dtype));
      const MpiHandle type = type_of(transfer.dtype);
      in_pieces(transfer.count, [&](int64_t first, int count) {
        if (transfer.receiver == rank())
          check(mpi_.start_receive(offset_by(transfer.to, first * element), count, type, transfer.sender, 0,
                                   communicator_, &requests.emplace_back(0)),
                "receive");
        if (transfer.sender == rank())
          check(mpi_.start_send(offset_by(transfer.from, first * element), count, type, transfer.receiver, 0,
                                communicator_, &requests.emplace_back(0)),
                "send");
      });
    }
    for (MpiHandle& request : requests) check(mpi_.wait(&request, process_.abi().ignored_status), "send and receive");
  }

  // Messages have tags of their own, beside those of transfers.
  static int tag_of(const Message& message) { return 1 + message.stream; }

  void do_send(const Message& message, const void* from, DeviceQueue queue) override {
    device_->run_on_host([this, message, from] { send_now(message, from); }, queue);
  }

  void send_now(const Message& message, const void* from) {
    std::erase_if(sent_, [this](Sent& sent) { return is_done(sent); });
    const auto element = static_cast<int64_t>(size_bytes(message.dtype));
    const auto* bytes = static_cast<const std::byte*>(from);
    Sent& sent = sent_.emplace_back();
    sent.bytes.assign(bytes, bytes + message.count * element);
    sent.requests.reserve(static_cast<size_t>(message.count / options_.largest_count + 1));
    in_pieces(message.count, [&](int64_t first, int count) {
      check(mpi_.start_send(offset_by(sent.bytes.data(), first * element), count, type_of(message.dtype), message.peer,
                            tag_of(message), communicator_, &sent.requests.emplace_back(0)),
            "send");
    });
  }

  void do_receive(const Message& message, void* to, DeviceQueue queue) override {
    device_->run_on_host([this, message, to] { receive_now(message, to); }, queue);
  }

  // Who waits for another stage leaves the processor to it.
  void receive_now(const Message& message, void* to) {
    device_->hasten_messages();
    const auto element = static_cast<int64_t>(size_bytes(message.dtype));
    in_pieces(message.count, [&](int64_t first, int count) {
      MpiHandle request = 0;
      check(mpi_.start_receive(offset_by(to, first * element), count, type_of(message.dtype), message.peer,
                               tag_of(message), communicator_, &request),
            "receive");
      for (int done = 0; done == 0;) {
        check(mpi_.test(&request, &done, process_.abi().ignored_status), "receive");
        if (done == 0) std::this_thread::sleep_for(kRest);
      }
    });
  }

  // A message under way, and its copy.
  struct Sent {
    std::vector<std::byte> bytes;
    std::vector<MpiHandle> requests;
  };

  bool is_done(Sent& sent) {
    for (MpiHandle& request : sent.requests) {
      int done = 0;
      check(mpi_.test(&request, &done, process_.abi().ignored_status), "send");
      if (done == 0) return false;
    }
    return true;
  }

  void do_barrier() override { check(mpi_.barrier(communicator_), "wait for all processes"); }

  void wait_at_rest() {
    MpiHandle request = 0;
    check(mpi_.start_barrier(communicator_, &request), "wait for all processes");
    for (int done = 0; done == 0;) {
      check(mpi_.test(&request, &done, process_.abi().ignored_status), "wait for all processes");
      if (done == 0) std::this_thread::sleep_for(kRest);
    }
  }

  double do_of_first(double value) override {
    check(mpi_.broadcast(&value, 1, process_.abi().f64, 0, communicator_), "agree on a number");
    return value;
  }

  std::vector<std::string> do_gather(const std::string& bytes) override { return gather(bytes); }

  std::vector<std::string> gather(const std::string& bytes) {
    const MpiHandle byte = process_.abi().byte;
    const auto ranks = static_cast<size_t>(size());
    const auto length = static_cast<int64_t>(bytes.size());
    std::vector<int64_t> lengths(ranks);
    check(mpi_.all_gather(&length, sizeof length, byte, lengths.data(), sizeof length, byte, communicator_),
          "exchange messages");
    const auto longest = static_cast<size_t>(*std::max_element(lengths.begin(), lengths.end()));
    std::vector<std::string> all(ranks);
    if (longest == 0) return all;
    std::string mine = bytes, together(longest * ranks, 0);
    mine.resize(longest);
    const auto count = static_cast<int>(longest);
    check(mpi_.all_gather(mine.data(), count, byte, together.data(), count, byte, communicator_), "exchange messages");
    for (size_t i = 0; i < ranks; ++i) all[i] = together.substr(i * longest, static_cast<size_t>(lengths[i]));
    return all;
  }

  Placement find_placement() {
    // A launcher may have bound each process to processors of its own: together they have all that any of them has.
    struct Place {
      std::array<char, 256> host{};
      cpu_set_t processors;
    } place;
    CPU_ZERO(&place.processors);
    host_name().copy(place.host.data(), place.host.size() - 1);
    ::sched_getaffinity(0, sizeof place.processors, &place.processors);
    std::map<std::string, std::pair<int, cpu_set_t>> machines;
    for (const std::string& bytes : gather(std::string(reinterpret_cast<const char*>(&place), sizeof place))) {
      Place other;
      std::memcpy(&other, bytes.data(), sizeof other);
      auto& [ranks, processors] = machines[other.host.data()];
      ++ranks;
      CPU_OR(&processors, &processors, &other.processors);
    }
    Placement placement{static_cast<int>(machines.size()), 0, 1};
    for (auto& [host, machine] : machines) {
      const int ranks = machine.first, processors = std::max(1, CPU_COUNT(&machine.second));
      if (ranks * placement.processors > placement.ranks * processors) {
        placement.ranks = ranks;
        placement.processors = processors;
      }
    }
    return placement;
  }

  MpiProcess& process_;
  const MpiLibrary& mpi_;
  MpiHandle communicator_;
  std::shared_ptr<Device> device_;
  MpiOptions options_;
  Placement placement_;
  std::vector<std::byte> part_;
  std::list<Sent> sent_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Communicator> open_mpi(const std::shared_ptr<Device>& device, const MpiOptions& options) {
  CAUSEWAY_CHECK(options.largest_count >= 1 && options.largest_count <= (int64_t{1} << 30), "{} elements in a call",
                 options.largest_count);
  MpiProcess& process = MpiProcess::open(options);
  const MpiHandle world = process.abi().world;
  return std::make_unique<MpiGroup>(process, world, MpiGroup::ranks_of(process, world), device, options);
}

}  // namespace causeway::communicator
