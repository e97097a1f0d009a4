#include "causeway/train/trainer.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>

#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/data/batch_loader.h"
#include "causeway/data/sample_order.h"
#include "causeway/data/token_dataset.h"
#include "causeway/program/program.h"
#include "causeway/tensor/runtime.h"
#include "causeway/train/evaluation.h"
#include "causeway/train/flops_utilization.h"
#include "causeway/train/metrics_log.h"
#include "causeway/train/progress_line.h"
#include "causeway/train/run_checkpoint.h"
#include "causeway/train/signals.h"
#include "causeway/train/tensorboard_log.h"
#include "causeway/train/text_generation.h"
#include "causeway/train/training_step.h"

namespace causeway {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Memory in use at most: the device's own, or the process's where the device is the processor.
uint64_t peak_bytes() {
  const Device& device = Runtime::current().device();
  return device.target().is_gpu() ? static_cast<uint64_t>(device.peak_bytes()) : peak_resident_bytes();
}

bool is_due(int64_t step, int64_t interval) { return interval > 0 && step % interval == 0; }

class Trainer {
 public:
  Trainer(const Recipe& recipe, const TrainOptions& options)
      : recipe_(recipe),
        options_(options),
        dataset_(TokenDataset::open(recipe.data.path, kTrainSplit)),
        order_(dataset_.token_count(), recipe.data.sequence_length, static_cast<uint64_t>(recipe.train.seed)),
        schedule_(recipe.schedule) {
    open_validation();
    prepare_run_directory();
    require_memory_for_weights();
    model_ = LanguageModel::create(recipe.model, static_cast<uint64_t>(recipe.train.seed));
    step_ = std::make_unique<TrainingStep>(*model_, recipe_);
    if (resume_from_) {
      const CheckpointReader checkpoint(resume_from_->directory);
      require_same_samples(checkpoint);
      position_ = restore_run(checkpoint, *model_, *step_, dataset_.fingerprint());
    }
    // Not earlier: a recipe that the run's checkpoint refuses must not replace the run's own.
    write_file_atomically(directory_ / "recipe.yaml", recipe_text(recipe_));
  }

