#include "causeway/train/trainer.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/communicator/control_plane.h"
#include "causeway/communicator/launch_link.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/mpi_launch.h"
#include "causeway/program/context.h"
#include "causeway/train/after_step.h"
#include "causeway/train/checkpoint/run_saver.h"
#include "causeway/train/log/announcement.h"
#include "causeway/train/log/run_log.h"
#include "causeway/train/model_review.h"
#include "causeway/train/observation/flight_file.h"
#include "causeway/train/observation/replica_check.h"
#include "causeway/train/observation/run_observer.h"
#include "causeway/train/run_context.h"
#include "causeway/train/signals.h"
#include "causeway/train/step/flops_utilization.h"
#include "causeway/train/steps_in_flight.h"
#include "causeway/train/training_run.h"

namespace causeway::train {
namespace {

std::string join_sentences(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + " " + second;
}

// One rank's run, from the first batch to the last checkpoint: the loop over its steps, and what is saved where an
// error ends it.
class Trainer {
 public:
  // `start`: what has been done before. `signals`: null where nobody watches for them.
  Trainer(const Recipe& recipe, const TrainOptions& options, StartTimes start, SignalWatch* signals)
      : signals_(signals),
        quiet_(options.quiet),
        start_(std::move(start)),
        run_(recipe, options, start_),
        saver_(run_.parts(), run_.lock(), run_.first_position().step) {}

  TrainResult run() {
    if (is_stopped_before_a_step()) return result();
    run_.compile();
    saver_.choose_method();
    start_.end_of("compile");
    make_attendants();
    try {
      train_steps();
    } catch (const CollectiveError&) {  // nothing can be agreed on any more
      finish_progress();
      throw;
    } catch (const ReplicasDiffer&) {  // what would be saved is not to be trusted
      finish_progress();
      throw;
    } catch (const Error& error) {
      finish_progress();
      if (error.kind() == ErrorKind::kResource) release_working_memory();
      const bool on_all_ranks = ranks().count() == 1 || dynamic_cast<const ErrorOfAllRanks*>(&error) != nullptr;
      const Error whole(error.kind(), error.message(), error.where(),
                        join_sentences(error.hint(), save_before_ending(on_all_ranks)));
      if (on_all_ranks && ranks().count() > 1) throw ErrorOfAllRanks(whole);
      throw Error(whole);
    } catch (const std::bad_alloc&) {
      finish_progress();
      release_working_memory();
      throw Error(ErrorKind::kResource,
                  fmt::format("memory ran out after step {} of {}", steps_->position().step, run_.recipe().train.steps),
                  run_.recipe().name,
                  join_sentences(save_before_ending(ranks().count() == 1),
                                 "Give the process more memory, or lower train.micro_batch_size and resume."));
    } catch (...) {
      finish_progress();
      if (ranks().count() == 1) notice("{}\n", save_before_ending(true));
      throw;
    }
    finish_progress();
    return result();
  }

 private:
  const Ranks& ranks() const { return run_.ranks(); }
  RunPosition position() const { return steps_ ? steps_->position() : run_.first_position(); }

  const TrainResult& result() {
    const RunPosition reached = position();
    result_.rank = ranks().rank();
    result_.step = reached.step;
    result_.skipped_steps = reached.skipped_steps;
    result_.total_steps = run_.recipe().train.steps;
    return result_;
  }

  // Whether a signal to any rank asks for it; what there is to save is the checkpoint that the run goes on from.
  bool is_stopped_before_a_step() {
    const bool goes_on = signals_ == nullptr || signals_->stop_signal() == 0;
    if (run_.first_position().step >= run_.recipe().train.steps || ranks().all_of(goes_on)) return false;
    result_.interrupted = true;
    if (run_.resumed()) result_.checkpoint = run_.resumed()->checkpoint;
    return true;
  }

  // What watches, logs and looks at the run while it goes, once its step is compiled.
  void make_attendants() {
    const RunPosition first = run_.first_position();
    TrainingStep& step = run_.step();
    utilization_.emplace(make_flops_utilization(step));
    observer_.emplace(ranks(), run_.recipe(), run_.model(), step, first.step, quiet_);
    if (run_.speaks()) announce_run(run_, *utilization_, saver_, *observer_);
    if (ranks().is_first()) {
      const Device& device = step.context().device();
      log_.emplace(run_.recipe(), run_.recipe().run_directory, device.name(), *utilization_, first.step, quiet_);
      log_->basis(first.step, parameter_counts(run_.recipe().model), step.cost(), start_, device.target().text());
    }
    const std::optional<TokenDataset>& validation = run_.data().validation;
    review_.emplace(run_.parts(), validation ? &*validation : nullptr, log(), ranks().is_first(), quiet_);
    steps_.emplace(run_, *observer_);
    after_.emplace(run_, steps_->position(), saver_, *observer_, log(), *review_, result_);
  }

