#include "causeway/train/training_data.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/train/initial_weights.h"

namespace causeway::train {
namespace {

TokenDatasetOptions dataset_options(const Recipe& recipe) {
  return {.token_bytes = static_cast<int>(recipe.data.token_bytes),
          .column = recipe.data.column,
          .check_hashes = recipe.data.check_hashes,
          .skip_damaged_shards = recipe.data.on_damaged_shard == FaultPolicy::kSkip};
}

TokenDataset open_training_split(const Recipe& recipe) {
  std::vector<TokenDataset> datasets;
  for (const DataSource& source : recipe.data.sources())
    datasets.push_back(TokenDataset::open(source.path, kTrainSplit, dataset_options(recipe)));
  return TokenDataset::join(std::move(datasets));
}

std::optional<TokenDataset> open_held_out(const DataSource& source, const TokenDatasetOptions& options) {
  // A file or pattern of files is all for training.
  std::error_code code;
  if (!std::filesystem::is_directory(source.path, code)) return std::nullopt;
  try {
    return TokenDataset::open(source.path, kValidationSplit, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    return std::nullopt;
  }
}

std::optional<TokenDataset> open_validation_split(const Recipe& recipe) {
  const std::vector<DataSource> sources = recipe.data.sources();
  std::vector<TokenDataset> datasets;
  const DataSource* with = nullptr;
  const DataSource* without = nullptr;
  for (const DataSource& source : sources) {
    std::optional<TokenDataset> held_out = open_held_out(source, dataset_options(recipe));
    (held_out ? with : without) = &source;
    if (held_out) datasets.push_back(std::move(*held_out));
  }
  if (with == nullptr) return std::nullopt;
  if (without != nullptr) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the source has no held-out part, and {} has one: the validation loss would be that of "
                            "other data than is trained on",
                            with->path),
                without->path, "Prepare it with --validation-fraction or --validation, or prepare the others without.");
  }
  return TokenDataset::join(std::move(datasets));
}

// A run on them would learn nothing, and its loss would be 0.
void require_targets(const TokenDataset& dataset) {
  for (const TokenDataset::Source& source : dataset.sources()) {
    if (dataset.count_targets(source) > 0) continue;
    throw Error(
        ErrorKind::kInvalidArgument, "the dataset says of none of its tokens that it is trained on",
        source.path.string(),
        "Look at it with \"causeway data inspect --samples 3\", and prepare it again with another chat template "
        "or --targets all.");
  }
}

void require_data_of_loss(const Recipe& recipe, const TokenDataset& dataset) {
  if (dataset.holds_prompts() != recipe.grpo.is_used())
    throw Error(
        ErrorKind::kInvalidArgument,
        dataset.holds_prompts()
            ? fmt::format("is none, and {} holds prompts that are to be answered", dataset.path().string())
            : fmt::format("is {}, and {} holds no prompts", name_of(recipe.grpo.reward), dataset.path().string()),
        "grpo.reward",
        dataset.holds_prompts()
            ? "Give one of exact_match, regex and program; or train on conversations or text."
            : "Prepare some: causeway data prepare prompts.jsonl --chat --prompts, of records with \"prompt\".");
  if (dataset.holds_pairs() == recipe.preference.is_used()) return;
  if (dataset.holds_pairs())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("is none, and {} holds preference pairs", dataset.path().string()), "preference.loss",
                "Give one of dpo, ipo, simpo, orpo and reward; or train on conversations or text.");
  throw Error(
      ErrorKind::kInvalidArgument,
      fmt::format("is {}, and {} holds no preference pairs", name_of(recipe.preference.loss), dataset.path().string()),
      "preference.loss",
      "Prepare some: causeway data prepare pairs.jsonl --chat, of records with \"chosen\" and \"rejected\".");
}

MixtureOrder make_order(const Recipe& recipe, const TokenDataset& dataset) {
  std::vector<double> weights;
  for (const DataSource& source : recipe.data.sources()) weights.push_back(source.weight);
  const GroupedSamples grouped{.all_are_inputs = recipe.preference.trains_reward_model(),
                               .completions = static_cast<uint64_t>(recipe.grpo.num_generations),
                               .completion_tokens = recipe.grpo.max_completion_length};
  return {dataset, weights, recipe.data.sequence_length, static_cast<uint64_t>(recipe.train.seed), recipe.data.packing,
          grouped};
}

}  // namespace

TrainingData open_training_data(const Recipe& recipe) {
  TokenDataset dataset = open_training_split(recipe);
  require_data_of_loss(recipe, dataset);
  if (!recipe.model_from.empty()) require_fitting_vocabulary(recipe, dataset);
  if (dataset.has_targets()) require_targets(dataset);
  std::optional<TokenDataset> validation = open_validation_split(recipe);
  if (validation && validation->has_targets()) require_targets(*validation);
  MixtureOrder order = make_order(recipe, dataset);
  return {std::move(dataset), std::move(validation), std::move(order)};
}