  TrainResult run() {
    announce();
    SignalWatch signals;
    MetricsLog metrics(directory_ / "metrics.jsonl", position_.step);
    metrics.write(position_.step, {{"mfu_basis", utilization_->basis(parameter_count(recipe_.model))}});
    std::optional<TensorboardLog> tensorboard;
    if (recipe_.log.tensorboard) tensorboard.emplace(directory_ / "tensorboard", position_.step);
    std::optional<ProgressLine> progress;
    if (!options_.quiet) progress.emplace(STDERR_FILENO);
    BatchLoader loader(dataset_, order_, batch_options());

    TrainResult result;
    result.skipped_steps = position_.skipped_steps;
    const Clock::time_point start = Clock::now();
    const int64_t first_step = position_.step;
    const double tokens_per_step = static_cast<double>(recipe_.train.batch_size * recipe_.data.sequence_length);
    double busy_seconds = 0;
    while (position_.step < recipe_.train.steps) {
      const Clock::time_point step_start = Clock::now();
      const double waited_before = loader.data_wait_seconds();
      const Batch& batch = loader.next();
      const double learning_rate = recipe_.optimizer.learning_rate * schedule_.factor(position_.step);
      const TrainingBatch host_batch{batch.inputs, batch.targets, batch.documents, batch.valid_targets};
      const StepFigures figures = step_->run(host_batch, position_.step, learning_rate);
      const double waited = loader.data_wait_seconds() - waited_before;
      if (!figures.finite) {
        if (progress) progress->clear();
        handle_non_finite(host_batch, figures, learning_rate);
        ++result.skipped_steps;
        position_.skipped_steps = result.skipped_steps;
      }
      ++position_.step;
      position_.data_cursor = loader.cursor();
      result.last_loss = figures.loss;
      const double step_seconds = seconds_since(step_start);
      // The first step also compiles; it says nothing about the speed.
      if (position_.step > first_step + 1) busy_seconds += step_seconds;
      const int64_t timed_steps = position_.step - first_step - 1;
      const double seconds_per_step = timed_steps > 0 ? busy_seconds / static_cast<double>(timed_steps) : step_seconds;

      const bool last = position_.step == recipe_.train.steps;
      if (last || position_.step == first_step + 1 || is_due(position_.step, recipe_.log.interval)) {
        const std::optional<double> mfu = utilization_->of(step_seconds);
        nlohmann::ordered_json record = {
            {"loss", figures.loss},
            {"grad_norm", figures.grad_norm},
            {"learning_rate", learning_rate},
            {"tokens_per_second", tokens_per_step / step_seconds},
            {"step_seconds", step_seconds},
            {utilization_->key(), mfu ? nlohmann::ordered_json(*mfu) : nlohmann::ordered_json()},
            {"data_wait_seconds", waited},
            {"tokens", static_cast<double>(position_.data_cursor) * static_cast<double>(recipe_.data.sequence_length)},
            {"memory_bytes", peak_bytes()},
            {"skipped_steps", result.skipped_steps}};
        metrics.write(position_.step, record);
        if (tensorboard) {
          std::vector<TensorboardLog::Scalar> scalars = {{"train/loss", figures.loss},
                                                         {"train/grad_norm", figures.grad_norm},
                                                         {"train/learning_rate", learning_rate},
                                                         {"train/tokens_per_second", tokens_per_step / step_seconds}};
          const std::string mfu_tag = "train/" + utilization_->key();
          if (mfu) scalars.emplace_back(mfu_tag, *mfu);
          tensorboard->write_scalars(position_.step, scalars);
        }
      }
      if (progress) {
        ProgressFigures line;
        line.step = position_.step;
        line.total_steps = recipe_.train.steps;
        line.loss = figures.loss;
        line.grad_norm = figures.grad_norm;
        line.learning_rate = learning_rate;
        line.tokens_per_second = tokens_per_step / seconds_per_step;
        line.mfu = utilization_->of(seconds_per_step);
        line.mfu_at_most = utilization_->at_most();
        line.memory_bytes = peak_bytes();
        line.data_wait = seconds_since(start) > 0 ? loader.data_wait_seconds() / seconds_since(start) : 0;
        if (timed_steps > 0)
          line.eta_seconds = seconds_per_step * static_cast<double>(recipe_.train.steps - position_.step);
        progress->update(line);
      }
      const SignalRequest request = signals.poll();
      if (is_due(position_.step, recipe_.evaluation.interval) && !last && request != SignalRequest::kStop) {
        if (progress) progress->clear();
        evaluate(metrics, tensorboard);
      }
      if (is_due(position_.step, recipe_.sampling.interval) && !last && request != SignalRequest::kStop) {
        if (progress) progress->clear();
        print_sample();
      }
      if (last || request != SignalRequest::kNone || is_due(position_.step, recipe_.checkpoint.interval)) {
        result.checkpoint = save();
        if (request == SignalRequest::kSave && !options_.quiet) {
          if (progress) progress->clear();
          fmt::print(stderr, "saved {}\n", result.checkpoint.string());
        }
      }
      if (request == SignalRequest::kStop && !last) {
        result.interrupted = true;
        break;
      }
    }
    if (progress) progress->finish();
    if (!result.interrupted && position_.step > first_step) result.validation_loss = evaluate(metrics, tensorboard);
    result.step = position_.step;
    return result;
  }

 private:
  void open_validation() {
    // Held-out text is optional: a plain token file has none.
    try {
      validation_ = TokenDataset::open(recipe_.data.path, kValidationSplit);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNotFound) throw;
    }
    if (validation_ && std::filesystem::is_regular_file(recipe_.data.path)) validation_.reset();
  }

