#include "causeway/train/checkpoint/run_checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/formats/tokenizer/json_tokenizer.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/program/context.h"
#include "causeway/tensor/halves.h"
#include "causeway/train/grpo/rollout.h"
#include "causeway/train/initial_weights.h"
#include "causeway/train/ranks.h"

namespace causeway::train {
namespace {

NamedTensorSpec spec_of(const std::string& name, const Tensor& tensor) {
  std::vector<int64_t> shape;
  for (const int64_t size : evaluate(tensor.shape(), {})) shape.push_back(size);
  return {name, tensor.dtype(), shape};
}

size_t byte_size(const Tensor& tensor) { return static_cast<size_t>(tensor.local_bytes()); }

Box own_box(const Tensor& tensor) { return {tensor.local_start(), tensor.local_shape()}; }

// Of the ranks that hold the same part of a tensor the first one writes it: that of coordinate 0 along every axis that
// does not cut the tensor.
bool writes_its_part(const Tensor& tensor) {
  const Context& context = *tensor.context();
  for (size_t axis = 0; axis < context.mesh().axes.size(); ++axis) {
    // Stages hold different tensors.
    if (context.mesh().axes[axis].stages) continue;
    const std::string& name = context.mesh().axes[axis].name;
    const bool cuts = std::ranges::any_of(tensor.sharding().dims, [&](const std::vector<std::string>& axes) {
      return std::ranges::find(axes, name) != axes.end();
    });
    if (!cuts && context.mesh().coordinate(context.rank(), axis) != 0) return false;
  }
  return true;
}

void add_tensor(CheckpointWriter& writer, const std::string& name, const Tensor& tensor,
                const StateSnapshot* snapshot) {
  if (!writes_its_part(tensor)) return;
  if (snapshot == nullptr)
    return writer.add_part(
        spec_of(name, tensor), own_box(tensor),
        [tensor](uint64_t offset, std::span<std::byte> bytes) { tensor.read_bytes_from(offset, bytes); });
  const std::span<const std::byte> copied = snapshot->of(tensor);
  if (!tensor.lies_in_halves()) return writer.add_part(spec_of(name, tensor), own_box(tensor), copied);
  writer.add_part(spec_of(name, tensor), own_box(tensor),
                  [copied](uint64_t offset, std::span<std::byte> bytes) { join_halves(copied, offset, bytes); });
}

// What is frozen, or was trained in bf16, may be stored in a narrower type than it is to have.
void read_tensor(const CheckpointReader& checkpoint, const std::string& name, Tensor tensor) {
  const DType stored = checkpoint.tensor(name).dtype, held = tensor.dtype();
  std::vector<std::byte> bytes(byte_size(tensor) / size_bytes(held) * size_bytes(stored));
  checkpoint.read_box(name, own_box(tensor), bytes);
  if (stored != held) {
    std::vector<std::byte> converted(byte_size(tensor));
    for (size_t i = 0; i < converted.size() / size_bytes(held); ++i)
      write_element(held, converted.data(), i, read_element(stored, bytes.data(), i));
    bytes = std::move(converted);
  }
  tensor.write_bytes(bytes);
}

// Of adapters' base nothing is written.
bool is_saved(const LanguageModel& model, const Parameter& parameter) {
  return parameter.is_adapter || !model.adapter().is_used();
}

constexpr char kBase[] = "base", kReferenceWeights[] = "reference_weights";

// Other adapters, or those of another model, compute something else.
void require_same_adapters(const CheckpointReader& checkpoint, const RunParts& run) {
  const Recipe before = checkpoint_recipe(checkpoint);
  for (const RecipeDifference& difference : recipe_differences(before, run.recipe))
    if (difference.key.starts_with("lora.") && difference.key != "lora.dropout" && difference.key != "lora.from")
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("{} is {} in the checkpoint and {} in this run, whose adapters are others",
                              difference.key, difference.was, difference.is),
                  checkpoint.directory().string(), "Resume with the same value, or start a new run with another name.");
  if (!run.model.adapter().is_used() || checkpoint_base(checkpoint) == run.base) return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the checkpoint's adapters were trained on another base model ({}) than that of {} ({})",
                          checkpoint_base(checkpoint), run.recipe.model_from, run.base),
              checkpoint.directory().string(), "Give with model.from the model that they were trained on.");
}

