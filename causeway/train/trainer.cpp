#include "causeway/train/trainer.h"

#include <sys/resource.h>

#include <chrono>
#include <new>

#include "causeway/base/console.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/log.h"
#include "causeway/data/batch_loader.h"
#include "causeway/data/sample_order.h"
#include "causeway/data/token_dataset.h"
#include "causeway/generate/text_generation.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/resume.h"
#include "causeway/train/checkpoint/run_checkpoint.h"
#include "causeway/train/checkpoint/run_lock.h"
#include "causeway/train/checkpoint/run_saver.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/log/announcement.h"
#include "causeway/train/log/run_log.h"
#include "causeway/train/signals.h"
#include "causeway/train/step/flops_utilization.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Memory in use at most: the device's own, or the process's where the device is the processor.
uint64_t peak_bytes(const Device& device) {
  return device.target().is_gpu() ? static_cast<uint64_t>(device.peak_bytes()) : peak_resident_bytes();
}

// A step that was taken, as what happens after it sees it.
struct StepOutcome {
  StepReport report;
  Clock::time_point start;
  SignalRequest request = SignalRequest::kNone;
  bool last = false;  // of the recipe's steps

  bool goes_on() const { return !last && request != SignalRequest::kStop; }
  // Whether something that happens every `interval` steps (0: never) happens now, in a run that goes on.
  bool is_due(int64_t interval) const { return goes_on() && interval > 0 && report.step % interval == 0; }
};

// Something that only looks at a run may not end it: a failure is said once, and it is not tried again.
class Onlooker {
 public:
  explicit Onlooker(std::string what) : what_(std::move(what)) {}

  template <typename Action>
  void look(int64_t step, Action&& action) {
    if (failed_) return;
    try {
      action();
    } catch (const std::exception& error) {
      failed_ = true;
      log_warning("step {}: {} failed: {}\n  Training goes on without.", step, what_, error.what());
    }
  }

 private:
  std::string what_;
  bool failed_ = false;
};

class Trainer {
 public:
  Trainer(const Recipe& recipe, const TrainOptions& options)
      : recipe_(recipe),
        options_(options),
        directory_(recipe.run_directory),
        dataset_(TokenDataset::open(recipe.data.path, kTrainSplit, static_cast<int>(recipe.data.token_bytes))),
        order_(dataset_.token_count(), recipe.data.sequence_length, static_cast<uint64_t>(recipe.train.seed)),
        schedule_(recipe.schedule) {
    open_validation();
    load_tokenizer();
    own_run_directory();
    const std::vector<CheckpointEntry> candidates = resume_candidates(directory_, options.resume);
    require_memory_for_weights(Context::current()->device(), recipe);
    model_ = LanguageModel::create(recipe.model, static_cast<uint64_t>(recipe.train.seed));
    step_ = std::make_unique<TrainingStep>(*model_, recipe_);
    parts_.emplace(RunParts{recipe_, dataset_, tokenizer_.get(), *model_, *step_});
    resumed_ = resume_run(candidates, *parts_);
    if (resumed_) position_ = resumed_->position;
    saver_.emplace(*parts_, *lock_, position_.step);
    // Not earlier: a recipe that the run's checkpoint refuses must not replace the run's own.
    write_file_atomically(directory_ / "recipe.yaml",
                          device_comment(recipe_, step_->context().device()) + recipe_text(recipe_));
  }

  TrainResult run() {
    require_memory_for_step(*parts_);
    utilization_.emplace(make_flops_utilization(*step_));
    if (!options_.quiet) announce_run(*parts_, *utilization_, resumed_, saver_->describe_schedule());
    signals_.emplace();
    log_.emplace(recipe_, directory_, step_->context().device().name(), *utilization_, position_.step, options_.quiet);
    log_->basis(position_.step, parameter_count(recipe_.model));
    try {
      train_steps();
    } catch (const Error& error) {
      log_->finish_progress();
      if (error.kind() == ErrorKind::kResource) release_working_memory();
      throw Error(error.kind(), error.message(), error.where(), join_sentences(error.hint(), save_before_ending()));
    } catch (const std::bad_alloc&) {
      log_->finish_progress();
      release_working_memory();
      throw Error(ErrorKind::kResource,
                  fmt::format("memory ran out after step {} of {}", position_.step, recipe_.train.steps), recipe_.name,
                  join_sentences(save_before_ending(),
                                 "Give the process more memory, or lower train.micro_batch_size and resume."));
    } catch (...) {
      log_->finish_progress();
      notice("{}\n", save_before_ending());
      throw;
    }
    log_->finish_progress();
    result_.step = position_.step;
    result_.skipped_steps = position_.skipped_steps;
    return result_;
  }

