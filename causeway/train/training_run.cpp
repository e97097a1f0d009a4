#include "causeway/train/training_run.h"

#include <algorithm>
#include <utility>

#include "causeway/base/byte_size.h"
#include "causeway/base/console.h"
#include "causeway/base/enclosed_path.h"
#include "causeway/base/error.h"
#include "causeway/base/file.h"
#include "causeway/base/log.h"
#include "causeway/program/context.h"
#include "causeway/train/checkpoint/shared_run_directory.h"
#include "causeway/train/grpo/sampling_memory.h"
#include "causeway/train/initial_weights.h"
#include "causeway/train/model_tokenizer.h"
#include "causeway/train/step/trained_stages.h"
#include "causeway/train/step/training_step.h"
#include "causeway/train/stored_adapter.h"

namespace causeway::train {
namespace {

// Ranks that run different things would wait for each other for ever. The device is each one's own affair.
void require_same_run(const Ranks& ranks, const Recipe& recipe, const std::string& version) {
  ranks.require_equal(version, "another version of the program", "Install the same one on every machine.");
  std::string keys;
  for (const RecipeValue& key : recipe_values(recipe))
    if (key.key != "device" && key.key != "device_architecture") keys += fmt::format("{}: {}\n", key.key, key.value);
  ranks.require_equal(keys, "another recipe", "Give every process the same recipe and the same key=value arguments.");
}

// Adapters of random weights would be of no use without them.
void require_base(const Recipe& recipe) {
  if (recipe.adapter.is_used() && recipe.model_from.empty())
    throw Error(ErrorKind::kInvalidArgument, "trains adapters of a model, and no model is named", "lora.rank",
                "Name its directory with model.from.");
}

// That the run began with, as its newest checkpoint that can be read says; empty where none does.
std::string reference_weights_of_run(const Ranks& ranks, const std::vector<CheckpointEntry>& candidates) {
  std::string weights;
  ranks.on_first([&] {
    for (const CheckpointEntry& entry : candidates) {
      try {
        weights = checkpoint_reference(CheckpointReader(entry.directory));
        return;
      } catch (const Error&) {
        // Resuming says what is damaged.
      }
    }
  });
  return ranks.of_first(weights);
}

// The key by which a recipe compares the model with the one that the run begins with, for messages.
std::string comparing_key(const Recipe& recipe) {
  return recipe.grpo.has_reference() ? fmt::format("grpo.beta={}", recipe.grpo.beta)
                                     : fmt::format("preference.loss={}", name_of(recipe.preference.loss));
}

// A run that goes on needs it where no file of its reference is there.
void require_reference_model(const Recipe& recipe) {
  std::error_code code;
  if (std::filesystem::is_directory(recipe.model_from, code)) {
    if (recipe.adapter_from.empty() || holds_adapter(recipe.adapter_from)) return;
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} compares the model with the one that the run begins with, and there are no adapters in "
                            "{}",
                            comparing_key(recipe), recipe.adapter_from),
                "lora.from", "Put the adapters back where they were.");
  }
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("{} compares the model with the one that the run begins with, and {}", comparing_key(recipe),
                          recipe.model_from.empty() ? "none is named"
                                                    : fmt::format("there is no directory {}", recipe.model_from)),
              "model.from", "Name the directory of the model to begin with, which was trained on such completions.");
}

// `began_with`: the identity of the weights that a run which goes on began with; empty: the run is new, or it is not
// known.
void require_reference_weights(const Recipe& recipe, const std::string& began_with, const std::string& found) {
  if (began_with.empty() || began_with == found) return;
  const bool has_adapters = !recipe.adapter_from.empty();
  throw Error(
      ErrorKind::kInvalidArgument,
      fmt::format("{} compares the model with the weights that the run began with ({}), and {}{} {} others ({})",
                  comparing_key(recipe), began_with, recipe.model_from,
                  has_adapters ? " with " + recipe.adapter_from : "", has_adapters ? "are" : "holds", found),
      has_adapters ? "model.from, lora.from" : "model.from",
      recipe.grpo.has_reference()
          ? std::string("Name the weights that the run began with.")
          : fmt::format("Name the weights that the run began with, or put {} back, which the run directory held.",
                        kReferenceFile));
}

uint64_t count_documents(const TokenDataset& dataset) {
  uint64_t count = 0;
  for (const TokenDataset::Source& source : dataset.sources())
    dataset.visit_documents(source, [&](uint64_t, uint64_t) { ++count; });
  return count;
}

// How many steps epochs are is counted with one size of batches.
void require_batches_of_epochs(const Recipe& recipe, const Recipe& checkpoint) {
  const int64_t before = checkpoint.train.batch_size, now = recipe.train.batch_size;
  if (recipe.train.epochs == 0 || before == now) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("is {} in the checkpoint and {} in this run, and how many steps train.epochs comes to is "
                          "counted with batches of one size",
                          before, now),
              "train.batch_size", "Say with train.steps after which step the run ends.");
}

