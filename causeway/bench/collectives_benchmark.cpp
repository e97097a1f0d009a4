#include "causeway/bench/collectives_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/bench/collective_check.h"
#include "causeway/bench/link_table.h"
#include "causeway/bench/statistics.h"

namespace causeway::bench {
namespace {

constexpr int64_t kPartAlignment = 16;  // bytes of one rank's part, as nccl-tests has them
constexpr int64_t kMiB = int64_t{1} << 20;

bool is_divided(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kAllToAll;
}

bool adds_up(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

// This process's devices of a group as the one that the timing knows: a moment is one of each, and time passes as on
// their average (nccl-tests, -a 1). Where none of them takes part, no time passes.
class GroupDevice final : public Device {
 public:
  GroupDevice(const Communicator& communicator, std::span<const int> ranks)
      : first_(communicator.device(communicator.first_local())) {
    for (const int rank : ranks) {
      Device* device = &communicator.device(rank);
      if (std::find(devices_.begin(), devices_.end(), device) == devices_.end()) devices_.push_back(device);
    }
  }

  std::string name() const override { return first_.name(); }
  const Target& target() const override { return first_.target(); }
  DeviceBuffer allocate(size_t bytes, bool zeroed) override { return first_.allocate(bytes, zeroed); }
  void copy_to_device(void* to, const void* host, size_t bytes) override { first_.copy_to_device(to, host, bytes); }
  void copy_to_host(void* host, const void* from, size_t bytes) override { first_.copy_to_host(host, from, bytes); }
  void fill_with_zeros(void* memory, size_t bytes) override { first_.fill_with_zeros(memory, bytes); }
  void copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue) override {
    first_.copy_on_device(to, from, bytes, queue);
  }
  std::shared_ptr<DeviceModule> load(std::string_view image) override { return first_.load(image); }
  void launch(const DeviceLaunch& launch) override { first_.launch(launch); }
  int64_t bytes_in_use() const override { return first_.bytes_in_use(); }
  int64_t peak_bytes() const override { return first_.peak_bytes(); }

  void synchronize() override {
    for (Device* device : devices_) device->synchronize();
  }
  std::shared_ptr<DeviceMoment> mark(DeviceQueue queue) override {
    auto moment = std::make_shared<GroupMoment>();
    for (Device* device : devices_) moment->moments.push_back(device->mark(queue));
    return moment;
  }
  double seconds_between(const DeviceMoment& from, const DeviceMoment& to) override {
    const auto& starts = static_cast<const GroupMoment&>(from).moments;
    const auto& ends = static_cast<const GroupMoment&>(to).moments;
    double seconds = 0;
    for (size_t i = 0; i < devices_.size(); ++i) seconds += devices_[i]->seconds_between(*starts[i], *ends[i]);
    return devices_.empty() ? 0 : seconds / static_cast<double>(devices_.size());
  }

 private:
  struct GroupMoment : DeviceMoment {
    std::vector<std::shared_ptr<DeviceMoment>> moments;
  };

  Device& first_;
  std::vector<Device*> devices_;
};

// Buffers of the local ranks, in place as NCCL defines it. Ranks that rest have none.
struct Buffers {
  std::vector<DeviceBuffer> memory;
  std::vector<void*> from, to;

  Buffers(const Communicator& communicator, const Collective& collective, std::span<const int> taking_part,
          bool in_place)
      : from(static_cast<size_t>(communicator.local_size())), to(from) {
    const int ranks = communicator.size();
    const size_t element = size_bytes(collective.dtype);
    const auto sent = static_cast<size_t>(collective.sent(ranks)) * element;
    const auto received = static_cast<size_t>(collective.received(ranks)) * element;
    for (const int rank : taking_part) {
      Device& device = communicator.device(rank);
      const auto local = static_cast<size_t>(rank - communicator.first_local());
      if (in_place) {
        const size_t part = static_cast<size_t>(rank) * static_cast<size_t>(collective.count) * element;
        std::byte* whole = memory.emplace_back(device.allocate(std::max(sent, received))).data();
        from[local] = collective.kind == CollectiveKind::kAllGather ? whole + part : whole;
        to[local] = collective.kind == CollectiveKind::kReduceScatter ? whole + part : whole;
      } else {
        from[local] = memory.emplace_back(device.allocate(sent)).data();
        to[local] = memory.emplace_back(device.allocate(received)).data();
      }
    }
  }
};

// What a rank sends from, read by the others' GPUs meanwhile. Throws Error(kUnsupported), in every process.
class SharedBuffers {
 public:
  SharedBuffers(Communicator& communicator, Buffers& buffers) : communicator_(communicator) {
    DeviceBuffer& first = buffers.memory.front();
    if (!communicator.share_memory(first.data(), first.bytes))
      throw Error(ErrorKind::kUnsupported, "the GPUs do not read each other's memory", "copies between GPUs",
                  "They do within a machine, where each can reach the others' and pieces are of 2 MiB or more.");
  }
  ~SharedBuffers() { communicator_.forget_memory(); }
  SharedBuffers(const SharedBuffers&) = delete;
  SharedBuffers& operator=(const SharedBuffers&) = delete;