// By the bits of their exponents, all of which infinities and NaN have.
template <class Bits>
bool elements_are_finite(const Tensor& tensor, Bits exponent) {
  const size_t all = byte_size(tensor);
  std::vector<Bits> elements((size_t{1} << 20) / sizeof(Bits));
  for (size_t offset = 0; offset < all; offset += elements.size() * sizeof(Bits)) {
    const auto part = std::span(elements).first(std::min(elements.size(), (all - offset) / sizeof(Bits)));
    tensor.read_bytes_from(offset, std::as_writable_bytes(part));
    if (std::ranges::any_of(part, [&](Bits bits) { return (bits & exponent) == exponent; })) return false;
  }
  return true;
}

bool is_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF32:
      return elements_are_finite<uint32_t>(tensor, 0x7f800000);
    case DType::kBF16:
      return elements_are_finite<uint16_t>(tensor, 0x7f80);
    default:
      return true;
  }
}

std::string data_text(const Recipe& recipe) {
  return recipe.data.mixture.empty() ? recipe.data.path : print_data_sources(recipe.data.mixture);
}

std::vector<double> weights_of(const Recipe& recipe) {
  std::vector<double> weights;
  for (const DataSource& source : recipe.data.sources()) weights.push_back(source.weight);
  return weights;
}

// What one optimizer keeps is of no use to another.
void require_same_optimizer(const CheckpointReader& checkpoint, const RunParts& run) {
  const std::string &was = checkpoint.state().optimizer, &is = run.recipe.optimizer.name;
  if (was != is)
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("optimizer.name is {} in the checkpoint and {} in this run, which has no use for the other "
                            "one's state",
                            was, is),
                checkpoint.directory().string(),
                fmt::format("Resume with optimizer.name={}, or begin a new run with the checkpoint's weights: causeway "
                            "export writes them for model.from.",
                            was));
  const OptimizerConfig before = checkpoint_recipe(checkpoint).optimizer;
  for (const Parameter& parameter : run.model.parameters()) {
    const bool was_frozen = before.is_frozen(parameter.name);
    if (parameter.is_adapter || was_frozen == run.recipe.optimizer.is_frozen(parameter.name)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("{} is {} in the checkpoint and {} in this run", parameter.name,
                            was_frozen ? "frozen" : "trained", was_frozen ? "trained" : "frozen"),
                checkpoint.directory().string(),
                "Resume with the same optimizer.groups, or begin a new run with the checkpoint's weights: causeway "
                "export writes them for model.from.");
  }
  // Keys that say what is kept, and in which types.
  const auto differ = [&](const OptimizerConfig& other) {
    const auto kept = [&](const Parameter& parameter, const OptimizerConfig& config) {
      std::vector<std::tuple<std::string, DType, Shape>> all;
      for (const OptimizerState& one : find_optimizer(is).state_of(parameter, config))
        all.emplace_back(one.name, one.dtype, one.shape(parameter));
      return all;
    };
    return std::ranges::any_of(run.model.parameters(), [&](const Parameter& parameter) {
      return parameter.is_trained && kept(parameter, other) != kept(parameter, run.recipe.optimizer);
    });
  };
  const auto refuse = [&](const std::string& key, const OptimizerValue& then, const OptimizerValue& now) {
    const auto text = [](const OptimizerValue& of) {
      return std::visit([](const auto& one) { return fmt::format("{}", one); }, of);
    };
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("optimizer.{} is {} in the checkpoint and {} in this run, which keeps something else of "
                            "the parameters",
                            key, text(then), text(now)),
                checkpoint.directory().string(),
                fmt::format("Resume with optimizer.{}={}, or begin a new run with the checkpoint's weights: causeway "
                            "export writes them for model.from.",
                            key, text(then)));
  };
  const HeldWeights held = run.recipe.optimizer.weights;
  if (before.weights != held) refuse("weights", std::string(name_of(before.weights)), std::string(name_of(held)));
  if (!differ(before)) return;
  const double now = run.recipe.optimizer.average_decay;
  if ((before.average_decay > 0) != (now > 0)) refuse("average_decay", before.average_decay, now);
  for (const auto& [key, value] : run.recipe.optimizer.own) {
    const auto then = before.own.find(key);
    if (then == before.own.end()) continue;
    OptimizerConfig with_one = run.recipe.optimizer;
    with_one.own[key] = then->second;
    if (with_one == run.recipe.optimizer || !differ(with_one)) continue;
    refuse(key, with_one.own[key], value);
  }
}