std::string ways_to_save(const TrainingStep& step, const Recipe& recipe) {
  const MemoryChoice choice = step.memory_choice();
  std::string ways = "Lower train.micro_batch_size or data.sequence_length";
  std::vector<std::string> keys;
  const auto may_help = [](bool is_done, Offload key) { return !is_done && key != Offload::kAuto; };
  if (recipe.train.recompute && choice.recompute != Recomputation{RecomputePolicy::kBlock})
    keys.emplace_back("train.recompute");
  const bool may_move = step.context().device().target().has_own_memory() && recipe.mesh.pp == 1;
  if (may_move && may_help(choice.offloads_optimizer, recipe.offload.optimizer) &&
      !find_optimizer(recipe.optimizer.name).has_gradient_point(recipe.optimizer))
    keys.emplace_back("offload.optimizer");
  if (may_move && may_help(choice.offloads_activations, recipe.offload.activations))
    keys.emplace_back("offload.activations");
  if (keys.empty()) return ways + ".";
  return fmt::format("{}, or set {} to auto.", ways, fmt::join(keys, ", "));
}

// Compiles the step.
void require_memory_for_step(TrainingStep& step, const Recipe& recipe, const SamplingMemory& beside) {
  const StepCost cost = step.cost();
  const Device& device = step.context().device();
  const int64_t needed = std::max(cost.total_bytes(), cost.reserved_bytes) + beside.total();
  if (device.memory_limit() == 0 || needed <= device.memory_limit()) return;
  std::string largest;
  for (const ProgramMemory::Item& item : step.main_step().prepare(step.main_arguments()).memory().largest)
    largest += fmt::format("\n  {:>10}  {}", format_bytes(item.bytes), item.name);
  const std::string ways = ways_to_save(step, recipe);
  throw Error(ErrorKind::kResource,
              fmt::format("a step needs {} ({} weights, {} optimizer, {} activations and workspace){}, and {}; "
                          "the largest activations are{}",
                          format_bytes(cost.total_bytes()), format_bytes(cost.parameter_bytes),
                          format_bytes(cost.optimizer_bytes),
                          format_bytes(cost.total_bytes() - cost.parameter_bytes - cost.optimizer_bytes),
                          beside.total() == 0 ? "" : fmt::format(", sampling {}", sampling_memory_text(beside)),
                          has_memory_text(device), largest),
              recipe.name, beside.cache == 0 ? ways : "Lower grpo.sampling_batch_size. " + ways);
}

}  // namespace

TrainingRun::TrainingRun(const Recipe& recipe, const TrainOptions& options, StartTimes& start)
    : ranks_(*Context::current()), recipe_(recipe), speaks_(ranks_.is_first() && !options.quiet) {
  require_same_run(ranks_, recipe_, options.version);
  open_data();
  load_tokenizer();
  ranks_.on_first([&] { own_directory(); });
  const std::filesystem::path directory = recipe_.run_directory;
  require_shared_run_directory(ranks_, directory);
  const std::vector<CheckpointEntry> candidates = resume_candidates_of_first(ranks_, directory, options.resume);
  start.end_of("data");
  make_model(candidates);
  start.end_of("weights");
  ranks_.enter(0, "resume");
  resumed_ = resume_run(candidates, *parts_);
  start.end_of("resume");
  if (resumed_) ranks_.together([&] { require_batches_of_epochs(recipe_, resumed_->recipe); });
  // Not earlier: a recipe that the run's checkpoint refuses must not replace the run's own.
  ranks_.on_first([&] {
    write_file_atomically(directory / "recipe.yaml",
                          device_comment(recipe_, step_->context().device()) + recipe_text(recipe_));
  });
}

void TrainingRun::open_data() {
  ranks_.together([&] {
    require_base(recipe_);
    data_.emplace(open_training_data(recipe_));
    resolve_steps(recipe_, *data_);
    recipe_.data.weighs_targets = data_->dataset.has_target_weights();
  });
  schedule_.emplace(recipe_.schedule);
  ranks_.require_equal(data_->dataset.fingerprint(), "other data",
                       "Give every machine the same files; see whether each one can read all of them.");
}

void TrainingRun::load_tokenizer() {
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

void TrainingRun::own_directory() {
  const std::filesystem::path directory = recipe_.run_directory;
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code)
    throw Error(ErrorKind::kIo, fmt::format("cannot create the run directory: {}", code.message()), directory.string(),
                "Give another run_directory.");
  // Now, not where a log would be missing or the first checkpoint could not be saved.
  for (const char* written :
       {kRunLockName, "checkpoints", "metrics.jsonl", "tensorboard", "trace.json", kReferenceFile})
    require_enclosed(directory, written);
  lock_.emplace(directory);
}

