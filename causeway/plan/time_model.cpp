#include "causeway/plan/time_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "causeway/base/error.h"

namespace causeway::plan {
namespace {

double saturation(double size, double half) { return size / (size + half); }

double peak(const Machine& machine, const std::string& operand) {
  const auto entry = machine.peak_flops.find(operand);
  if (entry != machine.peak_flops.end()) return entry->second;
  throw Error(ErrorKind::kUnsupported, fmt::format("no peak of {} GEMMs is on record for {}", operand, machine.product),
              machine.name, "Choose another train.precision or another --hardware.");
}

// A ring over all ranks crosses each node's border once per direction with what the node's links to the network carry
// together.
double link_bytes_per_second(const Work& work, const Machine& machine) {
  const double link = machine.link_bytes_per_second * machine.constants.link_fraction;
  if (work.ranks_in_node >= work.ranks) return link;
  const double network = machine.network_bytes_per_second * machine.constants.network_fraction;
  return std::min(link, network * static_cast<double>(work.ranks_in_node));
}

// Of one hop between devices: within a node, and between nodes. Typical figures of NCCL's ring and point-to-point
// kernels; collectives of training are large enough for them to matter little.
constexpr double kLinkLatency = 1.5e-6, kNetworkLatency = 4e-6;
// Of a copy to or from the host: its start on a copy engine, and the signal to who waits for it.
constexpr double kHostCopyLatency = 1e-5;

double collective_seconds(const Work& work, const Machine& machine) {
  if (work.ranks <= 1) return 0;
  const double ranks = static_cast<double>(work.ranks);
  const bool one_node = work.ranks_in_node >= work.ranks;
  // Trees and hierarchies beyond a node: latency grows with the nodes' logarithm.
  const double nodes = ranks / static_cast<double>(work.ranks_in_node);
  const double hops = static_cast<double>(work.ranks_in_node - 1);
  const double latency = hops * kLinkLatency + (one_node ? 0 : std::log2(nodes) * kNetworkLatency);
  const double bandwidth = link_bytes_per_second(work, machine);
  if (work.kind == WorkKind::kSend) return latency + work.bytes / bandwidth;
  const double moved = work.bytes * (ranks - 1) / ranks * (work.kind == WorkKind::kAllReduce ? 2 : 1);
  return latency + moved / bandwidth;
}

}  // namespace

const std::vector<ConstantField>& constant_fields() {
  static const std::vector<ConstantField> fields = {{"gemm_fraction", &MachineConstants::gemm_fraction},
                                                    {"gemm_half", &MachineConstants::gemm_half},
                                                    {"attention_fraction", &MachineConstants::attention_fraction},
                                                    {"memory_fraction", &MachineConstants::memory_fraction},
                                                    {"launch_seconds", &MachineConstants::launch_seconds},
                                                    {"link_fraction", &MachineConstants::link_fraction},
                                                    {"network_fraction", &MachineConstants::network_fraction},
                                                    {"contention", &MachineConstants::contention},
                                                    {"straggle", &MachineConstants::straggle}};
  return fields;
}

double seconds(const Work& work, const Machine& machine) {
  const MachineConstants& c = machine.constants;
  switch (work.kind) {
    case WorkKind::kGemm: {
      const double filled =
          saturation(work.m, c.gemm_half) * saturation(work.n, c.gemm_half) * saturation(work.k, c.gemm_half);
      return c.launch_seconds + work.flops / (peak(machine, work.operand) * c.gemm_fraction * filled);
    }
    case WorkKind::kAttention: {
      const double padded = std::bit_ceil(static_cast<uint64_t>(work.head_dim));
      return c.launch_seconds +
             work.flops * padded / work.head_dim / (peak(machine, work.operand) * c.attention_fraction);
    }
    case WorkKind::kMemory:
      return c.launch_seconds + work.bytes / (machine.memory_bytes_per_second * c.memory_fraction);
    case WorkKind::kHostCopy:
      return kHostCopyLatency + work.bytes / machine.host_bytes_per_second;
    default:
      return collective_seconds(work, machine);
  }
}

StepTime run_queues(const std::vector<Work>& work, const Machine& machine) {
  StepTime time;
  std::vector<double> ends(work.size());
  std::map<int, double> free;  // by queue, from when on
  // Time of other queues that compute has not been charged for yet. Where compute waits, nothing is shared.
  double beside = 0;
  for (size_t i = 0; i < work.size(); ++i) {
    double& queue = free[work[i].queue];
    double begin = queue;
    for (const int before : work[i].after) begin = std::max(begin, ends[static_cast<size_t>(before)]);
    double duration = seconds(work[i], machine);
    if (is_collective(work[i].kind)) {
      time.collective_seconds += duration;
    } else if (work[i].kind == WorkKind::kHostCopy) {
      time.host_seconds += duration;
    } else {
      if (work[i].queue == kComputeWork) {
        beside = std::max(0.0, beside - (begin - queue));
        const double shared = std::min(beside, duration);
        beside -= shared;
        duration += shared * machine.constants.contention;
      }
      time.compute_seconds += duration;
    }
    if (work[i].queue != kComputeWork && work[i].kind != WorkKind::kHostCopy) beside += duration;
    ends[i] = queue = begin + duration;
    time.seconds = std::max(time.seconds, ends[i]);
  }
  return time;
}

double straggle_factor(const Machine& machine, int64_t devices) {
  const double nodes = static_cast<double>(devices) / static_cast<double>(machine.devices_per_node);
  return nodes <= 1 ? 1 : 1 + machine.constants.straggle * std::log2(nodes);
}

}  // namespace causeway::plan
