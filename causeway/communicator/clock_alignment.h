// What the ranks' clocks show at the same moment.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "causeway/communicator/communicator.h"

namespace causeway::communicator {

// A rank came to a meeting of all ranks and left it, in seconds by its own clock.
struct Meeting {
  double came = 0;
  double left = 0;
};

// Of one rank against rank 0.
struct ClockOffset {
  double ahead = 0;        // seconds that the rank's clock shows more than rank 0's
  double uncertainty = 0;  // by which that may be wrong, either way
};

// Nobody leaves a meeting before all have come: that bounds each clock from both sides, the more tightly the more
// meetings there are. meetings[rank][i] is of the i-th one. A rank of the same host as rank 0 has its clock, unless the
// meetings say otherwise.
std::vector<ClockOffset> clock_offsets(std::span<const std::vector<Meeting>> meetings,
                                       std::span<const std::string> hosts);

// Of std::chrono::steady_clock, of every rank. Called by all of them; takes a few dozen meetings. Clocks drift apart
// afterwards, by some millionths of the time that passes.
std::vector<ClockOffset> align_clocks(Communicator& world);

}  // namespace causeway::communicator
