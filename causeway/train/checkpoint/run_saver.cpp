#include "causeway/train/checkpoint/run_saver.h"

#include <algorithm>
#include <limits>

#include "causeway/base/byte_size.h"
#include "causeway/base/host_name.h"
#include "causeway/base/log.h"
#include "causeway/communicator/communicator.h"
#include "causeway/device/cpu/host_memory.h"

namespace causeway::train {
namespace {

constexpr std::chrono::seconds kRetryAfter{60};
constexpr uint64_t kSmallChunkBytes = uint64_t{1} << 20;

double seconds_since(RunSaver::Clock::time_point start) {
  return std::chrono::duration<double>(RunSaver::Clock::now() - start).count();
}

double minutes_between(RunSaver::Clock::time_point from, RunSaver::Clock::time_point to) {
  return std::chrono::duration<double, std::ratio<60>>(to - from).count();
}

std::string bytes_text(int64_t bytes) { return format_bytes(std::max<int64_t>(0, bytes)); }

// Why the ranks of this machine cannot have `copy_bytes` each of host memory beside their steps; empty where they can.
// Every rank gives what it needs, and hears what the others of its machine need.
std::string lack_of_memory(const Ranks& ranks, const RunParts& run, int64_t copy_bytes) {
  const Device& device = run.step.context().device();
  const bool shared = !device.target().has_own_memory();
  const int64_t step_bytes = shared ? run.step.cost().total_bytes() : 0;
  int64_t needed = 0;
  const std::string host = host_name();
  for (const std::string& rank : ranks.gather(fmt::format("{} {}", copy_bytes + step_bytes, host))) {
    const size_t space = rank.find(' ');
    if (rank.substr(space + 1) == host) needed += std::stoll(rank.substr(0, space));
  }
  const HostMemory memory = host_memory();
  const int64_t available = shared ? device.memory_limit() : memory.available_bytes;
  if (memory.total_bytes == 0 || needed <= available) return "";
  return fmt::format("a copy of the state would take {}{}, and {} has {}", bytes_text(copy_bytes),
                     shared ? fmt::format(" beside {} for the step", bytes_text(step_bytes)) : "",
                     ranks.count() == 1 ? "the machine" : host, bytes_text(available));
}

// Of a device's own memory what a copy may pass through: all that is free but for a twentieth, which libraries may
// want.
int64_t spare_bytes(const Device& device) {
  if (!device.target().has_own_memory()) return 0;
  const int64_t limit = device.memory_limit();
  return limit - device.bytes_in_use() - limit / 20;
}

}  // namespace

RunSaver::RunSaver(const RunParts& run, RunLock* lock, int64_t saved_step, Clock::time_point now)
    : run_(run), ranks_(run.step.context()), lock_(lock), saved_step_(saved_step), saved_time_(now) {}

void RunSaver::choose_method() {
  const Recipe::Checkpoint& schedule = run_.recipe.checkpoint;
  if (!schedule.asynchronous || (schedule.interval == 0 && schedule.interval_minutes == 0)) return;
  auto snapshot =
      std::make_unique<StateSnapshot>(run_.model.parameters().front().tensor.context(), tensors_to_write(run_));
  std::string lack;
  for (const std::string& rank : ranks_.gather(lack_of_memory(ranks_, run_, snapshot->bytes())))
    if (lack.empty()) lack = rank;
  if (lack.empty()) {
    snapshot_ = std::move(snapshot);
  } else if (ranks_.is_first()) {
    log_warning("checkpoints are written while training waits: {}", lack);
  }
}

std::string RunSaver::describe_schedule() const {
  const Recipe::Checkpoint& schedule = run_.recipe.checkpoint;
  std::string when;
  if (schedule.interval > 0) when = fmt::format("every {} steps", schedule.interval);
  if (schedule.interval_minutes > 0)
    when += fmt::format("{}every {} minutes", when.empty() ? "" : " and ", schedule.interval_minutes);
  if (when.empty()) when = "only at the end and on a signal";
  when += fmt::format("; the last {} kept", schedule.keep);
  if (snapshot_ != nullptr)
    when += fmt::format("; written while training goes on, from a copy of {} in the host's memory",
                        bytes_text(snapshot_->bytes()));
  return when;
}

bool RunSaver::is_due(int64_t step, Clock::time_point now) const {
  return ranks_.of_first(is_due_here(step, now) ? "due" : "") == "due";
}

void RunSaver::renew_lock() {
  ranks_.on_first([&] { lock_->renew(); });
}

bool RunSaver::is_due_here(int64_t step, Clock::time_point now) const {
  if (step == saved_step_ || (pending_ && step == pending_->position.step)) return false;
  if (failed_time_ && !pending_) return now - *failed_time_ >= kRetryAfter;
  const Recipe::Checkpoint& schedule = run_.recipe.checkpoint;
  if (schedule.interval > 0 && step % schedule.interval == 0) return true;
  return schedule.interval_minutes > 0 &&
         minutes_between(pending_ ? pending_->due : saved_time_, now) >= schedule.interval_minutes;
}

// A quarter of the way.
bool RunSaver::is_due_soon(int64_t step, Clock::time_point now) const {
  const Recipe::Checkpoint& schedule = run_.recipe.checkpoint;
  if (schedule.interval > 0 && step % schedule.interval >= schedule.interval / 4) return true;
  return schedule.interval_minutes > 0 && 4 * minutes_between(saved_time_, now) >= schedule.interval_minutes;
}

CheckpointOptions RunSaver::options() const {
  return {.keep_last = run_.recipe.checkpoint.keep, .previous_step = saved_step_};
}

bool RunSaver::begin_copy(const RunPosition& position, Clock::time_point now) {
  const Clock::time_point started = Clock::now();
  renew_lock();
  try {
    ranks_.together([&] {
      snapshot_->allocate();
      snapshot_->begin(spare_bytes(run_.step.context().device()));
    });
  } catch (const CollectiveError&) {
    throw;
  } catch (const Error& error) {
    snapshot_->finish();
    if (error.kind() != ErrorKind::kResource) throw;
    snapshot_.reset();
    if (ranks_.is_first())
      log_warning("{}: {}\n  Checkpoints are written while training waits from now on.", error.where(),
                  error.message());
    return false;
  }
  pending_.emplace(Pending{position, now, started, seconds_since(started), nullptr});
  // What does not run asynchronously has copied by now.
  if (!run_.step.context().device().target().runs_asynchronously()) begin_writing();
  return true;
}

void RunSaver::finish_copy() {
  if (!is_copying()) return;
  const Clock::time_point start = Clock::now();
  pending_->pause_seconds += snapshot_->finish();
  pending_->pause_seconds += seconds_since(start);
}

bool RunSaver::is_copied_everywhere() const {
  const std::vector<std::string> copied = ranks_.gather(snapshot_->is_copied() ? "1" : "0");
  return std::ranges::count(copied, "1") == std::ssize(copied);
}

void RunSaver::begin_writing() {
  const Clock::time_point start = Clock::now();
  Pending& pending = *pending_;
  pending.pause_seconds += snapshot_->finish();
  pending.save = std::make_unique<BackgroundSave>(
      ranks_, checkpoint_of_run(run_, pending.position, options(), ranks_, snapshot_.get()));
  pending.save->start();
  pending.pause_seconds += seconds_since(start);
}

void RunSaver::settle(BackgroundSave::State state, Clock::time_point now, bool at_the_end) {
  if (state == BackgroundSave::State::kUnderWay) return;
  const Pending& pending = *pending_;
  if (state == BackgroundSave::State::kCommitted) {
    saved_ = pending.save->writer().directory();
    saved_step_ = pending.position.step;
    saved_time_ = pending.due;
    failed_time_.reset();
    committed_.push_back({saved_step_, saved_, pending.pause_seconds, seconds_since(pending.started)});
  } else {
    unwritable_step_ = pending.position.step;
    say_failed(pending.save->failure()->what(), now, at_the_end);
  }
  pending_.reset();
}

void RunSaver::say_failed(const std::string& what, Clock::time_point now, bool at_the_end) {
  failed_time_ = now;
  if (!ranks_.is_first()) return;
  if (at_the_end) return log_error("{}", what);
  log_error("{}\n  Training goes on, and the save is tried again in {} seconds.", what, kRetryAfter.count());
}

void RunSaver::attend(int64_t step, Clock::time_point now) {
  // A run that ends long before it saves needs no pinned memory.
  if (snapshot_ != nullptr && run_.step.context().device().target().copies_to_pinned_memory() && is_due_soon(step, now))
    snapshot_->prepare();
  if (!pending_) return;
  if (!pending_->save) {
    if (is_copied_everywhere()) begin_writing();
    return;
  }
  const Clock::time_point start = Clock::now();
  const BackgroundSave::State state = pending_->save->poll();
  pending_->pause_seconds += seconds_since(start);
  settle(state, now, false);
}

void RunSaver::finish_pending(Clock::time_point now, bool at_the_end) {
  if (!pending_) return;
  if (!pending_->save) begin_writing();
  const Clock::time_point start = Clock::now();
  const BackgroundSave::State state = pending_->save->wait();
  pending_->pause_seconds += seconds_since(start);
  settle(state, now, at_the_end);
}

void RunSaver::commit_now(const RunPosition& position, const CheckpointOptions& options, Clock::time_point now) {
  const Clock::time_point start = Clock::now();
  renew_lock();
  saved_ = checkpoint_of_run(run_, position, options, ranks_).commit();
  saved_step_ = position.step;
  saved_time_ = now;
  failed_time_.reset();
  const double seconds = seconds_since(start);
  committed_.push_back({saved_step_, saved_, seconds, seconds});
}

std::optional<SavedCheckpoint> RunSaver::take_committed() {
  if (committed_.empty()) return std::nullopt;
  const SavedCheckpoint first = committed_.front();
  committed_.pop_front();
  return first;
}

std::filesystem::path RunSaver::save_or_throw(const RunPosition& position, Clock::time_point now) {
  finish_pending(now, true);
  try {
    commit_now(position, options(), now);
  } catch (const Error&) {
    unwritable_step_ = position.step;
    throw;
  }
  return saved_;
}

bool RunSaver::save(const RunPosition& position, Clock::time_point now) {
  try {
    finish_pending(now, false);
    if (snapshot_ == nullptr || !begin_copy(position, now)) save_or_throw(position, now);
    return true;
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::exception& error) {
    say_failed(error.what(), now, false);
    return false;
  }
}

std::string RunSaver::save_what_can_be_saved(const RunPosition& position, bool state_is_whole) noexcept {
  try {
    // A step that failed halfway may have failed with the copy.
    if (pending_ && !pending_->save && !state_is_whole) pending_.reset();
    finish_pending(Clock::now(), true);
    snapshot_.reset();
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
      return fmt::format(
          "The weights or the optimizer's state after step {} are not finite themselves and were not saved; {}.",
          position.step, newest);
    commit_now(position,
               {.keep_last = std::numeric_limits<int64_t>::max(),
                .chunk_bytes = kSmallChunkBytes,
                .previous_step = saved_step_},
               Clock::now());
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