 private:
  Communicator& communicator_;
};

// Each sample's mean over all ranks that take part, of each process's mean over those of its own.
void average(Communicator& communicator, std::vector<std::vector<double>>& rounds, size_t local, size_t all) {
  if (!communicator.spans_processes()) return;
  std::vector<double> samples;
  for (const std::vector<double>& round : rounds) samples.insert(samples.end(), round.begin(), round.end());
  for (double& sample : samples) sample *= static_cast<double>(local) / static_cast<double>(all);
  communicator.total(samples);
  auto sample = samples.begin();
  for (std::vector<double>& round : rounds)
    for (double& seconds : round) seconds = *sample++;
}

std::string bandwidth_text(double bytes, double seconds) {
  return fmt::format("{:.2f} GB/s", seconds > 0 ? bytes / seconds / 1e9 : 0);
}

// Links bound what passes through them. Where a switch adds up or repeats for the devices (NVLink SHARP), less passes
// than the bus bandwidth of an all_reduce assumes.
bool links_bound(const CollectiveCase& c, const CollectivesOptions& options) {
  return c.kind != CollectiveKind::kAllReduce || c.ranks == 2 || !options.nvlink_multicast;
}

}  // namespace

Collective CollectiveCase::collective() const {
  const auto element = static_cast<int64_t>(size_bytes(dtype));
  int64_t count = bytes / element;
  if (is_divided(kind)) {
    const int64_t aligned = kPartAlignment / element;
    count = count / ranks / aligned * aligned;
  }
  if (count <= 0)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} are too few for {} among {} ranks", exact_bytes(bytes), collective_name(kind), ranks),
                "--size", fmt::format("Give {} bytes or more.", is_divided(kind) ? kPartAlignment * ranks : element));
  return {kind, dtype, count, 0};
}

int64_t CollectiveCase::moved_bytes() const {
  const int64_t count = collective().count;
  return (is_divided(kind) ? count * ranks : count) * static_cast<int64_t>(size_bytes(dtype));
}

std::string CollectiveCase::group() const {
  if (pair) return fmt::format("{}, pairs", collective_name(kind));
  return fmt::format("{}, {} devices", collective_name(kind), ranks);
}

std::string CollectiveCase::workload() const {
  if (pair)
    return fmt::format("{} between {} and {}, {}", exact_bytes(bytes), pair->first, pair->second,
                       collective_name(kind));
  return fmt::format("{} {}, {}", exact_bytes(bytes), in_place ? "in place" : "out of place", group());
}

double bus_bandwidth_factor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  if (kind == CollectiveKind::kAllReduce) return 2 * (n - 1) / n;
  return is_divided(kind) ? (n - 1) / n : 1;
}

CollectiveKind parse_collective(const std::string& name) {
  std::vector<std::string> names;
  for (const CollectiveKind kind : kAllCollectives) {
    names.emplace_back(collective_name(kind));
    if (names.back() == name) return kind;
  }
  const std::string nearest = nearest_name(name, names);
  throw Error(
      ErrorKind::kInvalidArgument, fmt::format("'{}' is no collective", name), "--collective",
      nearest.empty() ? fmt::format("Choose {}.", fmt::join(names, ", ")) : fmt::format("Did you mean {}?", nearest));
}

