// Collectives by size, group and place, after the conventions of NVIDIA's nccl-tests, so that figures compare with
// theirs and with rccl-tests'.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "causeway/bench/result.h"
#include "causeway/bench/timing.h"
#include "causeway/communicator/communicator.h"
#include "causeway/device/device_peaks.h"

namespace causeway::bench {

struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 2;
  // nccl-tests' "size": of a rank's larger buffer. Where it is divided among ranks, rounded down to 16 bytes of each.
  int64_t bytes = 0;
  DType dtype = DType::kF32;
  bool in_place = false;
  // kSendReceive: only these two of the ranks, both ways at once; the others rest.
  std::optional<std::pair<int, int>> pair;
  // kAllGather, kAllToAll between processes with a GPU each: by what the GPUs read of each other's memory, as training
  // does, in place of the library's own way.
  bool by_copies = false;

  // What NCCL's function takes. Throws Error(kInvalidArgument) where the size leaves a rank nothing.
  Collective collective() const;
  int64_t moved_bytes() const;   // `bytes` as rounded
  std::string group() const;     // "all_reduce, 8 devices", "send_receive, pairs"
  std::string workload() const;  // "16 MiB in place, all_reduce, 8 devices", "16 MiB between 0 and 3, send_receive"
};

// Bus bandwidth over algorithm bandwidth (nccl-tests, PERFORMANCE.md): what a link must carry so that devices of any
// number finish in that time. all_reduce 2(n - 1)/n; all_gather, reduce_scatter, all_to_all (n - 1)/n; others 1.
double bus_bandwidth_factor(CollectiveKind kind, int ranks);

// "all_reduce" and the others' names. Throws Error(kInvalidArgument) with the nearest one.
CollectiveKind parse_collective(const std::string& name);

// Every collective, out of place and in place where there is such a thing, in groups of 2, 4 and 8 as far as there are
// devices, and of all devices; on GPUs each pair by the largest size too. Sizes: those asked for, otherwise 16 to 256
// MiB, on a processor 1 to 16 MiB.
std::vector<CollectiveCase> standard_collective_cases(bool is_gpu, int devices, DType dtype,
                                                      std::span<const int64_t> bytes = {});

struct CollectivesOptions {
  TimingOptions timing;          // flush_bytes has no effect: nccl-tests leaves caches alone
  bool nvlink_multicast = true;  // whether the communicator may use it: then links do not bound an all_reduce
};

// Samples are the mean over the ranks of each one's own time: of executions queued back to back where one process
// drives all, of executions that all processes begin together, after a barrier outside of the time, where several do
// (as the OSU benchmarks do). Rank 0 decides how many there are. Every element of every rank's result is compared,
// before and after the timing, with what it must be: inputs are small integers whose sums are exact in bf16 in any
// order. (In place, results feed the next execution while timed, and the inputs are restored for the check.) Every
// process has the same result. Details: "devices", "machines", "place", "bytes", "count", "wrong", "reduction", "root",
// "algorithm bandwidth", "bus bandwidth", "time". Throws Error, in every process, e.g. kResource where the buffers do
// not fit; as Communicator::run() says where it fails.
Measurement run_collective(Communicator& communicator, const CollectiveCase& collective_case,
                           const CollectivesOptions& options, const std::optional<DevicePeak>& peak);

// Where groups of the first ranks come from.
struct RankGroups {
  int ranks = 0;  // in all
  bool several_processes = false;
  // Called in every process; null in one that has none of the ranks.
  std::function<std::unique_ptr<Communicator>(int ranks)> open;
};
// A rank for each of the devices.
RankGroups groups_of(std::vector<std::shared_ptr<Device>> devices, const CommunicatorOptions& options = {});
// Of a communicator between processes, which outlives them.
RankGroups groups_of(Communicator& world);

// All cases, in groups of the first `ranks`, and those of GPUs of several processes that can be done by copies (see
// CollectiveCase) so as well; `measured` hears of each at once. What cannot be measured is left out,
// with the reason in `skipped`; of several processes, where the exchange itself fails, Error(kIo) is thrown. Every
// process calls it with the same cases and options, and has the measurements of the groups in which it was.
std::vector<Measurement> run_collectives(const RankGroups& groups, std::span<const CollectiveCase> cases,
                                         const CollectivesOptions& options, const std::optional<DevicePeak>& peak,
                                         std::vector<std::string>& skipped,
                                         const std::function<void(const Measurement&)>& measured = {});

// What nccl-tests would print of these: a table for each group and type, a line for each size, out of place and in
// place beside each other, the median for the time, wrong elements of all ranks; then the mean of the table's bus
// bandwidths. Measurements of other benchmarks and of pairs are passed over.
std::string format_nccl_table(std::span<const Measurement> measurements);

}  // namespace causeway::bench
