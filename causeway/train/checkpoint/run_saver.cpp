#include "causeway/train/checkpoint/run_saver.h"

#include <limits>

#include "causeway/base/log.h"
#include "causeway/train/ranks.h"

namespace causeway::train {
namespace {

constexpr std::chrono::seconds kRetryAfter{60};
constexpr uint64_t kSmallChunkBytes = uint64_t{1} << 20;

}  // namespace

RunSaver::RunSaver(const RunParts& run, RunLock* lock, int64_t saved_step, Clock::time_point now)
    : run_(run), lock_(lock), saved_step_(saved_step), saved_time_(now) {}

std::string RunSaver::describe_schedule() const {
  const Recipe::Checkpoint& schedule = run_.recipe.checkpoint;
  std::string when;
  if (schedule.interval > 0) when = fmt::format("every {} steps", schedule.interval);
  if (schedule.interval_minutes > 0)
    when += fmt::format("{}every {} minutes", when.empty() ? "" : " and ", schedule.interval_minutes);
  if (when.empty()) when = "only at the end and on a signal";
  return fmt::format("{}; the last {} kept", when, schedule.keep);
}

bool RunSaver::is_due(int64_t step, Clock::time_point now) const {
  return Ranks(run_.step.context()).of_first(is_due_here(step, now) ? "due" : "") == "due";
}

void RunSaver::renew_lock() {
  Ranks(run_.step.context()).on_first([&] { lock_->renew(); });
}

bool RunSaver::is_due_here(int64_t step, Clock::time_point now) const {
  if (step == saved_step_) return false;
  if (failed_time_) return now - *failed_time_ >= kRetryAfter;
  const Recipe::Checkpoint& schedule = run_.recipe.checkpoint;
  if (schedule.interval > 0 && step % schedule.interval == 0) return true;
  return schedule.interval_minutes > 0 &&
         std::chrono::duration<double, std::ratio<60>>(now - saved_time_).count() >= schedule.interval_minutes;
}

std::filesystem::path RunSaver::save_or_throw(const RunPosition& position, Clock::time_point now) {
  try {
    renew_lock();
    saved_ = save_run(run_, position, {.keep_last = run_.recipe.checkpoint.keep, .previous_step = saved_step_});
  } catch (const Error&) {
    unwritable_step_ = position.step;
    throw;
  }
  saved_step_ = position.step;
  saved_time_ = now;
  failed_time_.reset();
  return saved_;
}

std::optional<std::filesystem::path> RunSaver::save(const RunPosition& position, Clock::time_point now) {
  try {
    return save_or_throw(position, now);
  } catch (const std::exception& error) {
    failed_time_ = now;
    if (Ranks(run_.step.context()).is_first())
      log_error("{}\n  Training goes on, and the save is tried again in {} seconds.", error.what(),
                kRetryAfter.count());
    return std::nullopt;
  }
}

std::string RunSaver::save_what_can_be_saved(const RunPosition& position, bool state_is_whole) noexcept {
  try {
    const std::string newest = saved_step_ == 0 ? std::string("no checkpoint was saved before")
                                                : fmt::format("the newest checkpoint is of step {}", saved_step_);
    if (position.step == saved_step_)
      return position.step == 0
                 ? "No step was completed, so there is nothing to save."
                 : fmt::format("Nothing is lost: the checkpoint of step {} is of this state.", saved_step_);
    if (position.step == unwritable_step_) return fmt::format("The steps since are lost; {}.", newest);
    if (!state_is_whole)
      return fmt::format("A step was being applied, so the weights may be of two steps and were not saved; {}.",
                         newest);
    if (!run_state_is_finite(run_))
      return fmt::format("The weights or moments after step {} are not finite themselves and were not saved; {}.",
                         position.step, newest);
    renew_lock();
    saved_ = save_run(run_, position,
                      {.keep_last = std::numeric_limits<int64_t>::max(),
                       .chunk_bytes = kSmallChunkBytes,
                       .previous_step = saved_step_});
    saved_step_ = position.step;
    return fmt::format("The state after step {} was saved to {}.", position.step, saved_.string());
  } catch (const std::exception& error) {
    try {
      return fmt::format("The state after step {} could not be saved: {}", position.step, error.what());
    } catch (const std::exception&) {
      return {};
    }
  }
}

}  // namespace causeway::train
