// When a rank is said to be slow.
//
// Ranks wait for each other in every step, so all steps take what the slowest rank's take. What tells it from the
// others is its own work: waiting for data, and kernels. A rank is slow when in each record of a row its own work took
// more than 1.25 times the median of the other ranks' own work, the row has at least three records, and these span at
// least 30 seconds: shorter ones come and go on every machine. It is said once for each such row. Records without a
// measured step are passed over.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "causeway/train/observation/rank_times.h"

namespace causeway::train {

struct SlowRank {
  int rank = 0;
  double seconds = 0;          // how long it has been so
  double own_work = 0;         // seconds a step, in the last record
  double others_own_work = 0;  // the median of the others
  RankTimes times;             // its own, in the last record

  // "rank 3 has been slower than the others for 42 seconds: ...".
  std::string text() const;
};

class SlowRankRule {
 public:
  static constexpr double kFactor = 1.25, kSeconds = 30;
  static constexpr int kRecords = 3;

  // A record, by rank, that was made at `now` (seconds of any clock). Of several slow ranks the slowest.
  std::optional<SlowRank> heed(std::span<const RankTimes> times, double now);

 private:
  struct Row {
    int rank = -1;
    int records = 0;
    double begin = 0;
    bool is_said = false;
  } row_;
};

}  // namespace causeway::train