std::vector<CollectiveCase> standard_collective_cases(bool is_gpu, int devices, DType dtype,
                                                      std::span<const int64_t> bytes) {
  std::vector<int64_t> sizes(bytes.begin(), bytes.end());
  if (sizes.empty())
    for (int64_t mib = is_gpu ? 16 : 1; mib <= (is_gpu ? 256 : 16); mib *= 2) sizes.push_back(mib * kMiB);
  std::vector<int> groups;
  for (const int ranks : {2, 4, 8})
    if (ranks <= devices) groups.push_back(ranks);
  if (devices > 1 && std::find(groups.begin(), groups.end(), devices) == groups.end()) groups.push_back(devices);
  std::vector<CollectiveCase> cases;
  for (const int ranks : groups)
    for (const CollectiveKind kind : kAllCollectives)
      for (const bool in_place : {false, true})
        for (const int64_t size : sizes)
          if (!in_place || has_in_place(kind)) cases.push_back({kind, ranks, size, dtype, in_place, {}});
  // Of two devices, the group is the pair.
  if (is_gpu && devices > 2)
    for (const CollectiveCase& link : link_cases(devices, dtype, *std::max_element(sizes.begin(), sizes.end())))
      cases.push_back(link);
  return cases;
}

namespace {

// Of a case that has been timed.
void add_details(Measurement& m, const CollectiveCase& c) {
  const double median = summarize(m).median;
  m.details["devices"] = fmt::to_string(c.pair ? 2 : c.ranks);
  if (c.pair) m.details["pair"] = fmt::format("{} {}", c.pair->first, c.pair->second);
  m.details["place"] = c.in_place ? "in place" : "out of place";
  m.details["bytes"] = fmt::to_string(c.moved_bytes());
  m.details["count"] = fmt::to_string(c.collective().count);
  m.details["reduction"] = adds_up(c.kind) ? "sum" : "none";
  m.details["root"] = c.kind == CollectiveKind::kBroadcast ? "0" : "-1";
  m.details["algorithm bandwidth"] = bandwidth_text(static_cast<double>(c.moved_bytes()), median);
  m.details["bus bandwidth"] = fmt::format("{}, {:.4g} times the algorithm bandwidth", bandwidth_text(m.work, median),
                                           bus_bandwidth_factor(c.kind, c.ranks));
  m.details["time"] = fmt::format("{:.2f} us", median * 1e6);
  m.details["inputs"] = "integers whose sums are exact";
}

// There and back, between the two of a pair.
std::vector<Transfer> transfers_of(const Communicator& communicator, const CollectiveCase& c,
                                   const std::vector<int>& ranks, const Buffers& buffers, CollectiveCheck& check) {
  std::vector<Transfer> transfers;
  if (c.pair) {
    const auto of_rank = [&](const std::vector<void*>& pointers, int rank) {
      return communicator.is_local(rank) ? pointers[static_cast<size_t>(rank - communicator.first_local())] : nullptr;
    };
    for (const auto& [sender, receiver] : {std::pair(ranks[0], ranks[1]), {ranks[1], ranks[0]}}) {
      check.set_sender(receiver, sender);
      transfers.push_back({sender, receiver, of_rank(buffers.from, sender), of_rank(buffers.to, receiver),
                           c.collective().count, c.dtype});
    }
  }
  return transfers;
}

}  // namespace

