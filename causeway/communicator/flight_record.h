// The last collectives of a rank, kept so that a run that fails or hangs leaves behind what its ranks were at.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "causeway/namespaces.h"

namespace causeway::communicator {

struct CollectiveRecord {
  using Clock = std::chrono::system_clock;  // what people read, and what hosts have in common at all

  int64_t number = 0;  // of the collectives that this rank has begun, from 1; of a replay: begun before it
  int64_t step = 0;    // at work, counted from 1; 0 before the first
  std::string name;    // "all_gather", "replay of 12 collectives"
  std::string group;   // "fsdp"
  int64_t bytes = 0;   // of the rank's larger buffer
  Clock::time_point queued = {};
  std::optional<Clock::time_point> ended = {};  // none: not yet, or not known
};

// Not thread-safe.
class FlightRecord {
 public:
  static const size_t kKept;  // collectives, at most

  // Now; the oldest one is dropped.
  void begin(CollectiveRecord record);
  void end_last(size_t count);
  // Oldest first.
  const std::deque<CollectiveRecord>& records() const { return records_; }

 private:
  std::deque<CollectiveRecord> records_;
};

// Whose record it is, and where that rank is.
struct FlightOwner {
  int rank = 0;
  int ranks = 1;
  int64_t step = 0;
  std::string phase = {};
  // Whether collectives are done when the call that begins them returns.
  bool knows_ends = true;
};
// The text of a JSON object: the owner, and the collectives with their times in seconds since 1970, null where there is
// none or it is not known.
std::string flight_text(const FlightRecord& record, const FlightOwner& owner);

}  // namespace causeway::communicator
