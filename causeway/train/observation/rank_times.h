// Where the ranks of a run spend their time, and the memory that they take, as metrics.jsonl says it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "causeway/program/program_trace.h"
#include "causeway/train/ranks.h"

namespace causeway::train {

// Of one rank, the mean over some steps, in seconds a step. What kernels and collectives take is measured in some steps
// or in none: then it is the mean over those.
struct RankTimes {
  double step = 0;  // all of it, from waiting for data to the end of the step
  double data_wait = 0;
  std::optional<double> compute;  // at least one kernel or copy was at work
  // Collectives or messages between stages were at work, waiting for other ranks included, and nothing else was.
  std::optional<double> exposed_communication;
  uint64_t memory_bytes = 0;  // in use at most; those of stages differ

  // What the rank does without waiting for others; nothing where it was not measured.
  std::optional<double> own_work() const;
};

class RankTimesSum {
 public:
  void add(double step_seconds, double data_wait_seconds, const std::optional<WorkSeconds>& work);
  // Of what was added since the last time.
  RankTimes take();

 private:
  int64_t steps_ = 0, measured_ = 0;
  double step_ = 0, data_wait_ = 0, compute_ = 0, exposed_ = 0;
};

// Every rank's; called by all of them.
std::vector<RankTimes> gather_rank_times(const Ranks& ranks, const RankTimes& own);

// For metrics.jsonl: of each time the least, the median and the greatest, and the rank that has the greatest; of those
// that not all ranks have measured, nothing. The same of their memory. "slowest": the rank with the most work of its
// own. With `each` also every rank's times, by rank.
nlohmann::ordered_json rank_times_json(std::span<const RankTimes> times, bool each);

}  // namespace causeway::train
