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
  throw Error(ErrorKind::kUnsupported,
              fmt::format("no peak of {} products is on record for {}", operand, machine.product), machine.name,
              "Choose another train.precision or another --hardware.");
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
  static const std::vector<ConstantField> fields = {{"product_fraction", &MachineConstants::product_fraction},
                                                    {"product_half", &MachineConstants::product_half},
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
    case WorkKind::kProduct: {
      const double filled = saturation(work.m, c.product_half) * saturation(work.n, c.product_half) *
                            saturation(work.k, c.product_half);
      return c.launch_seconds + work.flops / (peak(machine, work.operand) * c.product_fraction * filled);
    }
    case WorkKind::kAttention: {
      const double padded = std::bit_ceil(static_cast<uint64_t>(work.head_dim));
      return c.launch_seconds +
             work.flops * padded / work.head_dim / (peak(machine, work.operand) * c.attention_fraction);
    }
    case WorkKind::kMemory:
      return c.launch_seconds + work.bytes / (machine.memory_bytes_per_second * c.memory_fraction);
    default:
      return collective_seconds(work, machine);
  }
}

StepTime run_queues(const std::vector<Work>& work, const Machine& machine) {
  StepTime time;
  std::vector<double> ends(work.size());
  double compute_free = 0, collectives_free = 0;
  // Compute waits for the earlier of the two queues only through `after`; a collective that runs while compute does
  // takes some of it away, which is charged to the compute that follows.
  double owed = 0;
  for (size_t i = 0; i < work.size(); ++i) {
    double ready = 0;
    for (const int before : work[i].after) ready = std::max(ready, ends[static_cast<size_t>(before)]);
    const double duration = seconds(work[i], machine);
    if (is_collective(work[i].kind)) {
      const double begin = std::max(ready, collectives_free);
      collectives_free = ends[i] = begin + duration;
      time.collective_seconds += duration;
      owed += duration;
      continue;
    }
    const double begin = std::max(ready, compute_free);
    // Waiting for collectives is no sharing.
    owed = std::max(0.0, owed - (begin - compute_free));
    const double shared = std::min(owed, duration);
    owed -= shared;
    const double taken = duration + shared * machine.constants.contention;
    compute_free = ends[i] = begin + taken;
    time.compute_seconds += taken;
  }
  time.seconds = std::max(compute_free, collectives_free);
  return time;
}

double straggle_factor(const Machine& machine, int64_t devices) {
  const double nodes = static_cast<double>(devices) / static_cast<double>(machine.devices_per_node);
  return nodes <= 1 ? 1 : 1 + machine.constants.straggle * std::log2(nodes);
}

}  // namespace causeway::plan