 private:
  void train_steps() {
    BatchLoader loader(dataset_, order_, batch_options());
    while (position_.step < recipe_.train.steps) {
      StepOutcome step = take_step(loader);
      for (const AfterStep act : kAfterStep) (this->*act)(step);
      if (!step.goes_on()) return;
    }
  }

  // The step itself, and the run's position after it.
  StepOutcome take_step(BatchLoader& loader) {
    StepOutcome step;
    step.start = Clock::now();
    const double waited_before = loader.data_wait_seconds();
    const Batch& batch = loader.next();
    const TrainingBatch host_batch{batch.inputs, batch.targets, batch.documents, batch.global_valid_targets};
    step.report.learning_rate = recipe_.optimizer.learning_rate * schedule_.factor(position_.step);
    const StepFigures figures = step_->run(host_batch, position_.step, step.report.learning_rate);
    step.report.data_wait_seconds = loader.data_wait_seconds() - waited_before;
    if (!figures.finite) {
      handle_non_finite(host_batch, figures, step.report.learning_rate);
      ++position_.skipped_steps;
    }
    ++position_.step;
    position_.data_cursor = loader.cursor();
    step.report.step = position_.step;
    step.report.loss = figures.loss;
    step.report.grad_norm = figures.grad_norm;
    step.report.skipped_steps = position_.skipped_steps;
    step.last = position_.step == recipe_.train.steps;
    return step;
  }

  void measure(StepOutcome& step) {
    step.report.seconds = seconds_since(step.start);
    step.report.tokens = tokens_consumed();
    step.report.epoch = static_cast<double>(position_.data_cursor) / static_cast<double>(order_.samples_per_epoch());
    step.report.memory_bytes = peak_bytes(step_->context().device());
    result_.last_loss = step.report.loss;
  }

  void log_step(StepOutcome& step) { log_->step(step.report); }

  void heed_signals(StepOutcome& step) {
    step.request = signals_->poll();
    result_.interrupted = step.request == SignalRequest::kStop && !step.last;
  }

  void evaluate_when_due(StepOutcome& step) {
    if (step.is_due(recipe_.evaluation.interval)) evaluate();
  }

  void sample_when_due(StepOutcome& step) {
    if (step.is_due(recipe_.sampling.interval)) print_sample();
  }

  void save_when_due(StepOutcome& step) {
    if (!step.goes_on()) {
      result_.checkpoint = saver_->save_or_throw(position_);
      return;
    }
    const bool asked_for = step.request == SignalRequest::kSave;
    if (!asked_for && !saver_->is_due(position_.step)) return;
    const std::optional<std::filesystem::path> saved = saver_->save(position_);
    if (!saved) return;
    result_.checkpoint = *saved;
    if (asked_for && !options_.quiet) notice("saved {}\n", saved->string());
  }

  void evaluate_at_the_end(StepOutcome& step) {
    if (!step.last) return;
    log_->finish_progress();
    result_.validation_loss = evaluate();
  }

  // What happens after every step, in this order. What is to happen besides is one more entry.
  using AfterStep = void (Trainer::*)(StepOutcome&);
  static constexpr AfterStep kAfterStep[] = {
      &Trainer::measure,         &Trainer::log_step,      &Trainer::heed_signals,        &Trainer::evaluate_when_due,
      &Trainer::sample_when_due, &Trainer::save_when_due, &Trainer::evaluate_at_the_end,
  };

  void open_validation() {
    // Held-out text is optional: a plain token file has none.
    try {
      validation_ = TokenDataset::open(recipe_.data.path, kValidationSplit, static_cast<int>(recipe_.data.token_bytes));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
    }
    if (validation_ && std::filesystem::is_regular_file(recipe_.data.path)) validation_.reset();
  }

  void load_tokenizer() {
    if (!dataset_.tokenizer_identity()) return;  // tokens without a tokenizer still train; there are no samples then
    try {
      tokenizer_ = dataset_.load_tokenizer();
    } catch (const Error& error) {
      log_warning("{}; samples are not printed, and checkpoints will hold no tokenizer", error.what());
    }
  }

  void own_run_directory() {
    std::error_code code;
    std::filesystem::create_directories(directory_, code);
    if (code)
      throw Error(ErrorKind::kIo, fmt::format("cannot create the run directory: {}", code.message()),
                  directory_.string(), "Give another run_directory.");
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
    options.document_numbers = recipe_.data.document_mask;
    options.ignore_targets_across_documents = recipe_.data.document_mask;
    options.first_sample = position_.data_cursor;
    return options;
  }

