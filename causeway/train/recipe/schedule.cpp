#include "causeway/train/recipe/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

[[noreturn]] void refuse_schedule(const char* field, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kInvalidArgument, what, std::string("schedule.") + field, hint);
}

// What suits a run and fits into it: a tenth.
int64_t fitting_warmup(int64_t total_steps) { return total_steps / 10; }
int64_t fitting_decay(int64_t total_steps) { return std::max<int64_t>(2, total_steps / 10); }

std::string longer_or_shorter(int64_t total_steps) {
  if (total_steps < fitting_decay(total_steps)) return "Train longer.";
  return fmt::format("Train longer, or set schedule.warmup_steps={} and schedule.decay_steps={} as well.",
                     fitting_warmup(total_steps), fitting_decay(total_steps));
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config) : config_(config) {
  if (config.warmup_steps < 0) {
    refuse_schedule("warmup_steps", fmt::format("{} steps of warm-up cannot be taken", config.warmup_steps),
                    "Give 0 or more steps.");
  }
  if (config.kind != ScheduleKind::kWsd && config.decay_steps != 0) {
    refuse_schedule("decay_steps", fmt::format("the {} schedule has no decay_steps", config.kind),
                    "Remove the field, or choose the schedule 'wsd'.");
  }
  if (config.kind == ScheduleKind::kConstant) return;
  if (config.total_steps < 1) {
    refuse_schedule("total_steps", fmt::format("{} steps are too few to schedule", config.total_steps),
                    "Give 1 or more steps.");
  }
  if (config.warmup_steps > config.total_steps) {
    refuse_schedule(
        "warmup_steps",
        fmt::format("a warm-up of {} steps does not fit the run's {}", config.warmup_steps, config.total_steps),
        config.kind == ScheduleKind::kWsd ? longer_or_shorter(config.total_steps)
                                          : fmt::format("Train longer, or set schedule.warmup_steps={} as well.",
                                                        fitting_warmup(config.total_steps)));
  }
  if (!(config.final_factor >= 0 && config.final_factor <= 1)) {
    refuse_schedule("final_factor", fmt::format("{} is not a fraction of the peak learning rate", config.final_factor),
                    "Give a number from 0 to 1.");
  }
  if (config.kind != ScheduleKind::kWsd) return;
  if (config.decay_steps < 1) {
    refuse_schedule("decay_steps", fmt::format("{} steps of decay are too few", config.decay_steps),
                    "Give 2 or more; a tenth of the run is usual.");
  }
  if (config.decay_steps > config.total_steps - config.warmup_steps) {
    refuse_schedule("decay_steps",
                    fmt::format("a warm-up of {} and a decay of {} steps do not fit the run's {}", config.warmup_steps,
                                config.decay_steps, config.total_steps),
                    longer_or_shorter(config.total_steps));
  }
}

double Schedule::factor(int64_t step) const {
  CAUSEWAY_CHECK(step >= 0, "step {}", step);
  if (step < config_.warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(config_.warmup_steps);
  if (config_.kind == ScheduleKind::kConstant) return 1;
  if (step >= config_.total_steps) return config_.final_factor;
  const int64_t decay_begin =
      config_.kind == ScheduleKind::kWsd ? config_.total_steps - config_.decay_steps : config_.warmup_steps;
  if (step <= decay_begin) return 1;
  const double remaining =
      static_cast<double>(config_.total_steps - step) / static_cast<double>(config_.total_steps - decay_begin);
  const double height =
      config_.kind == ScheduleKind::kCosine ? 0.5 * (1 - std::cos(std::numbers::pi * remaining)) : remaining;
  return config_.final_factor + (1 - config_.final_factor) * height;
}

}  // namespace causeway::train
