#include "causeway/train/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <new>
#include <utility>

#include "causeway/base/console.h"
#include "causeway/base/enclosed_path.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/log.h"
#include "causeway/communicator/control_plane.h"
#include "causeway/communicator/launch_link.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/communicator/mpi_launch.h"
#include "causeway/data/batch_loader.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/resume.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/checkpoint/run_lock.h"
#include "causeway/train/checkpoint/run_saver.h"
#include "causeway/train/checkpoint/shared_run_directory.h"
#include "causeway/train/initial_weights.h"
#include "causeway/train/log/announcement.h"
#include "causeway/train/log/run_log.h"
#include "causeway/train/model_review.h"
#include "causeway/train/model_tokenizer.h"
#include "causeway/train/observation/flight_file.h"
#include "causeway/train/observation/replica_check.h"
#include "causeway/train/observation/run_observer.h"
#include "causeway/train/ranks.h"
#include "causeway/train/run_context.h"
#include "causeway/train/signals.h"
#include "causeway/train/step/flops_utilization.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/step/uncut_weights.h"
#include "causeway/train/training_data.h"

namespace causeway::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kStepsBetweenAsking = 100;

// Adapters of random weights would be of no use without them.
void require_base(const Recipe& recipe) {
  if (recipe.adapter.is_used() && recipe.model_from.empty())
    throw Error(ErrorKind::kInvalidArgument, "trains adapters of a model, and no model is named", "lora.rank",
                "Name its directory with model.from.");
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Memory in use at most: the device's own, or the process's.
uint64_t peak_bytes(const Device& device) {
  return device.target().has_own_memory() ? static_cast<uint64_t>(device.peak_bytes()) : peak_resident_bytes();
}

// A step that was begun, and when it is finished, as what happens after it sees it.
struct StepOutcome {
  StepReport report;
  Clock::time_point start;
  // Its batch is the loader's, or where the loader has gone on a copy.
  const Batch* loaded = nullptr;
  Batch copy;
  uint64_t data_cursor = 0;  // behind it
  double seconds_after_last = 0;
  // What is agreed on while it runs.
  SignalRequest request = SignalRequest::kNone;
  bool last = false;  // of the recipe's steps
  bool save_is_due = false;

  bool goes_on() const { return !last && request != SignalRequest::kStop; }
  TrainingBatch host_batch() const {
    const Batch& batch = loaded != nullptr ? *loaded : copy;
    return {batch.inputs, batch.targets, batch.documents, batch.global_valid_targets};
  }
  // Whether something that happens every `interval` steps (0: never) happens now, in a run that goes on.
  bool is_due(int64_t interval) const { return goes_on() && interval > 0 && report.step % interval == 0; }
};

class Trainer {
 public:
  // `start`: what has been done before. `signals`: null where nobody watches for them.
  Trainer(const Recipe& recipe, const TrainOptions& options, StartTimes start, SignalWatch* signals)
      : signals_(signals),
        start_(std::move(start)),
        ranks_(*Context::current()),
        recipe_(recipe),
        options_(options),
        speaks_(ranks_.is_first() && !options.quiet),
        directory_(recipe.run_directory) {
    require_same_run();
    ranks_.together([&] {
      require_base(recipe_);
      data_.emplace(open_training_data(recipe_));
      resolve_steps(recipe_, *data_);
    });
    schedule_.emplace(recipe_.schedule);
    ranks_.require_equal(data_->dataset.fingerprint(), "other data",
                         "Give every machine the same files; see whether each one can read all of them.");
    load_tokenizer();
    ranks_.on_first([&] { own_run_directory(); });
    require_shared_run_directory(ranks_, directory_);
    const std::vector<CheckpointEntry> candidates = resume_candidates_of_first(ranks_, directory_, options.resume);
    start_.end_of("data");
    ranks_.together([&] {
      require_memory_for_weights(Context::current()->device(), recipe);
      // A run that goes on has the weights of its checkpoint.
      std::optional<uint64_t> seed;
      if (recipe.model_from.empty() && candidates.empty()) seed = static_cast<uint64_t>(recipe.train.seed);
      model_ = LanguageModel::create(recipe.model, own_part(recipe), new_weights(recipe, seed));
      model_->require_targets();
    });
    std::string base;
    if (!recipe.model_from.empty() && candidates.empty())
      ranks_.together([&] { tokenizer_note_ = compare_with_tokenizer_of_model(recipe_, data_->dataset); });
    if (!recipe.model_from.empty() && (candidates.empty() || recipe.adapter.is_used()))
      base = load_initial_weights(ranks_, recipe, *model_);
    if (recipe.adapter.is_used() && candidates.empty()) load_initial_adapters(ranks_, recipe, base, *model_);
    ranks_.together([&] { step_ = std::make_unique<TrainingStep>(*model_, recipe_); });
    start_.end_of("weights");
    parts_.emplace(RunParts{recipe_, data_->dataset, tokenizer_.get(), *model_, *step_, base});
    ranks_.enter(0, "resume");
    resumed_ = resume_run(candidates, *parts_);
    start_.end_of("resume");
    if (resumed_) {
      ranks_.together([&] { require_batches_of_epochs(); });
      position_ = resumed_->position;
    }
    saver_.emplace(*parts_, lock_ ? &*lock_ : nullptr, position_.step);
    // Not earlier: a recipe that the run's checkpoint refuses must not replace the run's own.
    ranks_.on_first([&] {
      write_file_atomically(directory_ / "recipe.yaml",
                            device_comment(recipe_, step_->context().device()) + recipe_text(recipe_));
    });
  }

  TrainResult run() {
    if (is_stopped_before_a_step()) return result();
    ranks_.enter(0, "compile");
    std::string program;
    step_->fit_memory(ranks_);
    ranks_.together([&] {
      require_memory_for_step(*parts_);
      if (ranks_.count() > 1) program = step_->program_hash();
    });
    step_->meet_other_stages(ranks_);
    ranks_.require_equal_in_stage(
        program, "another program or other collectives",
        "Kernels are made for the processor or GPU at hand: give a run machines of one kind.");
    saver_->choose_method();
    start_.end_of("compile");
    utilization_.emplace(make_flops_utilization(*step_));
    observer_.emplace(ranks_, recipe_, *model_, *step_, position_.step, options_.quiet);
    if (speaks_) {
      announce_run(*parts_, *utilization_, resumed_, *saver_);
      if (!tokenizer_note_.empty()) notice("{}\n", tokenizer_note_);
      for (const UncutWeights& uncut : uncut_weights(model_->parameters(), step_->context().mesh(), recipe_))
        notice("memory: {}\n", uncut_weights_text(uncut));
      for (const std::string& line : describe_sources(*data_, recipe_)) notice("{}\n", line);
      if (const std::optional<std::string> warning = warning_of_documents(*data_)) log_warning("{}", *warning);
      for (const std::string& shard : data_->dataset.left_out()) notice("data: left out {}\n", shard);
      for (const std::string& line : describe_packing(*data_, recipe_)) notice("{}\n", line);
      for (const std::string& line : observer_->describe()) notice("{}\n", line);
    }
    if (ranks_.is_first()) {
      log_.emplace(recipe_, directory_, step_->context().device().name(), *utilization_, position_.step,
                   options_.quiet);
      log_->basis(position_.step, parameter_count(recipe_.model), step_->cost(), start_,
                  step_->context().device().target().text());
    }
    review_.emplace(*parts_, data_->validation ? &*data_->validation : nullptr, log_ ? &*log_ : nullptr,
                    ranks_.is_first(), options_.quiet);
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
      const bool on_all_ranks = ranks_.count() == 1 || dynamic_cast<const ErrorOfAllRanks*>(&error) != nullptr;
      const Error whole(error.kind(), error.message(), error.where(),
                        join_sentences(error.hint(), save_before_ending(on_all_ranks)));
      if (on_all_ranks && ranks_.count() > 1) throw ErrorOfAllRanks(whole);
      throw Error(whole);
    } catch (const std::bad_alloc&) {
      finish_progress();
      release_working_memory();
      throw Error(ErrorKind::kResource,
                  fmt::format("memory ran out after step {} of {}", position_.step, recipe_.train.steps), recipe_.name,
                  join_sentences(save_before_ending(ranks_.count() == 1),
                                 "Give the process more memory, or lower train.micro_batch_size and resume."));
    } catch (...) {
      finish_progress();
      if (ranks_.count() == 1) notice("{}\n", save_before_ending(true));
      throw;
    }
    finish_progress();
    return result();
  }

 private:
  const TrainResult& result() {
    result_.rank = ranks_.rank();
    result_.step = position_.step;
    result_.skipped_steps = position_.skipped_steps;
    result_.total_steps = recipe_.train.steps;
    return result_;
  }

  // Whether a signal to any rank asks for it; what there is to save is the checkpoint that the run goes on from.
  bool is_stopped_before_a_step() {
    const bool goes_on = signals_ == nullptr || signals_->stop_signal() == 0;
    if (position_.step >= recipe_.train.steps || ranks_.all_of(goes_on)) return false;
    result_.interrupted = true;
    if (resumed_) result_.checkpoint = resumed_->checkpoint;
    return true;
  }

  void finish_progress() {
    if (log_) log_->finish_progress();
  }

  // Ranks that run different things would wait for each other for ever. The device is each one's own affair.
  void require_same_run() const {
    ranks_.require_equal(options_.version, "another version of the program", "Install the same one on every machine.");
    std::string keys;
    for (const RecipeValue& key : recipe_values(recipe_))
      if (key.key != "device" && key.key != "device_architecture") keys += fmt::format("{}: {}\n", key.key, key.value);
    ranks_.require_equal(keys, "another recipe",
                         "Give every process the same recipe and the same key=value arguments.");
  }

  // How many steps epochs are is counted with one size of batches.
  void require_batches_of_epochs() const {
    const int64_t before = resumed_->recipe.train.batch_size, now = recipe_.train.batch_size;
    if (recipe_.train.epochs == 0 || before == now) return;
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("is {} in the checkpoint and {} in this run, and how many steps train.epochs comes to is "
                            "counted with batches of one size",
                            before, now),
                "train.batch_size", "Say with train.steps after which step the run ends.");
  }

  void train_steps() {
    std::optional<BatchLoader> opened;
    ranks_.together([&] { opened.emplace(data_->dataset, data_->order, batch_options()); });
    BatchLoader& loader = *opened;
    if (position_.step >= recipe_.train.steps) return;
    if (signals_ != nullptr) signals_->begin_steps();
    if (is_stopped_before_a_step()) return;
    while (true) {
      if (under_way_.empty()) begin_step(loader);
      agree(under_way_.front());
      // What the next step's data are lacking comes after what is to be done of this one.
      std::exception_ptr failure;
      try {
        if (next_may_begin(under_way_.front())) begin_step(loader);
      } catch (const CollectiveError&) {
        throw;
      } catch (const Error&) {
        failure = std::current_exception();
      }
      StepOutcome step = finish_step();
      for (const AfterStep act : kAfterStep) (this->*act)(step);
      if (failure) std::rethrow_exception(failure);
      if (!step.goes_on()) return;
    }
  }

  void begin_step(BatchLoader& loader) {
    const int64_t number = position_.step + static_cast<int64_t>(under_way_.size()) + 1;
    for (StepOutcome& before : under_way_)
      if (before.loaded != nullptr) before.copy = *std::exchange(before.loaded, nullptr);
    StepOutcome step;
    observer_->enter(number, "data");
    step.start = Clock::now();
    const double waited_before = loader.data_wait_seconds();
    ranks_.together([&] { step.loaded = &loader.next(); });
    step.report.step = number;
    step.report.step_tokens = step.loaded->global_tokens;
    step.report.data_wait_seconds = loader.data_wait_seconds() - waited_before;
    step.report.learning_rate = recipe_.optimizer.learning_rate * schedule_->factor(number - 1);
    step.data_cursor = loader.cursor();
    step.last = number == recipe_.train.steps;
    observer_->enter(number, kStepPhase);
    step_->begin(step.host_batch(), number - 1, step.report.learning_rate, observer_->watch_step(number));
    under_way_.push_back(std::move(step));
  }

  // A signal reaches ranks at different steps, or one of them alone: the strongest request of any is that of all.
  void agree(StepOutcome& step) {
    const SignalRequest here = signals_ != nullptr ? signals_->poll() : SignalRequest::kNone;
    for (const std::string& request : ranks_.gather(std::string(1, static_cast<char>(here))))
      step.request = std::max(step.request, static_cast<SignalRequest>(request.at(0)));
    step.save_is_due = step.goes_on() && (step.request == SignalRequest::kSave || saver_->is_due(step.report.step));
  }

  // Whether a GPU is given the next step before this one is finished, so that it does not wait for the host meanwhile:
  // where nothing comes between the two but what is said of the first.
  bool next_may_begin(const StepOutcome& step) const {
    return step_->may_run_ahead() && steps_taken_ > 0 && step.goes_on() && !step.save_is_due && !saver_->is_copying() &&
           !step.is_due(recipe_.evaluation.interval) && !step.is_due(recipe_.sampling.interval) &&
           !observer_->looks_into(step.report.step) && !observer_->looks_into(step.report.step + 1);
  }

  // The first of those under way: its figures, and the run's position after it.
  StepOutcome finish_step() {
    if (under_way_.size() > 1) observer_->enter(under_way_.front().report.step, kStepPhase);
    const StepFigures figures = step_->finish();
    StepOutcome step = std::move(under_way_.front());
    under_way_.pop_front();
    observer_->enter(step.report.step, "after the step");
    if (!figures.finite) {
      handle_non_finite(step.host_batch(), figures, step.report.learning_rate);
      ++position_.skipped_steps;
    }
    move_behind(step);
    step.report.loss = figures.loss;
    step.report.grad_norm = figures.grad_norm;
    step.seconds_after_last = figures.seconds_after_last;
    step.report.skipped_steps = position_.skipped_steps;
    return step;
  }

  void move_behind(const StepOutcome& step) {
    position_.step = step.report.step;
    position_.data_cursor = step.data_cursor;
    position_.tokens += step.report.step_tokens;
  }

  void measure(StepOutcome& step) {
    result_.last_loss = step.report.loss;
    // If it began before the last one was finished: the host, which may be late, sees the end of neither.
    step.report.seconds = step.start < last_finished_ ? step.seconds_after_last : seconds_since(step.start);
    last_finished_ = Clock::now();
    step.report.tokens = position_.tokens;
    step.report.epoch =
        static_cast<double>(position_.data_cursor) / static_cast<double>(data_->order.samples_per_epoch());
    step.report.source_epochs = source_epochs(*data_, position_.data_cursor);
    const Device& device = step_->context().device();
    step.report.memory_bytes = peak_bytes(device);
    if (!device.target().has_own_memory()) return;
    step.report.reserved_bytes = static_cast<uint64_t>(device.peak_reserved_bytes());
    // The driver takes its time to answer.
    if (steps_taken_++ % kStepsBetweenAsking == 2 || occupied_bytes_ == 0)
      occupied_bytes_ = static_cast<uint64_t>(device.occupied_bytes());
    step.report.occupied_bytes = occupied_bytes_;
  }

  void observe(StepOutcome& step) { observer_->end_step(step.report); }

  void log_step(StepOutcome& step) {
    if (log_) log_->step(step.report);
  }

  void note_interruption(StepOutcome& step) {
    result_.interrupted = step.request == SignalRequest::kStop && !step.last;
  }

  void evaluate_when_due(StepOutcome& step) {
    if (!step.is_due(recipe_.evaluation.interval)) return;
    saver_->finish_copy();
    evaluate();
  }

  void sample_when_due(StepOutcome& step) {
    if (!step.is_due(recipe_.sampling.interval)) return;
    saver_->finish_copy();
    if (!review_->samples()) return;
    observer_->enter(position_.step, "sample");
    review_->print_sample(position_);
  }

  // Before they are saved.
  void compare_replicas(StepOutcome& step) { observer_->compare_replicas_when_due(step.report.step); }

  void write_trace(StepOutcome& step) { observer_->write_trace_when_due(step.report.step, step.goes_on()); }

  void attend_save(StepOutcome& step) {
    saver_->attend(step.report.step);
    report_save();
  }

  void save_when_due(StepOutcome& step) {
    if (!step.goes_on()) {
      observer_->enter(position_.step, "checkpoint");
      saver_->save_or_throw(position_);
    } else {
      if (!step.save_is_due) return;
      if (step.request == SignalRequest::kSave) asked_for_save_ = position_.step;
      observer_->enter(position_.step, "checkpoint");
      saver_->save(position_);
    }
    report_save();
  }

  // What was committed meanwhile.
  void report_save() {
    while (const std::optional<SavedCheckpoint> saved = saver_->take_committed()) {
      result_.checkpoint = saved->directory;
      if (log_) log_->checkpoint(position_.step, *saved);
      if (!asked_for_save_ || saved->step < *asked_for_save_) continue;
      asked_for_save_.reset();
      if (speaks_)
        notice("saved {}; training stood still for {:.3f} s\n", saved->directory.string(), saved->pause_seconds);
    }
  }

  void evaluate_at_the_end(StepOutcome& step) {
    if (!step.last) return;
    finish_progress();
    result_.validation_loss = evaluate();
  }

  // What happens after every step, in this order. What is to happen besides is one more entry.
  using AfterStep = void (Trainer::*)(StepOutcome&);
  static constexpr AfterStep kAfterStep[] = {
      &Trainer::measure,           &Trainer::observe,
      &Trainer::log_step,          &Trainer::attend_save,
      &Trainer::note_interruption, &Trainer::compare_replicas,
      &Trainer::evaluate_when_due, &Trainer::sample_when_due,
      &Trainer::save_when_due,     &Trainer::evaluate_at_the_end,
      &Trainer::write_trace,
  };

  void load_tokenizer() {
    if (!data_->dataset.tokenizer_identity())
      return;  // tokens without a tokenizer still train; there are no samples then
    try {
      ranks_.together([&] { tokenizer_ = data_->dataset.load_tokenizer(); });
    } catch (const Error& error) {
      tokenizer_.reset();
      if (!ranks_.is_first()) return;
      log_warning("{}; samples are not printed, and checkpoints will hold no tokenizer", error.what());
    }
  }

  void own_run_directory() {
    std::error_code code;
    std::filesystem::create_directories(directory_, code);
    if (code)
      throw Error(ErrorKind::kIo, fmt::format("cannot create the run directory: {}", code.message()),
                  directory_.string(), "Give another run_directory.");
    // Now, not where a log would be missing or the first checkpoint could not be saved.
    for (const char* written : {kRunLockName, "checkpoints", "metrics.jsonl", "tensorboard", "trace.json"})
      require_enclosed(directory_, written);
    lock_.emplace(directory_);
  }

  BatchOptions batch_options() const {
    BatchOptions options;
    options.sequence_length = recipe_.data.sequence_length;
    options.global_batch_size = recipe_.train.batch_size;
    options.micro_batches = recipe_.micro_batches();
    options.first_row = step_->own_rows().first;
    options.rows = step_->own_rows().count;
    options.vocabulary_size = recipe_.model.vocabulary_size;
    options.document_numbers = recipe_.data.masks_documents();
    options.ignore_targets_across_documents = recipe_.data.masks_documents();
    options.first_sample = position_.data_cursor;
    return options;
  }

  std::optional<double> evaluate() {
    if (!review_->evaluates()) return std::nullopt;
    observer_->enter(position_.step, "evaluation");
    return review_->evaluate(position_);
  }

  void handle_non_finite(const TrainingBatch& batch, const StepFigures& figures, double learning_rate) {
    const std::optional<NonFiniteValue> found = step_->find_non_finite(batch, position_.step, learning_rate);
    std::string what = fmt::format("step {}: the loss is {} and the gradient norm {}", position_.step + 1, figures.loss,
                                   figures.grad_norm);
    std::string here;
    if (found)
      here = fmt::format("; the first value that is not finite is made by {} of {}{}", found->op, found->type,
                         found->scope.empty() ? "" : " in " + found->scope);
    const std::vector<std::string> of_ranks = ranks_.gather(here);
    const auto first = std::ranges::find_if(of_ranks, [](const std::string& text) { return !text.empty(); });
    if (first != of_ranks.end()) what += *first;
    if (first != of_ranks.end() && ranks_.count() > 1) what += fmt::format(", on rank {}", first - of_ranks.begin());
    if (recipe_.train.on_non_finite == FaultPolicy::kSkip) {
      if (ranks_.is_first()) notice("{}; the step was skipped\n", what);
      return;
    }
    ranks_.together([&] {
      throw Error(ErrorKind::kInvalidArgument, what, recipe_.name,
                  "The weights are as before the step. Lower the learning rate, or set train.on_non_finite=skip to "
                  "leave such steps out.");
    });
  }

  static std::string join_sentences(const std::string& first, const std::string& second) {
    return first.empty() || second.empty() ? first + second : first + " " + second;
  }

  // What is under way ends, so that weights and position are of one step.
  void settle() noexcept {
    try {
      while (!under_way_.empty()) {
        const bool changed = step_->finish().finite;
        const StepOutcome step = std::move(under_way_.front());
        under_way_.pop_front();
        if (changed) move_behind(step);
      }
    } catch (const std::exception&) {
      // The state is not whole then.
    }
  }

  std::string save_before_ending(bool on_all_ranks) noexcept {
    settle();
    // Where one rank alone fails, the others are elsewhere and cannot save with it.
    if (!on_all_ranks) return "Nothing was saved since the last checkpoint.";
    return saver_->save_what_can_be_saved(position_, step_->state_is_whole());
  }

  void release_working_memory() noexcept {
    try {
      review_->release();
      step_->context().release_memory();
    } catch (const std::exception&) {
      // What is still held is then held while saving.
    }
  }

  SignalWatch* const signals_;
  StartTimes start_;
  const Ranks ranks_;
  Recipe recipe_;  // with the steps that its epochs are
  const TrainOptions& options_;
  bool speaks_;
  std::filesystem::path directory_;
  std::optional<TrainingData> data_;
  std::optional<Schedule> schedule_;
  std::string tokenizer_note_;  // where the data may not be of the model's tokenizer
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<RunLock> lock_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<TrainingStep> step_;
  std::optional<RunParts> parts_;
  std::optional<Resumed> resumed_;
  std::optional<RunSaver> saver_;
  std::optional<int64_t> asked_for_save_;  // the step after which a signal did
  std::optional<FlopsUtilization> utilization_;
  std::optional<RunLog> log_;
  std::optional<RunObserver> observer_;
  std::optional<ModelReview> review_;
  std::deque<StepOutcome> under_way_;  // begun, and not finished: the second one where a GPU runs ahead
  Clock::time_point last_finished_;
  int64_t steps_taken_ = 0;
  uint64_t occupied_bytes_ = 0;
  RunPosition position_;
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