  int64_t tokens_consumed() const { return static_cast<int64_t>(position_.data_cursor) * recipe_.data.sequence_length; }

  std::optional<double> evaluate() {
    if (!validation_) return std::nullopt;
    std::optional<double> loss;
    evaluation_.look(position_.step, [&] {
      if (!evaluator_) evaluator_ = std::make_unique<Evaluator>(*model_, recipe_, *validation_);
      const EvaluationResult result = evaluator_->run();
      log_->evaluation(position_.step, tokens_consumed(), result);
      if (!options_.quiet)
        notice("step {}: validation loss {:.4f} nats per token ({} targets)\n", position_.step, result.loss,
               result.targets);
      loss = result.loss;
    });
    return loss;
  }

  void print_sample() {
    if (!tokenizer_ || (options_.quiet && !recipe_.log.tensorboard)) return;
    sample_.look(position_.step, [&] {
      const std::vector<int32_t> prompt = tokenizer_->encode(recipe_.sampling.prompt);
      if (prompt.empty()) return;
      if (!generator_) generator_ = std::make_unique<TextGenerator>(*model_, pipeline_options(recipe_));
      SamplingOptions sampling;
      sampling.tokens = recipe_.sampling.tokens;
      sampling.temperature = recipe_.sampling.temperature;
      sampling.top_k = recipe_.sampling.top_k;
      sampling.seed = static_cast<uint64_t>(recipe_.train.seed);
      sampling.vocabulary_size = tokenizer_->vocabulary_size();
      sampling.stop_token = tokenizer_->end_of_text().value_or(-1);
      std::vector<int32_t> tokens = generator_->generate(prompt, sampling);
      if (!tokens.empty() && tokens.back() == sampling.stop_token) tokens.pop_back();
      const std::string text = recipe_.sampling.prompt + tokenizer_->decode(tokens);
      log_->sample(position_.step, text);
      if (!options_.quiet) notice("--- sample at step {} ---\n{}\n---\n", position_.step, text);
    });
  }

  void handle_non_finite(const TrainingBatch& batch, const StepFigures& figures, double learning_rate) {
    const std::optional<NonFiniteValue> first = step_->find_non_finite(batch, position_.step, learning_rate);
    std::string what = fmt::format("step {}: the loss is {} and the gradient norm {}", position_.step + 1, figures.loss,
                                   figures.grad_norm);
    if (first)
      what += fmt::format("; the first value that is not finite is made by {} of {}{}", first->op, first->type,
                          first->scope.empty() ? "" : " in " + first->scope);
    if (recipe_.train.on_non_finite == "skip") {
      notice("{}; the step was skipped\n", what);
      return;
    }
    throw Error(ErrorKind::kInvalidArgument, what, recipe_.name,
                "The weights are as before the step. Lower the learning rate, or set train.on_non_finite=skip to leave "
                "such steps out.");
  }

  static std::string join_sentences(const std::string& first, const std::string& second) {
    return first.empty() || second.empty() ? first + second : first + " " + second;
  }

  std::string save_before_ending() noexcept {
    return saver_->save_what_can_be_saved(position_, step_->state_is_whole());
  }

  void release_working_memory() noexcept {
    try {
      evaluator_.reset();
      generator_.reset();
      step_->context().release_memory();
    } catch (const std::exception&) {
      // What is still held is then held while saving.
    }
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  std::filesystem::path directory_;
  TokenDataset dataset_;
  std::optional<TokenDataset> validation_;
  SampleOrder order_;
  Schedule schedule_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<RunLock> lock_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<TrainingStep> step_;
  std::optional<RunParts> parts_;
  std::optional<Resumed> resumed_;
  std::optional<RunSaver> saver_;
  std::optional<FlopsUtilization> utilization_;
  std::optional<RunLog> log_;
  std::optional<SignalWatch> signals_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<TextGenerator> generator_;
  Onlooker evaluation_{"the evaluation"}, sample_{"the sample"};
  RunPosition position_;
  TrainResult result_;
};

}  // namespace

TrainResult train(const Recipe& recipe, const TrainOptions& options) {
  if (recipe.data.path.empty())
    throw Error(ErrorKind::kInvalidArgument, "names no data to train on", "data.path",
                "Make a dataset with \"causeway data prepare TEXT --output DIRECTORY\", and set data.path=DIRECTORY.");
  const ContextScope context(Context::open(recipe.device));
  return Trainer(recipe, options).run();
}

}  // namespace causeway::train