// The position in the data counts samples, whose text follows from the dataset, the seed and the sequence length.
void require_same_samples(const CheckpointReader& checkpoint, const RunParts& run) {
  const Recipe before = checkpoint_recipe(checkpoint);
  for (const auto& [key, was, is] :
       {std::tuple{"data.sequence_length", before.data.sequence_length, run.recipe.data.sequence_length},
        {"grpo.num_generations", before.grpo.num_generations, run.recipe.grpo.num_generations},
        {"train.seed", before.train.seed, run.recipe.train.seed}})
    if (was != is)
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("{} is {} in the checkpoint and {} in this run, which would go on with other text", key, was, is),
          checkpoint.directory().string(), "Resume with the same value, or start a new run with another name.");
  if (before.data.packing != run.recipe.data.packing)
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("data.packing is {} in the checkpoint and {} in this run, which would go on with other text",
                    before.data.packing, run.recipe.data.packing),
        checkpoint.directory().string(), "Resume with the same value, or start a new run with another name.");
  const std::string was = data_text(before), is = data_text(run.recipe);
  if (checkpoint.state().data.value("dataset", std::string()) != run.dataset.fingerprint())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the checkpoint was trained on another dataset ({} was {} and is {})",
                            before.data.mixture.empty() ? "data.path" : "data.sources", was, is),
                checkpoint.directory().string(),
                fmt::format("Give the same {}, or start a new run with another name.",
                            before.data.mixture.empty() ? "data.path" : "data.sources"));
  if (weights_of(before) != weights_of(run.recipe))
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("the checkpoint was trained on its sources by other weights (data.sources was {} and is {}); this "
                    "run would go on with other text",
                    was, is),
        checkpoint.directory().string(), "Give the same weights, or start a new run with another name.");
}

// What a model must be for the checkpoint's weights: what else its config.json said makes it no other.
nlohmann::json shape_of(const LanguageModel& model) { return to_hugging_face(model.config().without_other_entries()); }

}  // namespace

std::vector<Tensor> tensors_to_write(const RunParts& run) {
  std::vector<Tensor> tensors;
  const auto add = [&](const Tensor& tensor) {
    if (writes_its_part(tensor)) tensors.push_back(tensor);
  };
  auto kept = run.step.optimizer_state().begin();
  for (size_t i = 0; i < run.model.parameters().size(); ++i) {
    if (is_saved(run.model, run.model.parameters()[i])) add(run.model.parameters()[i].tensor);
    for (; kept != run.step.optimizer_state().end() && kept->parameter == i; ++kept) add(kept->tensor);
  }
  return tensors;
}

