// What a rank of the control plane knows of each rank of the run, and what it concludes.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/communicator/communicator.h"
#include "causeway/communicator/control_link.h"
#include "causeway/communicator/rank_progress.h"

namespace causeway::communicator {

struct WatchedRank {
  using Clock = std::chrono::steady_clock;

  std::string host;
  int64_t process = 0;
  std::string numbering;              // of processes: within what their numbers mean the same
  std::shared_ptr<ControlLink> link;  // of rank 0 to each other one; of another one to rank 0
  RankPosition position;
  Clock::time_point heard = Clock::now();  // the last time that it said something
  bool has_left = false;
};

// Called by all ranks of `world`, each of which drives one: what each says of its machine and process; no links.
std::vector<WatchedRank> meet_ranks(Communicator& world);

// The message that ends a run, as `speaker` knows of the others: who failed, where it was and why, and where the ranks
// were. Rank 0 knows of all; another one of itself and rank 0. `advice` is appended.
std::string describe_failure(const std::vector<WatchedRank>& ranks, int speaker, int failed, const std::string& cause,
                             const std::string& advice);

// A process that is stopped cannot end itself, and not every launcher ends it: kills that of `silent` where it is in
// the same container of the same machine as `here`.
void kill_near_process(const WatchedRank& silent, const WatchedRank& here);

// Finds a deadlock: all ranks are within a step, and none of them gets on.
class StandstillRule {
 public:
  using Clock = std::chrono::steady_clock;

  // `patience`: how long that may last, but at least 20 times as long as the longest step took.
  explicit StandstillRule(Clock::duration patience) : patience_(patience) {}

  // What was not heard of until now is no standstill.
  void restart(Clock::time_point now) { moved_ = now; }
  struct Standstill {
    int rank = 0;  // that all wait for: it has begun the fewest collectives
    Clock::duration lasts;
  };
  // To be called once a heartbeat, on rank 0. `own`: its progress.
  std::optional<Standstill> look(const std::vector<WatchedRank>& ranks, const RankProgress& own, Clock::time_point now);

 private:
  Clock::duration patience_;
  Clock::time_point moved_;
  int64_t marks_ = 0;
};

}  // namespace causeway::communicator