void resolve_steps(Recipe& recipe, const TrainingData& data) {
  if (recipe.train.epochs == 0) return;
  // Of prompts, several steps may be of the same completions.
  const int64_t visits = recipe.grpo.is_used() ? recipe.grpo.num_iterations : 1;
  const double samples =
      recipe.train.epochs * static_cast<double>(data.order.samples_per_epoch()) * static_cast<double>(visits);
  // What rounding adds is no step.
  const double exact = samples / static_cast<double>(recipe.train.batch_size) * (1 - 1e-12);
  constexpr double kMostSteps = 1e12;
  if (exact > kMostSteps)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} passes over the data are {:.3g} steps", recipe.train.epochs, exact), "train.epochs",
                "Give fewer.");
  const auto steps = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(exact)));
  if (recipe.train.steps != 0 && recipe.train.steps != steps) {
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} passes over this data are {} steps of {} sequences, and train.steps is {}",
                            recipe.train.epochs, steps, recipe.train.batch_size, recipe.train.steps),
                "train.epochs", "Give train.epochs or train.steps, not both.");
  }
  recipe.train.steps = steps;
  recipe.schedule.total_steps = steps;
  const Schedule check(recipe.schedule);
}

std::vector<std::pair<std::string, double>> source_epochs(const TrainingData& data, uint64_t samples) {
  const std::vector<TokenDataset::Source>& sources = data.dataset.sources();
  if (sources.size() == 1) return {};
  const std::vector<uint64_t> counts = data.order.shares().counts(samples);
  std::vector<std::pair<std::string, double>> epochs;
  for (size_t i = 0; i < sources.size(); ++i) {
    epochs.emplace_back(sources[i].path.string(),
                        static_cast<double>(counts[i]) / static_cast<double>(data.order.samples_per_epoch(i)));
  }
  return epochs;
}

std::vector<std::string> describe_targets(const TrainingData& data) {
  if (!data.dataset.has_targets() || data.dataset.holds_prompts()) return {};
  std::vector<std::string> lines;
  for (const TokenDataset::Source& source : data.dataset.sources()) {
    const uint64_t targets = data.dataset.count_targets(source);
    lines.push_back(fmt::format("data: {:.2f} % of {}'s {} tokens are targets",
                                100 * static_cast<double>(targets) / static_cast<double>(source.token_count),
                                source.path.string(), source.token_count));
  }
  return lines;
}

std::vector<std::string> describe_pairs(const TrainingData& data) {
  std::vector<std::string> lines;
  for (const TokenDataset::Source& source : data.dataset.sources()) {
    const DocumentPairs* pairs = data.order.pairs(lines.size());
    if (pairs == nullptr) return {};
    lines.push_back(fmt::format("data: {} preference pairs of {}", pairs->count(), source.path.string()));
  }
  return lines;
}

std::vector<std::string> describe_prompts(const TrainingData& data, const Recipe& recipe) {
  std::vector<std::string> lines;
  for (const TokenDataset::Source& source : data.dataset.sources()) {
    const DocumentPrompts* prompts = data.order.prompts(lines.size());
    if (prompts == nullptr) return {};
    lines.push_back(fmt::format("data: {} prompts of {}, {} completions of each", prompts->count(),
                                source.path.string(), recipe.grpo.num_generations));
  }
  return lines;
}

std::vector<std::string> describe_packing(const TrainingData& data, const Recipe& recipe) {
  std::vector<std::string> lines;
  for (const TokenDataset::Source& source : data.dataset.sources()) {
    const DocumentPacking* packing = data.order.packing(lines.size());
    if (packing == nullptr) return {};
    lines.push_back(
        fmt::format("data: {} documents of {} in {} samples of {} tokens: {:.2f} % padding, {} documents cut",
                    packing->documents(), source.path.string(), packing->sample_count(), recipe.data.sequence_length,
                    100 * packing->padding(), packing->cut_documents()) +
        (packing->pieces_without_target() > 0
             ? fmt::format(", {} pieces without a target left out", packing->pieces_without_target())
             : ""));
  }
  return lines;
}

std::optional<std::string> warning_of_documents(const TrainingData& data) {
  const std::vector<TokenDataset::Source>& sources = data.dataset.sources();
  const auto other = std::ranges::find_if(
      sources, [&](const TokenDataset::Source& source) { return source.documents != sources.front().documents; });
  if (other == sources.end()) return std::nullopt;
  return fmt::format(
      "the documents of {0} and {1} were prepared differently: what stands around them, or how special tokens in them "
      "are read, is not the same (causeway data inspect shows it); text is generated as it suits {0}",
      sources.front().path.string(), other->path.string());
}

std::vector<std::string> describe_sources(const TrainingData& data, const Recipe& recipe) {
  const auto samples = static_cast<uint64_t>(recipe.train.steps) * static_cast<uint64_t>(recipe.train.batch_size);
  const std::vector<uint64_t> counts = data.order.shares().counts(samples);
  std::vector<std::string> lines;
  if (recipe.train.epochs > 0)
    lines.push_back(fmt::format("data: {} epochs of {} sequences are {} steps of {}", recipe.train.epochs,
                                data.order.samples_per_epoch(), recipe.train.steps, recipe.train.batch_size));
  size_t number = 0;
  for (const auto& [path, epochs] : source_epochs(data, samples)) {
    const TokenDataset::Source& source = data.dataset.sources()[number];
    lines.push_back(fmt::format("data: {:5.2f} % of {}, {} tokens: {:.2f} epochs in {} steps",
                                100 * static_cast<double>(counts[number++]) / static_cast<double>(samples), path,
                                source.token_count, epochs, recipe.train.steps));
  }
  return lines;
}

}  // namespace causeway::train
