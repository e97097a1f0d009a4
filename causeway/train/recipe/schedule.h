// Learning-rate schedules: pure functions from the step to a factor of the peak learning rate.
//
// Steps count from 0: factor(s) is for the update that makes step s + 1 complete. Warm-up is linear and its first step
// is not zero: (s + 1) / warmup_steps. What follows it ends at `final_factor` at s = total_steps and stays there.
//   constant: 1 throughout (total_steps and final_factor are not used)
//   linear:   straight from 1 to final_factor
//   cosine:   half a cosine from 1 to final_factor (Loshchilov and Hutter, arXiv 1608.03983, without restarts)
//   wsd:      1, then straight to final_factor over the last decay_steps (warm-up, stable, decay: arXiv 2404.06395)
#pragma once

#include <cstdint>

#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"

namespace causeway::train {

enum class ScheduleKind { kConstant, kLinear, kCosine, kWsd };
constexpr auto named_values(ScheduleKind) {
  return std::to_array<NamedValue<ScheduleKind>>({{ScheduleKind::kConstant, "constant"},
                                                  {ScheduleKind::kLinear, "linear"},
                                                  {ScheduleKind::kCosine, "cosine"},
                                                  {ScheduleKind::kWsd, "wsd"}});
}

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kCosine;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  int64_t decay_steps = 0;  // wsd only
  double final_factor = 0;
};

class Schedule {
 public:
  // Throws Error(kInvalidArgument) naming the field ("schedule.warmup_steps") and what it must be.
  explicit Schedule(const ScheduleConfig& config);

  const ScheduleConfig& config() const { return config_; }
  double factor(int64_t step) const;

 private:
  ScheduleConfig config_;
};

}  // namespace causeway::train