CheckpointWriter checkpoint_of_run(const RunParts& run, const RunPosition& position, const CheckpointOptions& options,
                                   const Ranks& ranks, const StateSnapshot* snapshot) {
  CheckpointState state;
  state.step = position.step;
  state.model = shape_of(run.model);
  state.optimizer = run.recipe.optimizer.name;
  if (run.dataset.tokenizer_identity()) state.tokenizer_fingerprint = run.dataset.tokenizer_identity()->fingerprint;
  state.rng_seed = static_cast<uint64_t>(run.recipe.train.seed);
  state.rng_step = static_cast<uint64_t>(position.step);
  state.data = {{"samples_consumed", position.data_cursor},
                {"tokens_consumed", position.tokens},
                {"dataset", run.dataset.fingerprint()}};
  if (run.dataset.tokenizer_identity())
    state.data["before_documents"] = run.dataset.documents().value_or(DocumentTokens()).before;
  state.schedule = {{"kind", name_of(run.recipe.schedule.kind)}, {"step", position.step}};
  state.trainer = {{"skipped_steps", position.skipped_steps},
                   {"recipe", recipe_text(with_absolute_base(run.recipe))},
                   {"device", run.step.context().device().name()}};
  if (run.model.adapter().is_used()) state.trainer[kBase] = run.base;
  if (!run.reference_weights.empty()) state.trainer[kReferenceWeights] = run.reference_weights;
  CheckpointWriter writer(run.recipe.run_directory, state, options, &ranks);
  writer.attach("config.json", to_hugging_face(run.model.config()).dump(2) + "\n");
  if (position.rollouts != nullptr) writer.attach(kRolloutFile, print_rollout_state(*position.rollouts));
  if (run.tokenizer != nullptr)
    for (auto& [name, content] : run.tokenizer->files()) writer.attach(name, std::move(content));
  for (const Parameter& parameter : run.model.parameters())
    if (!parameter.is_copy && is_saved(run.model, parameter))
      add_tensor(writer, parameter.name, parameter.tensor, snapshot);
  for (const TrainingStep::StateTensor& tensor : run.step.optimizer_state())
    if (!tensor.is_copy) add_tensor(writer, tensor.name, tensor.tensor, snapshot);
  return writer;
}

std::filesystem::path save_run(const RunParts& run, const RunPosition& position, const CheckpointOptions& options) {
  const Ranks ranks(run.step.context());
  return checkpoint_of_run(run, position, options, ranks).commit();
}

int64_t checkpoint_bytes(const Recipe& recipe) {
  const auto device = std::make_shared<OfflineDevice>(Target());
  const ContextScope scope(std::make_shared<Context>(device));
  int64_t bytes = 0;
  const auto model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), new_weights(recipe));
  for (const Parameter& parameter : model->parameters()) {
    if (is_saved(*model, parameter)) bytes += parameter.tensor.local_bytes();
    if (parameter.is_trained) bytes += find_optimizer(recipe.optimizer.name).state_bytes(parameter, recipe.optimizer);
  }
  return bytes;
}

bool run_state_is_finite(const RunParts& run) {
  const bool here =
      std::ranges::all_of(run.model.parameters(), [](const Parameter& p) { return is_finite(p.tensor); }) &&
      std::ranges::all_of(run.step.optimizer_state(),
                          [](const TrainingStep::StateTensor& s) { return is_finite(s.tensor); });
  return Ranks(run.step.context()).all_of(here);
}