  void prepare_run_directory() {
    directory_ = recipe_.run_directory;
    resume_from_ = find_latest(directory_);
    if (resume_from_ && options_.resume == ResumeMode::kFresh)
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the run directory already holds a checkpoint of step {}", resume_from_->step),
                  directory_.string(), "Continue it with --resume auto, or give another name or run_directory.");
    std::error_code code;
    std::filesystem::create_directories(directory_, code);
    if (code)
      throw Error(ErrorKind::kIo, fmt::format("cannot create the run directory: {}", code.message()),
                  directory_.string(), "Give another run_directory.");
    if (std::filesystem::is_directory(recipe_.data.path)) {
      try {
        tokenizer_ = dataset_.load_tokenizer();
      } catch (const Error&) {
        tokenizer_.reset();  // tokens without a tokenizer still train; samples are then not printed
      }
    }
  }

  // The position in the data counts samples, whose text follows from the seed and the sequence length.
  void require_same_samples(const CheckpointReader& checkpoint) const {
    const Recipe before =
        parse_recipe(checkpoint.state().trainer.value("recipe", std::string()), "recipe of the checkpoint", {});
    for (const auto& [key, was, is] :
         {std::tuple{"data.sequence_length", before.data.sequence_length, recipe_.data.sequence_length},
          {"train.seed", before.train.seed, recipe_.train.seed}})
      if (was != is)
        throw Error(ErrorKind::kInvalidArgument,
                    fmt::format("{} is {} in the checkpoint and {} in this run, which would go on with other text", key,
                                was, is),
                    checkpoint.directory().string(),
                    "Resume with the same value, or start a new run with another name.");
  }

  BatchOptions batch_options() const {
    BatchOptions options;
    options.sequence_length = recipe_.data.sequence_length;
    options.global_batch_size = recipe_.train.batch_size;
    options.vocabulary_size = recipe_.model.vocabulary_size;
    options.document_numbers = recipe_.data.document_mask;
    options.ignore_targets_across_documents = recipe_.data.document_mask;
    options.first_sample = position_.data_cursor;
    return options;
  }

  // Before anything is allocated that would not fit in the end.
  void require_memory_for_weights() const {
    const Device& device = Runtime::current().device();
    const int64_t copies = recipe_.micro_batches() > 1 ? 4 : 3;  // weights, two moments, sums over micro-batches
    const int64_t bytes = parameter_count(recipe_.model) * static_cast<int64_t>(sizeof(float)) * copies;
    if (device.memory_limit() == 0 || bytes <= device.memory_limit()) return;
    throw Error(ErrorKind::kResource,
                fmt::format("weights and optimizer need {}, and {} has {}", format_bytes(static_cast<uint64_t>(bytes)),
                            device.name(), format_bytes(static_cast<uint64_t>(device.memory_limit()))),
                recipe_.name, "Train a smaller model, or on a device with more memory.");
  }

  void require_memory(const StepCost& cost) {
    const Device& device = Runtime::current().device();
    if (device.memory_limit() == 0 || cost.total_bytes() <= device.memory_limit()) return;
    std::string largest;
    for (const ProgramMemory::Item& item : step_->main_step().prepare(step_->main_arguments()).memory().largest)
      largest += fmt::format("\n  {:>10}  {}", format_bytes(static_cast<uint64_t>(item.bytes)), item.name);
    throw Error(ErrorKind::kResource,
                fmt::format("a step needs {} ({} weights, {} optimizer, {} activations and workspace), and {} has {}; "
                            "the largest activations are{}",
                            format_bytes(static_cast<uint64_t>(cost.total_bytes())),
                            format_bytes(static_cast<uint64_t>(cost.parameter_bytes)),
                            format_bytes(static_cast<uint64_t>(cost.optimizer_bytes)),
                            format_bytes(static_cast<uint64_t>(cost.arena_bytes)), device.name(),
                            format_bytes(static_cast<uint64_t>(device.memory_limit())), largest),
                recipe_.name,
                "Lower train.micro_batch_size or data.sequence_length, or set train.recompute to selective or block.");
  }

  void announce() {
    const StepCost cost = step_->cost();
    require_memory(cost);
    utilization_.emplace(make_flops_utilization(*step_));
    if (options_.quiet) return;
    fmt::print(stderr, "{}: {} parameters, {} tokens of training text, {:.3g} GFLOP a step\n", recipe_.name,
               format_count(static_cast<double>(parameter_count(recipe_.model))),
               format_count(static_cast<double>(dataset_.token_count())), cost.flops.total() / 1e9);
    fmt::print(stderr, "memory: {} weights, {} optimizer, {} activations and workspace; {} in all\n",
               format_bytes(static_cast<uint64_t>(cost.parameter_bytes)),
               format_bytes(static_cast<uint64_t>(cost.optimizer_bytes)),
               format_bytes(static_cast<uint64_t>(cost.arena_bytes)),
               format_bytes(static_cast<uint64_t>(cost.total_bytes())));
    const double tokens_per_step = static_cast<double>(recipe_.train.batch_size * recipe_.data.sequence_length);
    for (const std::string& line : utilization_->explanation(parameter_count(recipe_.model), tokens_per_step))
      fmt::print(stderr, "{}\n", line);
    if (resume_from_)
      fmt::print(stderr, "resuming from {} at step {}\n", resume_from_->directory.string(), position_.step);
  }

  std::optional<double> evaluate(MetricsLog& metrics, std::optional<TensorboardLog>& tensorboard) {
    if (!validation_) return std::nullopt;
    if (!evaluator_) evaluator_ = std::make_unique<Evaluator>(*model_, recipe_, *validation_);
    const EvaluationResult result = evaluator_->run();
    metrics.write(position_.step, {{"validation_loss", result.loss}, {"validation_targets", result.targets}});
    if (tensorboard) {
      const TensorboardLog::Scalar scalars[] = {{"validation/loss", result.loss}};
      tensorboard->write_scalars(position_.step, scalars);
    }
    if (!options_.quiet)
      fmt::print(stderr, "step {}: validation loss {:.4f} nats per token ({} targets)\n", position_.step, result.loss,
                 result.targets);
    return result.loss;
  }

  void print_sample() {
    if (!tokenizer_ || options_.quiet) return;
    if (!generator_) generator_ = std::make_unique<TextGenerator>(*model_, pipeline_options(recipe_));
    SamplingOptions sampling;
    sampling.tokens = recipe_.sampling.tokens;
    sampling.temperature = recipe_.sampling.temperature;
    sampling.top_k = recipe_.sampling.top_k;
    sampling.seed = static_cast<uint64_t>(recipe_.train.seed);
    const std::vector<int32_t> prompt = tokenizer_->encode(recipe_.sampling.prompt);
    if (prompt.empty()) return;
    fmt::print(stderr, "--- sample at step {} ---\n{}{}\n---\n", position_.step, recipe_.sampling.prompt,
               tokenizer_->decode(generator_->generate(prompt, sampling)));
  }

  std::filesystem::path save() {
    return save_run(recipe_, *model_, *step_, position_, dataset_.fingerprint(),
                    dataset_.tokenizer_identity() ? dataset_.tokenizer_identity()->fingerprint : "");
  }

  void handle_non_finite(const TrainingBatch& batch, const StepFigures& figures, double learning_rate) {
    const std::optional<NonFiniteValue> first = step_->find_non_finite(batch, position_.step, learning_rate);
    std::string what = fmt::format("step {}: the loss is {} and the gradient norm {}", position_.step + 1, figures.loss,
                                   figures.grad_norm);
    if (first)
      what += fmt::format("; the first value that is not finite is made by {} of {}{}", first->op, first->type,
                          first->scope.empty() ? "" : " in " + first->scope);
    if (recipe_.train.on_non_finite == "skip") {
      fmt::print(stderr, "{}; the step was skipped\n", what);
      return;
    }
    throw Error(
        ErrorKind::kInvalidArgument, what, recipe_.name,
        "The weights are as before the step, and earlier checkpoints are untouched. Lower the learning rate, or "
        "set train.on_non_finite=skip to leave such steps out.");
  }

  const Recipe& recipe_;
  const TrainOptions& options_;
  TokenDataset dataset_;
  std::optional<TokenDataset> validation_;
  SampleOrder order_;
  Schedule schedule_;
  std::filesystem::path directory_;
  std::optional<CheckpointEntry> resume_from_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<TrainingStep> step_;
  std::optional<FlopsUtilization> utilization_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<TextGenerator> generator_;
  RunPosition position_;
};

}  // namespace

TrainResult train(const Recipe& recipe, const TrainOptions& options) {
  Runtime::use_device(recipe.device);
  return Trainer(recipe, options).run();
}

}  // namespace causeway