  RunLog* log() { return log_ ? &*log_ : nullptr; }

  void finish_progress() {
    if (log_) log_->finish_progress();
  }

  void train_steps() {
    steps_->open_data();
    if (run_.first_position().step >= run_.recipe().train.steps) return;
    if (signals_ != nullptr) signals_->begin_steps();
    if (is_stopped_before_a_step()) return;
    while (true) {
      if (steps_->empty()) steps_->begin();
      agree(steps_->front());
      // What the next step's data are lacking comes after what is to be done of this one.
      std::exception_ptr failure;
      try {
        if (after_->lets_next_begin(steps_->front())) steps_->begin();
      } catch (const CollectiveError&) {
        throw;
      } catch (const Error&) {
        failure = std::current_exception();
      }
      StepOutcome step = steps_->finish();
      after_->act(step);
      if (failure) std::rethrow_exception(failure);
      if (!step.goes_on()) return;
    }
  }

  // A signal reaches ranks at different steps, or one of them alone: the strongest request of any is that of all.
  void agree(StepOutcome& step) {
    const SignalRequest here = signals_ != nullptr ? signals_->poll() : SignalRequest::kNone;
    for (const std::string& request : ranks().gather(std::string(1, static_cast<char>(here))))
      step.request = std::max(step.request, static_cast<SignalRequest>(request.at(0)));
    step.save_is_due = step.goes_on() && (step.request == SignalRequest::kSave || saver_.is_due(step.report.step));
  }

  std::string save_before_ending(bool on_all_ranks) noexcept {
    steps_->settle();
    // Where one rank alone fails, the others are elsewhere and cannot save with it.
    if (!on_all_ranks) return "Nothing was saved since the last checkpoint.";
    return saver_.save_what_can_be_saved(steps_->position(), run_.step().state_is_whole());
  }

  void release_working_memory() noexcept {
    try {
      review_->release();
      run_.step().context().release_memory();
    } catch (const std::exception&) {
      // What is still held is then held while saving.
    }
  }

  SignalWatch* const signals_;
  const bool quiet_;
  StartTimes start_;
  TrainingRun run_;
  RunSaver saver_;
  std::optional<FlopsUtilization> utilization_;
  std::optional<RunLog> log_;  // of the first rank
  std::optional<RunObserver> observer_;
  std::optional<ModelReview> review_;
  std::optional<StepsInFlight> steps_;
  std::optional<AfterStep> after_;
  TrainResult result_;
};

// The first of several processes speaks.
std::unique_ptr<SignalWatch> watch_signals(const TrainOptions& options) {
  if (!options.watch_signals) return nullptr;
  const std::optional<MpiLaunch> launch = find_mpi_launch();
  return std::make_unique<SignalWatch>(!launch || launch->rank == 0);
}

}  // namespace

TrainResult train(const Recipe& recipe, const TrainOptions& options) {
  if (recipe.data.sources().empty())
    throw Error(ErrorKind::kInvalidArgument, "names no data to train on", "data.path",
                "Make a dataset with \"causeway data prepare TEXT --output DIRECTORY\", and set data.path=DIRECTORY.");
  StartTimes start;
  // Before anything that takes its time.
  const std::unique_ptr<SignalWatch> signals = watch_signals(options);
  const std::unique_ptr<LaunchLink> link = signals != nullptr ? open_launch_link() : nullptr;
  const ContextScope context(open_run_context(recipe, start));
  if (signals != nullptr) signals->take_hold();
  const std::shared_ptr<MeshCommunicators> communicators = Context::current()->communicators();
  if (communicators == nullptr) return Trainer(recipe, options, std::move(start), signals.get()).run();
  ControlPlaneOptions watching;
  watching.advice = "What was committed is intact: go on with --resume auto.";
  watching.record = [&communicators, &recipe, device = Context::current()->shared_device()] {
    return write_flight_file(recipe.run_directory, *communicators, *device);
  };
  ControlPlane control(communicators->world(), communicators->progress(), watching);
  // Is still there when its failure is told: what it destroys may wait for ever for other ranks.
  std::optional<Trainer> trainer;
  try {
    trainer.emplace(recipe, options, std::move(start), signals.get());
    return trainer->run();
  } catch (const ErrorOfAllRanks& error) {
    if (communicators->rank() != 0) throw SaidElsewhere();
    throw;
  } catch (const CollectiveError& error) {
    control.fail(error.what(), true);
    throw;
  } catch (const std::exception& error) {
    control.fail(error.what(), false);
    throw;
  }
}

TrainResult train_in_context(const Recipe& recipe, const TrainOptions& options) {
  CAUSEWAY_CHECK(Context::current()->mesh() == make_mesh(recipe.mesh));
  const std::unique_ptr<SignalWatch> signals = watch_signals(options);
  return Trainer(recipe, options, {}, signals.get()).run();
}

}  // namespace causeway::train
