#include "causeway/train/log/run_log.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace causeway::train {
namespace {

// Seconds since 1970, as plots and other programs' logs have it.
double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

bool is_recorded(const Recipe& recipe, int64_t step, int64_t first_step) {
  return step == recipe.train.steps || step == first_step + 1 || step % recipe.log.interval == 0;
}

RunLog::RunLog(const Recipe& recipe, const std::filesystem::path& directory, std::string device,
               FlopsUtilization& utilization, int64_t resumed_step, bool quiet)
    : recipe_(recipe),
      device_(std::move(device)),
      utilization_(utilization),
      first_step_(resumed_step),
      metrics_(directory / "metrics.jsonl", resumed_step) {
  if (recipe.log.tensorboard) {
    tensorboard_.emplace(directory / "tensorboard", resumed_step);
    std::vector<TensorboardLog::Hyperparameter> hyperparameters;
    for (const RecipeValue& value : recipe_values(recipe)) hyperparameters.emplace_back(value.key, value.value);
    hyperparameters.emplace_back("device in use", device_);
    tensorboard_->write_hyperparameters(resumed_step, hyperparameters);
  }
  if (!quiet) progress_.emplace(STDERR_FILENO);
}

void RunLog::basis(int64_t step, ParameterCounts parameters, const StepCost& cost, const StartTimes& start,
                   const std::string& target) {
  nlohmann::ordered_json phases = nlohmann::ordered_json::object();
  for (const auto& [phase, seconds] : start.phases()) phases[phase] = seconds;
  metrics_.write(step, {{"time", wall_time()},
                        {"device", device_},
                        {"device_target", target},
                        {"mfu_basis", utilization_.basis(parameters)},
                        {"planned_memory_bytes", cost.total_bytes()},
                        {"planned_reserved_bytes", cost.reserved_bytes},
                        {"start_seconds", phases}});
}

void RunLog::step(const StepReport& report) {
  ++interval_.steps;
  interval_.loss_sum += report.loss;
  interval_.seconds += report.seconds;
  interval_.data_wait_seconds += report.data_wait_seconds;
  interval_.tokens += report.step_tokens;
  data_wait_seconds_ += report.data_wait_seconds;
  if (report.step > first_step_ + 1) {
    busy_seconds_ += report.seconds;
    busy_tokens_ += report.step_tokens;
  }
  if (is_recorded(recipe_, report.step, first_step_)) write_record(report);
  if (progress_) show_progress(report);
}

void RunLog::write_record(const StepReport& report) {
  const auto steps = static_cast<double>(interval_.steps);
  const double tokens_per_second = static_cast<double>(interval_.tokens) / interval_.seconds;
  const double mean_loss = interval_.loss_sum / steps;
  const std::optional<double> mfu = utilization_.of(interval_.seconds / steps);
  nlohmann::ordered_json record = {{"time", wall_time()},
                                   {"elapsed_seconds", elapsed_seconds()},
                                   {"device", device_},
                                   {"loss", report.loss},
                                   {"mean_loss", mean_loss},
                                   {"mean_steps", interval_.steps},
                                   {"grad_norm", report.grad_norm},
                                   {"learning_rate", report.learning_rate},
                                   {"tokens", report.tokens},
                                   {"epoch", report.epoch},
                                   {"tokens_per_second", tokens_per_second},
                                   {"step_seconds", interval_.seconds / steps},
                                   {utilization_.key(), mfu ? nlohmann::ordered_json(*mfu) : nlohmann::ordered_json()},
                                   {"data_wait_seconds", interval_.data_wait_seconds / steps},
                                   {"memory_bytes", report.memory_bytes},
                                   {"skipped_steps", report.skipped_steps}};
  for (const auto& [name, value] : report.figures) record[name] = value;
  for (const auto& [path, epochs] : report.source_epochs) record["source_epochs"][path] = epochs;
  if (report.occupied_bytes > 0) {
    record["reserved_bytes"] = report.reserved_bytes;
    record["device_occupied_bytes"] = report.occupied_bytes;
  }
  if (!report.ranks.is_null()) record["ranks"] = report.ranks;
  metrics_.write(report.step, record);
  if (tensorboard_) {
    std::vector<TensorboardLog::Scalar> scalars = {{"train/loss", report.loss},
                                                   {"train/mean_loss", mean_loss},
                                                   {"train/grad_norm", report.grad_norm},
                                                   {"train/learning_rate", report.learning_rate},
                                                   {"train/tokens", static_cast<double>(report.tokens)},
                                                   {"train/epoch", report.epoch},
                                                   {"train/tokens_per_second", tokens_per_second}};
    std::vector<std::string> tags;
    for (const auto& [name, value] : report.figures) tags.push_back("train/" + name);
    for (size_t i = 0; i < tags.size(); ++i) scalars.emplace_back(tags[i], report.figures[i].second);
    const std::string mfu_tag = "train/" + utilization_.key();
    if (mfu) scalars.emplace_back(mfu_tag, *mfu);
    tensorboard_->write_scalars(report.step, scalars);
  }
  interval_ = {};
}

void RunLog::show_progress(const StepReport& report) {
  const int64_t timed_steps = report.step - first_step_ - 1;
  const double seconds_per_step = timed_steps > 0 ? busy_seconds_ / static_cast<double>(timed_steps) : report.seconds;
  ProgressFigures line;
  line.step = report.step;
  line.total_steps = recipe_.train.steps;
  line.loss = report.loss;
  for (const auto& [name, value] : report.figures) {
    if (name == "reward") line.objective = fmt::format("reward {:.3f}", value);
    if (name == "reward_accuracy") line.objective = fmt::format("accuracy {:.1f}%", 100 * value);
  }
  line.grad_norm = report.grad_norm;
  line.learning_rate = report.learning_rate;
  line.tokens_per_second = timed_steps > 0 ? static_cast<double>(busy_tokens_) / busy_seconds_
                                           : static_cast<double>(report.step_tokens) / report.seconds;
  line.mfu = utilization_.of(seconds_per_step);
  line.mfu_at_most = utilization_.at_most();
  line.memory_bytes = report.memory_bytes;
  const double elapsed = elapsed_seconds();
  line.data_wait = elapsed > 0 ? data_wait_seconds_ / elapsed : 0;
  if (timed_steps > 0) line.eta_seconds = seconds_per_step * static_cast<double>(recipe_.train.steps - report.step);
  progress_->update(line);
}

void RunLog::evaluation(int64_t step, int64_t tokens, const EvaluationResult& result) {
  nlohmann::ordered_json record = {
      {"time", wall_time()}, {"elapsed_seconds", elapsed_seconds()}, {"device", device_}, {"tokens", tokens}};
  if (result.completions > 0) {
    record["validation_reward"] = result.reward;
    record["validation_completions"] = result.completions;
    metrics_.write(step, record);
    const std::vector<TensorboardLog::Scalar> scalars = {{"validation/reward", result.reward}};
    if (tensorboard_) tensorboard_->write_scalars(step, scalars);
    return;
  }
  record["validation_loss"] = result.loss;
  if (result.pairs > 0) {
    record["validation_pairs"] = result.pairs;
    record["validation_accuracy"] = result.accuracy;
  } else {
    record["validation_targets"] = result.targets;
  }
  if (result.sources.size() > 1)
    for (const EvaluationResult::OfSource& source : result.sources)
      record["validation_losses"][source.path] = source.loss;
  metrics_.write(step, record);
  if (!tensorboard_) return;
  std::vector<TensorboardLog::Scalar> scalars = {{"validation/loss", result.loss}};
  if (result.pairs > 0) scalars.emplace_back("validation/accuracy", result.accuracy);
  tensorboard_->write_scalars(step, scalars);
}

void RunLog::checkpoint(int64_t step, const SavedCheckpoint& saved) {
  metrics_.write(step, {{"time", wall_time()},
                        {"elapsed_seconds", elapsed_seconds()},
                        {"device", device_},
                        {"checkpoint", saved.directory.string()},
                        {"checkpoint_step", saved.step},
                        {"checkpoint_pause", saved.pause_seconds},
                        {"checkpoint_seconds", saved.seconds}});
}

void RunLog::sample(int64_t step, std::string_view text) {
  if (tensorboard_) tensorboard_->write_text(step, "sample", text);
}

void RunLog::finish_progress() {
  if (progress_) progress_->finish();
}

}  // namespace causeway::train