RunPosition restore_run(const CheckpointReader& checkpoint, const RunParts& run) {
  checkpoint.require_model(shape_of(run.model));
  require_same_optimizer(checkpoint, run);
  require_same_adapters(checkpoint, run);
  std::vector<NamedTensorSpec> specs;
  for (const Parameter& parameter : run.model.parameters())
    if (is_saved(run.model, parameter)) specs.push_back(spec_of(parameter.name, parameter.tensor));
  for (const TrainingStep::StateTensor& tensor : run.step.optimizer_state())
    specs.push_back(spec_of(tensor.name, tensor.tensor));
  checkpoint.require_tensors(specs, run.model.part().is_whole());
  require_same_samples(checkpoint, run);
  const CheckpointState& state = checkpoint.state();
  RunPosition position;
  position.step = state.step;
  position.data_cursor = state.data.value("samples_consumed", uint64_t{0});
  // Checkpoints of runs without padding do not all have it.
  position.tokens =
      state.data.value("tokens_consumed", static_cast<int64_t>(position.data_cursor) * run.recipe.data.sequence_length);
  position.skipped_steps = state.trainer.value("skipped_steps", int64_t{0});
  const std::filesystem::path rollouts = checkpoint.directory() / kRolloutFile;
  if (std::error_code code; run.recipe.grpo.is_used() && std::filesystem::exists(rollouts, code))
    position.rollouts =
        std::make_shared<RolloutState>(parse_rollout_state(read_text_file(rollouts), rollouts.string()));
  for (const Parameter& parameter : run.model.parameters())
    if (is_saved(run.model, parameter)) read_tensor(checkpoint, parameter.name, parameter.tensor);
  for (const TrainingStep::StateTensor& tensor : run.step.optimizer_state())
    read_tensor(checkpoint, tensor.name, tensor.tensor);
  return position;
}

Recipe with_absolute_base(const Recipe& recipe) {
  if (!recipe.adapter.is_used() || recipe.model_from.empty()) return recipe;
  std::error_code code;  // where the working directory is gone: as it was typed
  const std::filesystem::path base = std::filesystem::absolute(recipe.model_from, code);
  Recipe absolute = recipe;
  if (!code) absolute.model_from = base.lexically_normal().string();
  return absolute;
}

Recipe checkpoint_recipe(const CheckpointReader& checkpoint) {
  return parse_saved_recipe(checkpoint.state().trainer.value("recipe", std::string()), "recipe of the checkpoint");
}

void restore_weights(const CheckpointReader& checkpoint, LanguageModel& model) {
  checkpoint.require_model(shape_of(model));
  for (const Parameter& parameter : model.parameters())
    if (is_saved(model, parameter)) read_tensor(checkpoint, parameter.name, parameter.tensor);
}

std::string checkpoint_base(const CheckpointReader& checkpoint) {
  return checkpoint.state().trainer.value(kBase, std::string());
}

std::string checkpoint_reference(const CheckpointReader& checkpoint) {
  return checkpoint.state().trainer.value(kReferenceWeights, std::string());
}

std::unique_ptr<LanguageModel> load_checkpoint_model(const CheckpointReader& checkpoint, std::optional<DType> type) {
  const Recipe recipe = checkpoint_recipe(checkpoint);
  NewWeights weights = new_weights(recipe);
  weights.storage = WeightStorage::kElements;
  if (type) weights.frozen_type = weights.trained_type = *type;
  std::unique_ptr<LanguageModel> model = LanguageModel::create(recipe.model, ModelPart(recipe.model.layers), weights);
  if (recipe.adapter.is_used()) load_base_weights(recipe, checkpoint_base(checkpoint), *model);
  restore_weights(checkpoint, *model);
  return model;
}

std::unique_ptr<Tokenizer> checkpoint_tokenizer(const CheckpointReader& checkpoint) {
  const std::string& fingerprint = checkpoint.state().tokenizer_fingerprint;
  if (auto bytes = std::make_unique<ByteTokenizer>(); bytes->fingerprint() == fingerprint) return bytes;
  const bool has_files = std::ranges::any_of(checkpoint.manifest().attached, [](const AttachedFile& file) {
    return file.name == kTokenizerJsonName || file.name == "vocab.json";
  });
  if (!has_files)
    throw Error(
        ErrorKind::kNotFound, "the checkpoint holds no tokenizer, for the data it was trained on carried none",
        checkpoint.directory().string(),
        "Give the tokenizer with --tokenizer: bytes, or the directory of a tokenizer.json or a GPT-2 vocabulary.");
  return load_tokenizer(checkpoint.directory().string());
}

}  // namespace causeway::train
