// How long work takes on a machine.
//
//   GEMM         flops / (peak * gemm_fraction * m/(m+gemm_half) * n/(n+gemm_half) * k/(k+gemm_half))
//   attention    flops / (peak * attention_fraction), of heads padded to the next power of two
//   memory       bytes / (bandwidth * memory_fraction)
//   host copy    bytes / link to the host, kHostCopyLatency on top; each direction by itself, beside all else
//   collective   latency * (ranks - 1) + bytes * (ranks - 1)/ranks / link; an all_reduce moves its bytes twice
//
// kernels with launch_seconds on top. Collectives in a queue of their own run beside compute, and slow it by
// `contention` of the time they share. A step over several nodes takes straggle * log2(nodes) longer: ranks wait for
// the slowest.
//
// Methods: the saturating GEMM after Isaev et al., Calculon (SC 2023); latency and bandwidth of collectives after
// Thakur et al., "Optimization of Collective Communication Operations in MPICH" (2005).
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "causeway/plan/work.h"

namespace causeway::plan {

// Fitted to measured steps, or set by hand: docs/planning.md says which.
struct MachineConstants {
  double gemm_fraction = 0.75;  // of the peak that large GEMMs reach
  double gemm_half = 200;       // a side of that length reaches half of it
  double attention_fraction = 0.3;
  double memory_fraction = 0.5;
  double launch_seconds = 5e-6;
  double link_fraction = 0.7;     // of the datasheet's bandwidth within a node
  double network_fraction = 0.7;  // and between nodes
  double contention = 0.1;
  double straggle = 0.005;
};

// Names as in the data file, in the order above; the fit goes through them.
struct ConstantField {
  const char* name;
  double MachineConstants::* member;
};
const std::vector<ConstantField>& constant_fields();

struct Machine {
  std::string name;     // what --hardware takes: "h200"
  std::string product;  // the maker's name, by which peaks and prices are found
  std::string target;   // what its kernels are compiled for: "cuda:sm_90a"
  int64_t devices_per_node = 8;
  double memory_bytes = 0;                   // of one device
  double memory_bytes_per_second = 0;        // datasheet
  double link_bytes_per_second = 0;          // from one device to the others of its node, one direction, datasheet
  double network_bytes_per_second = 0;       // from one device to other nodes, one direction
  double host_bytes_per_second = 0;          // from one device to the host's memory, one direction, as copies reach it
  std::map<std::string, double> peak_flops;  // by type of operand
  MachineConstants constants;
  std::string source;  // of the constants, a sentence
};

// Seconds of one piece of work by itself.
double seconds(const Work& work, const Machine& machine);

struct StepTime {
  double seconds = 0;
  double compute_seconds = 0;  // all kernels together, what collectives beside them slow them by included
  double collective_seconds = 0;
  double host_seconds = 0;  // copies between the host and the device, all together
  // In which no kernel runs. Kernels of two queues may run at once, and are then counted twice in compute_seconds.
  double exposed_seconds() const { return std::max(0.0, seconds - compute_seconds); }
};

// Runs the list through its queues.
StepTime run_queues(const std::vector<Work>& work, const Machine& machine);

// What ranks waiting for the slowest add, as a factor.
double straggle_factor(const Machine& machine, int64_t devices);

}  // namespace causeway::plan