Measurement run_collective(Communicator& communicator, const CollectiveCase& collective_case,
                           const CollectivesOptions& options, const std::optional<DevicePeak>& peak) {
  const CollectiveCase& c = collective_case;
  CAUSEWAY_CHECK(c.ranks == communicator.size() && (!c.in_place || has_in_place(c.kind)) &&
                     (!c.pair || c.kind == CollectiveKind::kSendReceive),
                 "{} by {} devices", c.workload(), communicator.size());
  const Collective collective = c.collective();
  std::vector<int> ranks;
  if (c.pair) {
    ranks = {c.pair->first, c.pair->second};
  } else {
    ranks.resize(static_cast<size_t>(c.ranks));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::vector<int> local = ranks;
  std::erase_if(local, [&](int rank) { return !communicator.is_local(rank); });
  std::optional<Buffers> buffers;
  std::optional<CollectiveCheck> check;
  // Memory may not suffice in one process: no other must then wait for it.
  communicator.together([&] {
    buffers.emplace(communicator, collective, local, c.in_place);
    check.emplace(communicator, collective, local);
  });
  std::optional<SharedBuffers> shared;
  if (c.by_copies) shared.emplace(communicator, *buffers);
  const std::vector<const void*> sent(buffers->from.begin(), buffers->from.end());
  const std::vector<Transfer> transfers = transfers_of(communicator, c, ranks, *buffers, *check);
  const TimedWork work = [&] {
    if (c.pair) {
      communicator.send_receive(transfers);
    } else {
      communicator.run(collective, sent, buffers->to);
    }
  };

  Measurement m;
  m.benchmark = "collectives";
  m.group = c.group();
  m.workload = c.workload();
  // Pairs are compared with each other.
  if (!c.pair) m.size = static_cast<double>(c.bytes);
  m.dtype = std::string(dtype_name(c.dtype));
  m.provider = communicator.name();
  const auto bytes = static_cast<double>(c.moved_bytes());
  const double factor = bus_bandwidth_factor(c.kind, c.ranks);
  m.work = bytes * factor;
  m.unit = "GB/s";
  if (peak && peak->link_gb_per_s && links_bound(c, options)) {
    m.peak = peak->link_gb_per_s;
    m.peak_source = peak->source;
  }

  const auto run_and_count = [&] {
    check->fill(buffers->from, buffers->to);
    work();
    return check->wrong(buffers->to);
  };
  int64_t wrong = run_and_count();
  TimingOptions timing = options.timing;
  timing.flush_bytes = 0;
  GroupDevice group(communicator, local);
  TimingTogether together;
  if (communicator.spans_processes())
    together = {[&](double value) { return communicator.of_first(value); }, [&] { communicator.barrier(); }};
  m.rounds = std::move(time_alternately(group, std::span(&work, 1), timing, {}, together).front().seconds);
  average(communicator, m.rounds, local.size(), ranks.size());
  wrong += c.in_place ? run_and_count() : check->wrong(buffers->to);
  auto wrong_of_all = static_cast<double>(wrong);
  communicator.total(std::span(&wrong_of_all, 1));
  wrong = static_cast<int64_t>(wrong_of_all);

  m.correct = wrong == 0;
  m.check = fmt::format("{} wrong of {} elements received by {} ranks, each compared before and after the timing",
                        wrong, 2 * static_cast<int64_t>(ranks.size()) * collective.received(c.ranks), ranks.size());
  m.details["wrong"] = fmt::to_string(wrong);
  add_details(m, c);
  const Placement placement = communicator.placement();
  m.details["machines"] = fmt::to_string(placement.machines);
  if (placement.ranks > placement.processors)
    m.distrust.push_back(fmt::format("{} ranks shared {} processors.", placement.ranks, placement.processors));
  return m;
}

RankGroups groups_of(std::vector<std::shared_ptr<Device>> devices, const CommunicatorOptions& options) {
  RankGroups groups;
  groups.ranks = static_cast<int>(devices.size());
  groups.open = [devices = std::move(devices), options](int ranks) {
    return open_communicator({devices.begin(), devices.begin() + ranks}, options);
  };
  return groups;
}

RankGroups groups_of(Communicator& world) {
  return {world.size(), world.spans_processes(), [&world](int ranks) {
            const int rank = world.first_local();
            return world.split(rank < ranks ? std::optional(0) : std::nullopt, rank);
          }};
}

std::vector<Measurement> run_collectives(const RankGroups& groups, std::span<const CollectiveCase> cases,
                                         const CollectivesOptions& options, const std::optional<DevicePeak>& peak,
                                         std::vector<std::string>& skipped,
                                         const std::function<void(const Measurement&)>& measured) {
  std::vector<Measurement> measurements;
  std::vector<int> sizes;
  for (const CollectiveCase& c : cases)
    if (std::find(sizes.begin(), sizes.end(), c.ranks) == sizes.end()) sizes.push_back(c.ranks);
  const auto skip = [&](const std::string& what, const Error& error) {
    // Other processes may wait for this one where the exchange itself failed.
    if (groups.several_processes && error.kind() == ErrorKind::kIo) throw error;
    skipped.push_back(fmt::format("{}: {}", what, error.what()));
  };
  for (const int ranks : sizes) {
    if (ranks < 1 || ranks > groups.ranks) {
      skipped.push_back(fmt::format("collectives of {} devices: there are {}", ranks, groups.ranks));
      continue;
    }
    std::unique_ptr<Communicator> communicator;
    try {
      communicator = groups.open(ranks);
    } catch (const Error& error) {
      skip(fmt::format("collectives of {} devices", ranks), error);
      continue;
    }
    if (communicator == nullptr) continue;
    const auto run_one = [&](const CollectiveCase& c) {
      try {
        measurements.push_back(run_collective(*communicator, c, options, peak));
      } catch (const Error& error) {
        return skip(fmt::format("{} {}{}", c.workload(), dtype_name(c.dtype), c.by_copies ? ", by copies" : ""), error);
      }
      if (measured) measured(measurements.back());
    };
    const bool of_gpus = communicator->device(communicator->first_local()).target().is_gpu();
    for (CollectiveCase c : cases) {
      if (c.ranks != ranks) continue;
      run_one(c);
      c.by_copies = c.kind == CollectiveKind::kAllGather || c.kind == CollectiveKind::kAllToAll;
      if (c.by_copies && groups.several_processes && of_gpus) run_one(c);
    }
  }
  return measurements;
}

std::string format_nccl_table(std::span<const Measurement> measurements) {
  struct Line {
    const Measurement* out_of_place = nullptr;
    const Measurement* in_place = nullptr;
  };
  // By title, then in the order measured: by bytes.
  std::vector<std::pair<std::string, std::vector<std::pair<double, Line>>>> tables;
  for (const Measurement& m : measurements) {
    if (m.benchmark != "collectives" || m.size <= 0) continue;
    const std::string title = fmt::format("{}, {}, {}", m.group, m.dtype, m.provider);
    auto table = std::find_if(tables.begin(), tables.end(), [&](const auto& t) { return t.first == title; });
    if (table == tables.end()) table = tables.insert(tables.end(), {title, {}});
    auto& lines = table->second;
    auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == m.size; });
    if (line == lines.end()) line = lines.insert(lines.end(), {m.size, {}});
    (m.details.at("place") == "in place" ? line->second.in_place : line->second.out_of_place) = &m;
  }

  std::string text;
  for (auto& [title, lines] : tables) {
    text += fmt::format("# {}\n", title);
    text += fmt::format("#{:>53}{:^36}   {:^36}\n", "", "out-of-place", "in-place");
    text += fmt::format("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
    for (int place = 0; place < 2; ++place)
      text += fmt::format("  {:>9}  {:>7}  {:>7}  {:>6}", "time", "algbw", "busbw", "#wrong");
    text += fmt::format("\n#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
    for (int place = 0; place < 2; ++place)
      text += fmt::format("  {:>9}  {:>7}  {:>7}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
    text += "\n";
    double total = 0;
    int figures = 0;
    int64_t wrong = 0;
    for (const auto& [size, line] : lines) {
      const auto& details = (line.out_of_place != nullptr ? line.out_of_place : line.in_place)->details;
      const std::string& dtype = (line.out_of_place != nullptr ? line.out_of_place : line.in_place)->dtype;
      text += fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", details.at("bytes"), details.at("count"),
                          dtype == "bf16" ? "bfloat16" : "float", details.at("reduction"), details.at("root"));
      for (const Measurement* m : {line.out_of_place, line.in_place}) {
        if (m == nullptr) {
          text += fmt::format("  {:>9}  {:>7}  {:>7}  {:>6}", "N/A", "N/A", "N/A", "N/A");
          continue;
        }
        const double seconds = summarize(*m).median;
        const double bytes = std::stod(m->details.at("bytes"));
        text += fmt::format("  {:>9.2f}  {:>7.2f}  {:>7.2f}  {:>6}", seconds * 1e6,
                            seconds > 0 ? bytes / seconds / 1e9 : 0, m->rate(seconds), m->details.at("wrong"));
        total += m->rate(seconds);
        ++figures;
        wrong += std::stoll(m->details.at("wrong"));
      }
      text += "\n";
    }
    text += fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:.4f}\n\n", wrong,
                        wrong == 0 ? "OK" : "FAILED", total / std::max(1, figures));
  }
  return text;
}

}  // namespace causeway::bench