// A run that goes on has the weights of its checkpoint, in which those of adapters alone are. Its reference is of the
// weights that it began with, whatever model.from holds now.
void TrainingRun::make_model(const std::vector<CheckpointEntry>& candidates) {
  const bool resumes = !candidates.empty(), has_reference = recipe_.preference.has_reference();
  const bool holds_reference = holds_reference_model(recipe_);
  std::string of_recipe_and_data, began_with, reference_weights;
  if (has_reference) {
    ranks_.together([&] {
      of_recipe_and_data = identity_of_recipe_and_data(recipe_, *data_);
      if (!resumes) began_with = identity_of_weights(recipe_);
    });
    if (resumes) began_with = reference_weights_of_run(ranks_, candidates);
    reference_ = read_reference(ranks_, recipe_, of_recipe_and_data, began_with, *data_);
  }
  if (holds_reference && resumes) began_with = reference_weights_of_run(ranks_, candidates);
  if (holds_reference) reference_weights = load_reference_model(began_with);
  const bool computes_reference = has_reference && !reference_;
  if (computes_reference) {
    ranks_.together([&] {
      require_reference_model(recipe_);
      require_reference_weights(recipe_, began_with, identity_of_weights(recipe_));
    });
  }
  const bool begins_with_weights = !recipe_.model_from.empty() && !resumes;
  ranks_.together([&] {
    require_memory_for_weights(Context::current()->device(), recipe_);
    std::optional<uint64_t> seed;
    if (!begins_with_weights && !resumes && !computes_reference) seed = static_cast<uint64_t>(recipe_.train.seed);
    model_ = LanguageModel::create(recipe_.model, own_part(recipe_), new_weights(recipe_, seed));
    require_targets(*model_);
    require_trained_first_piece(recipe_);
  });
  if (begins_with_weights)
    ranks_.together([&] { tokenizer_note_ = compare_with_tokenizer_of_model(recipe_, data_->dataset); });
  std::string base;
  if (begins_with_weights || computes_reference || recipe_.adapter.is_used())
    base = load_initial_weights(ranks_, recipe_, *model_);
  if (recipe_.adapter.is_used() && (!resumes || computes_reference)) load_initial_adapters(ranks_, recipe_, *model_);
  if (computes_reference) compute_reference(of_recipe_and_data);
  const bool has_validation = reference_ && reference_->validation;
  ranks_.together([&] { step_ = std::make_unique<TrainingStep>(*model_, recipe_); });
  parts_.emplace(RunParts{recipe_, data_->dataset, tokenizer_.get(), *model_, *step_,
                          has_validation ? &*reference_->validation : nullptr, base,
                          reference_ ? reference_->weights : reference_weights});
}

// A second model, which nothing changes.
std::string TrainingRun::load_reference_model(const std::string& began_with) {
  std::string weights;
  ranks_.together([&] {
    require_reference_model(recipe_);
    weights = identity_of_weights(recipe_);
    require_reference_weights(recipe_, began_with, weights);
    reference_model_ = LanguageModel::create(recipe_.model, own_part(recipe_), new_reference_weights(recipe_));
  });
  load_initial_weights(ranks_, recipe_, *reference_model_);
  return weights;
}

// By the weights that the run begins with, or began with: a run that goes on reads its own afterwards.
void TrainingRun::compute_reference(const std::string& of_recipe_and_data) {
  ranks_.enter(0, "reference");
  if (speaks_)
    notice("reference: log-probabilities of {} completions by the weights of {}\n",
           data_->order.samples_per_epoch() + (data_->validation ? count_documents(*data_->validation) : 0),
           recipe_.model_from);
  reference_.emplace(train::compute_reference(*model_, recipe_, *data_));
  ranks_.together([&] { reference_->weights = identity_of_weights(recipe_); });
  Context::current()->release_memory();
  ranks_.on_first([&] { write_reference(recipe_, of_recipe_and_data, *reference_); });
}

void TrainingRun::compile() {
  ranks_.enter(0, "compile");
  std::string program;
  const SamplingMemory beside = sampling_memory(recipe_, step_->context().device().target());
  step_->fit_memory(ranks_, beside.total());
  ranks_.together([&] {
    require_memory_for_step(*step_, recipe_, beside);
    if (ranks_.count() > 1) program = step_->program_hash();
  });
  step_->meet_other_stages(ranks_);
  ranks_.require_equal_in_stage(program, "another program or other collectives",
                                "Kernels are made for the processor or GPU at hand: give a run machines of one kind.");
}

std::string device_comment(const Recipe& recipe, const Device& device) {
  std::string text;
  if (recipe.device == "auto") text = fmt::format("# device: auto chose {}\n", device.name());
  if (device.target().takes_architecture() && recipe.device_architecture.empty())
    text += fmt::format("# device_architecture: kernels are compiled for {}\n", device.target().processor);
  return text;
}

}  // namespace causeway::train
