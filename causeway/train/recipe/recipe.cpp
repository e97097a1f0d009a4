#include "causeway/train/recipe/recipe.h"

#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/base/file.h"
#include "causeway/base/printable.h"
#include "causeway/base/yaml_document.h"
#include "causeway/data/token_dataset.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/model/family.h"
#include "causeway/model/hugging_face.h"
#include "causeway/optimizer/kept_moment.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/passes/recompute.h"
#include "causeway/train/checkpoint/checkpoint.h"
#include "causeway/train/checkpoint/checkpoint_path.h"
#include "causeway/train/recipe/mesh_checks.h"
#include "causeway/train/recipe/optimizer_fields.h"
#include "causeway/train/recipe/parameter_groups.h"
#include "causeway/train/recipe/recipe_field.h"
#include "causeway/train/stored_adapter.h"

namespace causeway::train {
namespace {

[[noreturn]] void refuse_key(const std::string& where, const std::string& key, const std::string& what,
                             const std::string& hint = {}) {
  throw Error(ErrorKind::kInvalidArgument, what, where.empty() ? key : where + ": " + key, hint);
}

constexpr std::string_view kAuto = "auto";

Field recompute_choice(std::optional<RecomputePolicy>& value) {
  std::vector<std::string> names;
  for (const auto policy : {RecomputePolicy::kNone, RecomputePolicy::kSelective, RecomputePolicy::kBlock})
    names.emplace_back(recompute_policy_name(policy));
  names.emplace_back(kAuto);
  return choice(
      "train.recompute",
      "none, selective, block or auto: activations computed again; auto: as much as the device's memory asks for",
      names, NameOf::kRecompute,
      [&value](const std::string& text) {
        const std::optional<RecomputePolicy> policy = parse_recompute_policy(text);
        if (!policy && text != kAuto) return false;
        value = policy;
        return true;
      },
      [&value] { return recompute_choice_name(value); });
}

Field family_name(std::string& name) {
  const std::vector<std::string> names = model_family_names();
  return {"model.family",
          list_names(names, "or"),
          "the name of a family",
          [&name](const std::string& text) {
            name = model_family(text).name;
            return true;
          },
          [&name] { return name; },
          names};
}

constexpr char kDataSources[] = "data.sources";
constexpr char kTargets[] = "lora.targets", kBase[] = "lora.base", kAdapterFrom[] = "lora.from";

Field source_list(std::vector<DataSource>& sources) {
  return {kDataSources, "several datasets instead of data.path: [{path: DATASET, weight: NUMBER}, ...]",
          "a list of sources",
          [&sources](const std::string& text) {
            sources = parse_data_sources(text);
            return true;
          },
          [&sources] { return print_data_sources(sources); }};
}

// A key that some families add. Its value stands in the configuration of every family until that is resolved.
Field family_field(const SharedModelKey& entry, ModelConfig& config) {
  ModelValue& stored = config.own.try_emplace(entry.key.name, entry.key.default_value).first->second;
  return std::visit(
      [&](auto& value) {
        return field("model." + entry.key.name, value,
                     fmt::format("{} ({})", entry.key.meaning, fmt::join(entry.families, ", ")));
      },
      stored);
}

std::vector<Field> adapter_fields(Recipe& r) {
  return {
      field("lora.rank", r.adapter.rank, "rank of the adapters, which alone are trained; 0: there are none"),
      field("lora.alpha", r.adapter.alpha,
            "what adapters add is multiplied by this over the rank (rslora: over its root); 0: twice the rank"),
      field(kTargets, r.adapter.targets,
            "matrices that have an adapter, by the ends of their names or with * and ?, between commas; all-linear: "
            "all of the layers"),
      field("lora.dropout", r.adapter.dropout, "probability of dropping a value that an adapter is given"),
      choice("lora.kind", r.adapter.kind, "lora, rslora or dora"),
      choice(kBase, r.adapter.base,
             "how the matrices of the layers lie, which stay as they are: unquantized, f8 or nf4 (QLoRA)"),
      field(kAdapterFrom, r.adapter_from,
            "a directory of PEFT's, or a run or checkpoint that trained adapters: it says what the adapters are, its "
            "weights are the first ones")};
}

// As long as there are keys: each has its line.
std::vector<Field> fields(Recipe& r) {
  std::vector<Field> all = {
      field("name", r.name, "the run's name"),
      field("run_directory", r.run_directory, "where checkpoints and logs go; empty: runs/NAME"),
      field("device", r.device, "auto, cpu, cpu:LEVEL, cuda, cuda:N, hip, hip:N or emulator:ARCHITECTURE"),
      field("device_architecture", r.device_architecture,
            "what kernels are compiled for, where not for the best that the device has: sm_80 on newer NVIDIA GPUs"),
      bytes_field("device_memory_limit", r.device_memory_limit,
                  "bytes that the run takes of a device's memory at most, as in 16GiB; 0: as many as there are"),
      field("model.from", r.model_from,
            "a Hugging Face directory, a checkpoint, or a run, whose newest checkpoint is meant: it says what the "
            "model is, its weights are the first ones; empty: random weights"),
      family_name(r.model.family),
      field("model.vocabulary_size", r.model.vocabulary_size,
            "tokens the model knows; left out: those of the dataset's tokenizer, where it says them"),
      field("model.layers", r.model.layers, "transformer blocks"),
      field("model.width", r.model.width, "size of the residual stream"),
      field("model.heads", r.model.heads, "query heads"),
      field("model.kv_heads", r.model.kv_heads, "key and value heads; 0: as many as heads"),
      field("model.head_dim", r.model.head_dim, "size of a head; 0: width / heads"),
      field("model.ffn_width", r.model.ffn_width, "inner size of the feed-forward layer; 0: the family's usual one"),
      field("model.max_sequence_length", r.model.max_sequence_length, "longest sequence; gpt2's position table"),
      field("model.norm_epsilon", r.model.norm_epsilon, "added to the variance in norms"),
  };
  for (const SharedModelKey& entry : shared_model_keys()) all.push_back(family_field(entry, r.model));
  std::vector<Field> rest = {
      field("model.tie_embeddings", r.model.tie_embeddings, "output layer shares the embedding"),
      field("model.dropout", r.model.dropout, "probability of dropping an activation in training"),
      field("model.initializer_range", r.model.initializer_range, "standard deviation of initial weights"),
      field("model.other_entries", r.model.other_entries,
            "what else the config.json of model.from says, as JSON: it changes nothing here, and is exported"),
      field("data.path", r.data.path,
            "a prepared dataset directory, one of MDS with token ids, or a .bin of llm.c, nanoGPT or Megatron"),
      source_list(r.data.mixture),
      field("data.token_bytes", r.data.token_bytes,
            "bytes of an id in a .bin without a header, or in a column of bytes of MDS: 1, 2, 4 or 8; 0: the file must "
            "show it"),
      field("data.column", r.data.column, "the column of token ids of MDS"),
      choice("data.on_damaged_shard", r.data.on_damaged_shard,
             "stop, or skip a shard of MDS that is missing or damaged"),
      field("data.check_hashes", r.data.check_hashes, "read all data before the first step and check its hashes"),
      field("data.allow_other_tokenizer", r.data.allow_other_tokenizer,
            "train the model of model.from on tokens of another tokenizer than its own"),
      field("data.sequence_length", r.data.sequence_length, "tokens of one training sequence"),
      choice("data.packing", r.data.packing,
             "windows: the text cut every sequence_length tokens; documents: whole documents, and padding"),
      field("data.document_mask", r.data.document_mask,
            "attention stays within documents, as it always does with data.packing=documents"),
  };
  all.insert(all.end(), rest.begin(), rest.end());
  rest = adapter_fields(r);
  all.insert(all.end(), rest.begin(), rest.end());
  rest = {
      choice("preference.loss", r.preference.loss,
             "dpo, ipo, simpo, orpo or reward (a reward model): of preference pairs, which the data must be; none: of "
             "the tokens of text"),
      field("preference.beta", r.preference.beta, "how strongly the loss of pairs tells their sides apart"),
      field("preference.label_smoothing", r.preference.label_smoothing,
            "the probability that a pair stands the wrong way round (dpo)"),
      field("preference.margin", r.preference.margin, "by how much the chosen side is to be ahead (simpo)"),
      field("preference.center_rewards_coefficient", r.preference.center_rewards_coefficient,
            "what is added of the square of the sum of both sides' scores, which draws them around 0 (reward)")};
  all.insert(all.end(), rest.begin(), rest.end());
  rest = grpo_fields(r.grpo);
  all.insert(all.end(), rest.begin(), rest.end());
  rest = moe_fields(r.moe);
  all.insert(all.end(), rest.begin(), rest.end());
  rest = optimizer_fields(r.optimizer);
  all.insert(all.end(), rest.begin(), rest.end());
  rest = {
      choice("schedule.kind", r.schedule.kind, "constant, linear, cosine or wsd", NameOf::kSchedule),
      field("schedule.warmup_steps", r.schedule.warmup_steps, "steps of linear warm-up"),
      field("schedule.decay_steps", r.schedule.decay_steps, "steps of the final decay (wsd)"),
      field("schedule.final_factor", r.schedule.final_factor,
            "fraction of the peak that the learning rate falls to; a step after the last one would have it"),
      field("train.steps", r.train.steps, "optimizer steps"),
      field("train.epochs", r.train.epochs, "passes over the training data, instead of train.steps; 0: train.steps"),
      field("train.batch_size", r.train.batch_size, "sequences of one optimizer step"),
      field("train.micro_batch_size", r.train.micro_batch_size, "sequences of one forward and backward; 0: batch_size"),
      field("train.seed", r.train.seed, "seed of weights, sample order and dropout"),
      choice("train.precision", r.train.precision,
             "bf16, fp8, fp8_block, tf32 or f32: of GEMMs; weights lie as optimizer.weights says", NameOf::kPrecision),
      choice("train.gradients", r.train.gradients,
             "auto or f32: auto rounds matrices' gradients to bf16 with bf16 and 8-bit GEMMs and one micro-batch"),
      field("train.z_loss", r.train.z_loss,
            "times the mean of log(Z)^2 over the targets is minimized beside the loss, Z the sum of a token's "
            "exponentiated logits; 0: nothing"),
      recompute_choice(r.train.recompute),
      field("train.recompute_layers", r.train.recompute_layers,
            "so many layers, the first ones; the others with block selectively, with selective nothing; 0: all"),
      choice("train.on_non_finite", r.train.on_non_finite, "stop or skip a step whose loss or gradient is not finite"),
      field(
          "train.check_replicas", r.train.check_replicas,
          "steps after which ranks compare the weights and the optimizer's state that several of them hold; 0: never"),
      choice("train.pipeline_schedule", r.train.pipeline_schedule,
             "1f1b, interleaved or zero_bubble: how the stages of mesh.pp work through micro-batches",
             NameOf::kPipelineSchedule),
      field("train.pipeline_chunks", r.train.pipeline_chunks,
            "runs of layers on each stage of mesh.pp; several with interleaved"),
      field("train.mesh_independent", r.train.mesh_independent,
            "the same bits on every mesh, and more memory, communication and time: sums are not cut over ranks"),
      field("mesh.dp", r.mesh.dp,
            "ranks that share the batch, the weights and the optimizer's state; gathered weights are kept"),
      field("mesh.fsdp", r.mesh.fsdp,
            "ranks that share the batch, the weights and the optimizer's state; weights are gathered again"),
      field("mesh.cp", r.mesh.cp, "ranks that share each sequence, weights and the optimizer's state"),
      field("mesh.tp", r.mesh.tp, "ranks that share heads, the feed-forward layer and the vocabulary"),
      field("mesh.pp", r.mesh.pp, "ranks that share the layers: stages of a pipeline"),
  };
  all.insert(all.end(), rest.begin(), rest.end());
  rest = offload_fields(r.offload);
  all.insert(all.end(), rest.begin(), rest.end());
  rest = {
      field("evaluation.interval", r.evaluation.interval, "steps between evaluations; 0: only at the end"),
      field("evaluation.sequences", r.evaluation.sequences, "held-out sequences of one evaluation, at most"),
      field("sampling.interval", r.sampling.interval, "steps between samples; 0: never during training"),
      field("sampling.prompt", r.sampling.prompt, "how a sample begins"),
      field("sampling.tokens", r.sampling.tokens, "tokens of a sample"),
      field("sampling.temperature", r.sampling.temperature, "0: always the most likely token"),
      field("sampling.top_k", r.sampling.top_k, "draw among this many likeliest tokens; 0: all"),
      field("checkpoint.interval", r.checkpoint.interval, "steps between checkpoints; 0: by time alone"),
      field("checkpoint.interval_minutes", r.checkpoint.interval_minutes,
            "minutes after the last checkpoint at which the next is due; 0: by steps alone"),
      field("checkpoint.keep", r.checkpoint.keep, "checkpoints kept"),
      field("checkpoint.asynchronous", r.checkpoint.asynchronous,
            "write them while training goes on, from a copy of the state in the host's memory"),
      field("log.interval", r.log.interval, "steps between metric records"),
      field("log.tensorboard", r.log.tensorboard, "write TensorBoard event files"),
      field("log.each_rank", r.log.each_rank, "metric records have the times of every rank"),
      field("log.measure_interval", r.log.measure_interval,
            "steps between those in which ranks on GPUs measure kernels and collectives; 0: never"),
      field("log.trace_from", r.log.trace_from, "the first step that is traced into trace.json; 0: none"),
      field("log.trace_steps", r.log.trace_steps, "how many steps are traced"),
  };
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

constexpr char kModelSection[] = "model.";

std::vector<std::string> aliases_of(const std::string& key) {
  std::vector<std::string> aliases;
  for (const ConfigJsonName& entry : config_json_names())
    if (key == fmt::format("{}{}", kModelSection, entry.key))
      aliases.push_back(fmt::format("{}{}", kModelSection, entry.name));
  return aliases;
}

// Keys by names that they had before: recipes that runs saved have them.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {{"optimizer.kind", "optimizer.name"}};

// The key that is called so: the one that this is an alias or a former name of, or else itself.
std::string key_of_name(const std::string& name) {
  for (const auto& [former, key] : kFormerNames)
    if (name == former) return std::string(key);
  for (const ConfigJsonName& entry : config_json_names())
    if (name == fmt::format("{}{}", kModelSection, entry.name)) return fmt::format("{}{}", kModelSection, entry.key);
  return name;
}

// A value of the recipe as somebody wrote it.
struct Setting {
  std::string name;  // the key's, or an alias
  std::string value;
  bool is_override = false;
  std::string key = key_of_name(name);
  // For messages.
  std::string shown_key() const { return name == key ? key : fmt::format("{} ({})", name, key); }
};

// Where an override is.
constexpr const char* kCommandLine = "command line";

std::string join(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

// Flattens nested maps to dotted keys.
void flatten(const YAML::Node& node, const std::string& prefix, const std::string& where,
             std::vector<std::pair<std::string, std::string>>& values) {
  if (node.IsMap()) {
    for (const auto& entry : node) flatten(entry.second, join(prefix, entry.first.as<std::string>()), where, values);
    return;
  }
  if (node.IsSequence() && (prefix == kDataSources || prefix == kParameterGroups)) {
    values.emplace_back(prefix, data_sources_text(node));
    return;
  }
  if (node.IsSequence() && prefix == kTargets) {
    std::string targets;
    for (const YAML::Node& one : node) {
      if (!one.IsScalar()) refuse_key(where, prefix, "must be a list of names");
      targets += (targets.empty() ? "" : ",") + one.Scalar();
    }
    values.emplace_back(prefix, targets);
    return;
  }
  if (!node.IsScalar()) refuse_key(where, prefix, node.IsNull() ? "has no value" : "must be a single value");
  values.emplace_back(prefix, node.Scalar());
}

// Of an override: a list of names, as a file may have it, or what stands there.
std::string targets_of_override(const std::string& value) {
  if (!value.starts_with('[')) return value;
  try {
    std::vector<std::pair<std::string, std::string>> values;
    flatten(YAML::Load(value), kTargets, kCommandLine, values);
    return values.front().second;
  } catch (const YAML::Exception&) {
    return value;  // refused as a name that no matrix has
  }
}

void set(std::vector<Field>& all, const std::string& where, const Setting& setting) {
  for (Field& candidate : all) {
    if (candidate.key != setting.key) continue;
    bool accepted = false;
    try {
      accepted = candidate.set(setting.value);
    } catch (const Error& error) {
      refuse_key(where, setting.name, error.message(), error.hint());
    }
    if (!accepted) refuse_key(where, setting.name, fmt::format("'{}' is not {}", setting.value, candidate.kind));
    return;
  }
  refuse_key(where, setting.name, "unknown key",
             name_hint(NameOf::kRecipeKey, setting.name, recipe_key_names(), "`causeway recipe keys` lists all keys."));
}

// What resolve() complains of; `where` is the key alone, for who wrote it is found out afterwards.
void require(bool condition, const std::string& key, const std::string& what, const std::string& hint = {}) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, what, key, hint);
}

// The name becomes that of a directory, and is printed.
void check_name(const std::string& name) {
  constexpr size_t kLongest = 200;
  require(!name.empty(), "name", "must not be empty");
  require(name.find('/') == std::string::npos, "name", "must be a plain name without '/'",
          "Say with run_directory where the run goes.");
  require(name != "." && name != "..", "name", fmt::format("'{}' is a directory of its own meaning", name),
          "Give the run a name of letters.");
  require(is_printable(name), "name",
          fmt::format("'{}' holds characters that cannot be seen, or bytes that are not UTF-8", printable(name)));
  require(name.size() <= kLongest, "name", fmt::format("has {} bytes; at most {} can be used", name.size(), kLongest));
}

constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr double kMostEpochs = 1e6;
constexpr int64_t kMostTokensOfAStep = (int64_t{1} << 31) - 1;

// What every layer keeps of every token for the backward pass, about. Twenty times as much still fits into 64 bits, and
// so does every plan of a step's memory.
constexpr double kMostActivationBytes = 1e17;
double least_activation_bytes(const Recipe& r) {
  const auto tokens = static_cast<double>(r.train.micro_batch_size) * static_cast<double>(r.data.sequence_length);
  const auto of_layer = static_cast<double>(r.model.width + r.model.ffn_width + r.model.heads * r.model.head_dim);
  return 2 * tokens * (of_layer * static_cast<double>(r.model.layers) + static_cast<double>(r.model.vocabulary_size));
}

void check_adapter(Recipe& r) {
  constexpr int64_t kHighestRank = 1 << 16;
  AdapterConfig& adapter = r.adapter;
  require(adapter.rank >= 0 && adapter.rank <= kHighestRank, "lora.rank",
          fmt::format("must be from 1 to {}, or 0 for no adapters", kHighestRank));
  if (!adapter.is_used()) return;
  require(adapter.alpha >= 0, "lora.alpha", "must not be negative");
  if (adapter.alpha == 0) adapter.alpha = 2 * static_cast<double>(adapter.rank);
  require(adapter.dropout >= 0 && adapter.dropout < 1, "lora.dropout", "must be at least 0 and below 1");
  for (const auto& group : r.optimizer.groups)
    require(!group.frozen, kParameterGroups, "with adapters all of the model is frozen, and no adapter can be",
            "Delete frozen, or name fewer matrices with lora.targets.");
  require(!target_patterns(adapter.targets).empty(), kTargets, "names no matrix", "Name some, or say all-linear.");
  require(r.train.precision != Precision::kFp8 && r.train.precision != Precision::kFp8Block, "train.precision",
          "adapters are trained with GEMMs in bf16 or f32, not yet in 8 bits",
          "Set train.precision to bf16, tf32 or f32; lora.base says how the base lies.");
}

void resolve(Recipe& r, bool refuse_without_effect) {
  r.model = (refuse_without_effect ? r.model : r.model.without_foreign_keys())
                .with_score_head(r.preference.trains_reward_model())
                .resolved();
  r.optimizer = (refuse_without_effect ? r.optimizer : r.optimizer.without_foreign_keys()).resolved();
  check_adapter(r);
  check_name(r.name);
  std::vector<std::string_view> architectures;
  for (const GpuArchitecture& architecture : gpu_architectures()) architectures.push_back(architecture.processor);
  require(
      r.device_architecture.empty() || std::ranges::find(architectures, r.device_architecture) != architectures.end(),
      "device_architecture", fmt::format("must be one of {}", fmt::join(architectures, ", ")));
  require(is_printable(r.run_directory), "run_directory",
          fmt::format("'{}' holds characters that cannot be seen, or bytes that are not UTF-8",
                      printable(r.run_directory)));
  require(r.data.path.empty() || r.data.mixture.empty(), kDataSources, "data.path names the data to train on as well",
          "Give one of the two: data.path= takes the path back.");
  constexpr int64_t kWidths[] = {0, 1, 2, 4, 8};
  require(std::ranges::find(kWidths, r.data.token_bytes) != std::end(kWidths), "data.token_bytes",
          "must be 0, 1, 2, 4 or 8");
  require(r.data.sequence_length >= 1, "data.sequence_length", "must be at least 1");
  require(r.data.sequence_length <= r.model.max_sequence_length, "data.sequence_length",
          fmt::format("{} is longer than model.max_sequence_length, {}", r.data.sequence_length,
                      r.model.max_sequence_length));
  require(r.train.epochs >= 0 && r.train.epochs <= kMostEpochs, "train.epochs",
          fmt::format("{} passes over the data cannot be taken", r.train.epochs),
          fmt::format("Give a number above 0, up to {}; a part of a pass may be one.", kMostEpochs));
  require(r.train.steps >= (r.train.epochs > 0 ? 0 : 1), "train.steps", "must be at least 1");
  require(r.train.steps <= kMostSteps, "train.steps",
          fmt::format("{} is more than {}, the most that can be taken", r.train.steps, kMostSteps));
  require(r.train.batch_size >= 1, "train.batch_size", "must be at least 1");
  require(r.train.batch_size <= kMostTokensOfAStep / r.data.sequence_length, "train.batch_size",
          fmt::format("{} sequences of {} tokens are more than {} tokens, the most of one step", r.train.batch_size,
                      r.data.sequence_length, kMostTokensOfAStep));
  if (r.train.micro_batch_size == 0) r.train.micro_batch_size = r.train.batch_size;
  require(r.train.micro_batch_size >= 1 && r.train.batch_size % r.train.micro_batch_size == 0, "train.micro_batch_size",
          fmt::format("{} does not divide train.batch_size, {}", r.train.micro_batch_size, r.train.batch_size));
  require(least_activation_bytes(r) < kMostActivationBytes, "train.micro_batch_size",
          fmt::format("{} sequences of {} tokens through this model would need more than 10^17 bytes",
                      r.train.micro_batch_size, r.data.sequence_length));
  require(r.train.z_loss >= 0, "train.z_loss", "must not be negative", "PaLM's is 1e-4; 0 is none.");
  check_mesh(r);
  check_pipeline(r);
  check_preference(r);
  check_offload(r);
  check_grpo(r);
  check_moe(r);
  require(r.train.recompute_layers >= 0 && r.train.recompute_layers <= r.model.layers, "train.recompute_layers",
          fmt::format("must be from 0 to the model's layers, {}", r.model.layers));
  require(r.train.recompute_layers == 0 || r.train.recompute.value_or(RecomputePolicy::kNone) != RecomputePolicy::kNone,
          "train.recompute_layers",
          fmt::format("{} layers are for train.recompute=selective or block", r.train.recompute_layers),
          "Leave it out, or set train.recompute to one of these.");
  require(r.train.recompute_layers == 0 || r.mesh.pp == 1, "train.recompute_layers",
          "with stages (mesh.pp) all layers are computed again or none", "Leave it out.");
  for (const auto& [key, value] : {std::pair{"evaluation.interval", r.evaluation.interval},
                                   {"evaluation.sequences", r.evaluation.sequences},
                                   {"sampling.interval", r.sampling.interval},
                                   {"sampling.tokens", r.sampling.tokens},
                                   {"sampling.top_k", r.sampling.top_k},
                                   {"checkpoint.interval", r.checkpoint.interval},
                                   {"train.check_replicas", r.train.check_replicas},
                                   {"log.measure_interval", r.log.measure_interval},
                                   {"log.trace_from", r.log.trace_from}})
    require(value >= 0, key, "must not be negative");
  require(r.sampling.temperature >= 0, "sampling.temperature", "must not be negative");
  require(r.checkpoint.interval_minutes >= 0, "checkpoint.interval_minutes", "must not be negative");
  require(r.checkpoint.keep >= 1, "checkpoint.keep", "must be at least 1");
  require(r.log.interval >= 1, "log.interval", "must be at least 1");
  require(r.log.trace_steps >= 1, "log.trace_steps", "must be at least 1");
  r.schedule.total_steps = r.train.steps;
  // What does not follow yet is checked once it does.
  if (r.train.steps > 0) const Schedule check(r.schedule);
  if (r.run_directory.empty()) r.run_directory = "runs/" + r.name;
}

// What was written and changes nothing. A value equal to the default is no claim that something happens.
void refuse_settings_without_effect(const Recipe& r, const std::vector<Setting>& settings) {
  const char* const hint = "Delete the key, or choose what it belongs to.";
  for (const Setting& setting : settings)
    require(setting.key != "model.tie_embeddings" || setting.value != "false" || !r.model.tie_embeddings, setting.key,
            fmt::format("the embeddings of {} are always tied: false has no effect", r.model.family), hint);
  require(r.schedule.kind != ScheduleKind::kConstant || r.schedule.final_factor == Recipe().schedule.final_factor,
          "schedule.final_factor", "has no effect on the constant schedule", hint);
  require(r.schedule.kind != ScheduleKind::kWsd || r.schedule.decay_steps != 1, "schedule.decay_steps",
          "1 step of decay has no effect: a decay's first step is at the peak still",
          "Give 2 or more; a tenth of the run is usual.");
  const Recipe defaults;
  const std::vector<RecipeValue> stated = recipe_values(r), unset = recipe_values(defaults);
  for (size_t i = 0; !r.adapter.is_used() && i < stated.size(); ++i)
    require(!stated[i].key.starts_with("lora.") || stated[i].value == unset[i].value, stated[i].key,
            "has no effect without lora.rank, the rank of the adapters", hint);
  refuse_preference_without_effect(r);
  refuse_grpo_without_effect(r);
  refuse_moe_without_effect(r);
  if (const std::string key = moment_key_without_effect(r.optimizer); !key.empty())
    require(false, "optimizer." + key,
            fmt::format("has no effect on averages in {} (optimizer.moments)", r.optimizer.own_text("moments")), hint);
  require(!r.data.allow_other_tokenizer || !r.model_from.empty(), "data.allow_other_tokenizer",
          "has no effect without model.from", hint);
  require(r.log.trace_from > 0 || r.log.trace_steps == Recipe().log.trace_steps, "log.trace_steps",
          "has no effect without log.trace_from", "Say with log.trace_from which step is the first.");
  require(r.mesh.pp > 1 || r.train.pipeline_schedule == Recipe().train.pipeline_schedule, "train.pipeline_schedule",
          "has no effect without stages (mesh.pp)", hint);
  require(r.sampling.temperature > 0 || r.sampling.top_k == 0, "sampling.top_k",
          "has no effect at sampling.temperature 0, which always takes the most likely token", hint);
}

constexpr char kModelFrom[] = "model.from";
constexpr char kSteps[] = "train.steps", kEpochs[] = "train.epochs";

// A checkpoint takes the place of the run whose newest one it is: what a run begins with is said once and for all.
std::string directory_of_origin(const std::string& path, const char* key) {
  try {
    const std::optional<std::filesystem::path> checkpoint = find_checkpoint(path);
    return checkpoint ? checkpoint->string() : path;
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", error.where(), error.message()), key, error.hint());
  }
}

ModelConfig config_of_directory(const std::string& directory) {
  std::error_code code;
  if (!std::filesystem::is_directory(directory, code))
    throw Error(
        ErrorKind::kNotFound, fmt::format("there is no directory {}", directory), kModelFrom,
        "Give the directory of a downloaded model, with config.json and safetensors files, or a run or checkpoint of "
        "this program. A run that has begun needs it no more, unless it trains adapters: causeway train "
        "RUN/recipe.yaml model.from= --resume auto.");
  const std::filesystem::path path(directory);
  require(
      !std::filesystem::exists(path / "adapter_config.json", code) ||
          std::filesystem::exists(path / "config.json", code),
      kModelFrom, fmt::format("{} holds an adapter of PEFT's and no model", directory),
      fmt::format("Name its base with model.from, and the adapter with lora.from={0}; or write the two as one model: "
                  "causeway export BASE --adapter {0} --merged --output DIRECTORY.",
                  directory));
  try {
    // Which checks its config.json, too: a checkpoint has that of an export.
    if (is_checkpoint(directory)) const CheckpointReader intact(directory);
    return read_hugging_face_config(directory);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", error.where(), error.message()), kModelFrom, error.hint());
  }
}

// The model is that of the directory. What the recipe says of it besides must be the same; 0 is no statement where it
// stands for what follows from the rest.
void take_model_of_directory(Recipe& r, const std::vector<Setting>& settings) {
  r.model_from = directory_of_origin(r.model_from, kModelFrom);
  Recipe of_directory;
  of_directory.model = config_of_directory(r.model_from);
  const ModelConfig found = of_directory.model;
  require(!found.score_head || r.preference.trains_reward_model(), kModelFrom,
          fmt::format("{} holds a reward model, which gives scores and has no output layer", r.model_from),
          "Set preference.loss=reward, or name a language model.");
  const std::vector<RecipeValue> stated = recipe_values(r), stored = recipe_values(of_directory);
  const auto is_derived = [](const RecipeValue& value) {
    return value.value == "0" &&
           (value.key == "model.kv_heads" || value.key == "model.head_dim" || value.key == "model.ffn_width");
  };
  bool has_dropout = false;
  for (const Setting& setting : settings) {
    if (!setting.key.starts_with("model.") || setting.key == kModelFrom) continue;
    if (setting.key == "model.dropout") {
      has_dropout = true;
      continue;
    }
    for (size_t i = 0; i < stated.size(); ++i)
      require(stated[i].key != setting.key || stated[i].value == stored[i].value || is_derived(stated[i]), setting.key,
              fmt::format("is {} here and {} in {}", stated[i].value, stored[i].value,
                          (std::filesystem::path(r.model_from) / "config.json").string()),
              "Delete the key: model.from says what the model is.");
  }
  const double dropout = r.model.dropout;
  r.model = found;
  if (has_dropout) r.model.dropout = dropout;
}

bool is_set(const std::vector<Setting>& settings, std::string_view key) {
  return std::ranges::any_of(settings, [&](const Setting& setting) { return setting.key == key; });
}

// The adapters are those of the directory, but for their dropout and how their base lies: what the recipe says of them
// besides must be the same.
void take_adapter_of_directory(Recipe& r, const std::vector<Setting>& settings) {
  r.adapter_from = directory_of_origin(r.adapter_from, kAdapterFrom);
  Recipe of_directory;
  of_directory.adapter = StoredAdapter::open(r.adapter_from)->config();
  const std::vector<RecipeValue> stated = recipe_values(r), stored = recipe_values(of_directory);
  constexpr char kDropout[] = "lora.dropout";
  const BaseWeights base = r.adapter.base;
  const auto sorted_targets = [](const Recipe& of) {
    std::vector<std::string> patterns = target_patterns(of.adapter.targets);
    std::ranges::sort(patterns);
    return patterns;
  };
  const bool same_targets = sorted_targets(r) == sorted_targets(of_directory);
  for (const Setting& setting : settings) {
    if (!setting.key.starts_with("lora.") || setting.key == kDropout || setting.key == kBase ||
        setting.key == kAdapterFrom)
      continue;
    if (setting.key == kTargets && same_targets) continue;
    for (size_t i = 0; i < stated.size(); ++i)
      require(stated[i].key != setting.key || stated[i].value == stored[i].value, setting.key,
              fmt::format("is {} here and {} in {}", stated[i].value, stored[i].value, r.adapter_from),
              "Delete the key: lora.from says what the adapters are.");
  }
  const double dropout = r.adapter.dropout;
  r.adapter = of_directory.adapter;
  r.adapter.base = base;
  if (is_set(settings, kDropout)) r.adapter.dropout = dropout;
}

// What follows from the data: the vocabulary and whether targets have weights, where a dataset tells it, and the number
// of steps, once it is opened.
void leave_to_data(Recipe& r, const std::vector<Setting>& settings) {
  if (r.train.epochs > 0 && !is_set(settings, kSteps)) r.train.steps = 0;
  r.data.weighs_targets = std::ranges::any_of(
      r.data.sources(), [](const DataSource& source) { return data::records_target_weights(source.path); });
  if (!r.model_from.empty() || is_set(settings, "model.vocabulary_size")) return;
  for (const DataSource& source : r.data.sources()) {
    if (const std::optional<TokenizerIdentity> tokenizer = data::recorded_tokenizer(source.path)) {
      r.model.vocabulary_size = tokenizer->vocabulary_size;
      return;
    }
  }
}

Recipe recipe_of(const std::vector<Setting>& settings, const std::string& where, bool refuse_without_effect) {
  Recipe recipe;
  std::vector<Field> all = fields(recipe);
  for (const Setting& setting : settings) set(all, setting.is_override ? kCommandLine : where, setting);
  if (refuse_without_effect && !recipe.model_from.empty()) take_model_of_directory(recipe, settings);
  if (refuse_without_effect && !recipe.adapter_from.empty()) take_adapter_of_directory(recipe, settings);
  if (refuse_without_effect) leave_to_data(recipe, settings);
  resolve(recipe, refuse_without_effect);
  if (refuse_without_effect) {
    refuse_settings_without_effect(recipe, settings);
    require_members_of_groups(recipe);
  }
  return recipe;
}

// What is wrong with the settings, or nothing.
std::optional<std::string> problem_of(const std::vector<Setting>& settings, bool refuse_without_effect) {
  try {
    recipe_of(settings, "", refuse_without_effect);
    return std::nullopt;
  } catch (const Error& error) {
    return error.message();
  }
}

// Where to look for the cause of `problem`, a complaint about `key`: at the command line when the key was given there,
// or when the recipe would stand without one of its overrides, or stands without all of them; else at the file.
std::string place_of(const std::string& key, const std::string& problem, const std::vector<Setting>& settings,
                     const std::string& where, bool refuse_without_effect) {
  std::vector<std::string> healing, involved;  // overrides without which nothing is wrong, or something else
  std::vector<Setting> file_alone;
  std::string shown = key;
  for (const Setting& setting : settings) {
    if (!setting.is_override) {
      file_alone.push_back(setting);
      if (setting.key == key) shown = setting.shown_key();
      continue;
    }
    if (setting.key == key) return fmt::format("{}: {}", kCommandLine, setting.shown_key());
    std::vector<Setting> without;
    for (const Setting& other : settings)
      if (&other != &setting) without.push_back(other);
    const std::optional<std::string> rest = problem_of(without, refuse_without_effect);
    const std::string assignment = fmt::format("{}={}", setting.name, setting.value);
    if (!rest) healing.push_back(assignment);
    if (rest != problem) involved.push_back(assignment);
  }
  if (healing.empty() && problem_of(file_alone, refuse_without_effect))
    return where.empty() ? shown : fmt::format("{}: {}", where, shown);
  const std::vector<std::string>& culprits = healing.empty() ? involved : healing;
  return fmt::format("{}: {}{}{}", kCommandLine, fmt::join(culprits, ", "), culprits.empty() ? "" : ": ", shown);
}

std::vector<Setting> settings_in(const std::string& yaml, const std::string& where) {
  const YAML::Node root = parse_yaml(yaml, where);
  if (!root.IsDefined() || root.IsNull())
    throw Error(ErrorKind::kInvalidArgument, "the recipe is empty", where,
                "docs/recipes.md lists the keys; the files under recipes/ are examples.");
  if (!root.IsMap()) refuse_key(where, "recipe", "is not a map of keys");
  std::vector<std::pair<std::string, std::string>> values;
  try {
    flatten(root, "", where, values);
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("a key that is not text (line {})", error.mark.line + 1),
                where);
  }
  std::vector<Setting> settings;
  for (auto& [name, value] : values) {
    Setting added{.name = name, .value = std::move(value)};
    const auto same = std::ranges::find(settings, added.key, &Setting::key);
    if (same != settings.end() && same->name == name) refuse_key(where, name, "is given twice");
    if (same != settings.end())
      refuse_key(where, name, fmt::format("is another name of {}, which is given too", same->name),
                 "Delete one of them.");
    settings.push_back(std::move(added));
  }
  return settings;
}

Recipe parse(const std::string& yaml, const std::string& where, const std::vector<std::string>& overrides,
             bool refuse_without_effect) {
  std::vector<Setting> settings = settings_in(yaml, where);
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      refuse_key("", text, "is not of the form key=value", "For example: optimizer.learning_rate=1e-3");
    Setting added{.name = text.substr(0, equals), .value = text.substr(equals + 1), .is_override = true};
    if (added.key == kTargets) added.value = targets_of_override(added.value);
    // A later one replaces an earlier one, and the file's, by whatever name.
    std::erase_if(settings, [&](const Setting& other) { return other.is_override && other.key == added.key; });
    settings.push_back(added);
  }
  // How long a run is can be said in two ways: what the command line says replaces either.
  const auto is_zero = [](const std::string& value) {
    char* end = nullptr;
    return std::strtod(value.c_str(), &end) == 0 && end != value.c_str() && *end == '\0';
  };
  const auto is_override = [&](const char* key) {
    return std::ranges::any_of(settings, [&](const Setting& s) {
      return s.is_override && s.key == key && (s.key != kEpochs || !is_zero(s.value));
    });
  };
  if (is_override(kSteps) != is_override(kEpochs))
    std::erase_if(settings, [&](const Setting& s) { return !s.is_override && (s.key == kSteps || s.key == kEpochs); });
  // What set() refuses it has placed itself.
  Recipe recipe;
  std::vector<Field> all = fields(recipe);
  for (const Setting& setting : settings) set(all, setting.is_override ? kCommandLine : where, setting);
  try {
    return recipe_of(settings, where, refuse_without_effect);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(),
                place_of(error.where(), error.message(), settings, where, refuse_without_effect), error.hint());
  }
}

}  // namespace

int64_t& Recipe::MeshSizes::size(MeshAxisId axis) {
  switch (axis) {
    case MeshAxisId::kDp:
      return dp;
    case MeshAxisId::kFsdp:
      return fsdp;
    case MeshAxisId::kCp:
      return cp;
    case MeshAxisId::kTp:
      return tp;
    case MeshAxisId::kPp:
      return pp;
  }
  CAUSEWAY_CHECK(false, "no axis of a mesh");
}

int64_t Recipe::MeshSizes::size(MeshAxisId axis) const { return MeshSizes(*this).size(axis); }

std::vector<std::pair<MeshAxisId, int64_t>> Recipe::MeshSizes::axes() const {
  std::vector<std::pair<MeshAxisId, int64_t>> above;
  for (const auto& [axis, name] : named_values(MeshAxisId()))
    if (size(axis) > 1) above.emplace_back(axis, size(axis));
  return above;
}

std::string_view recompute_choice_name(const std::optional<RecomputePolicy>& choice) {
  return choice ? recompute_policy_name(*choice) : kAuto;
}

Mesh make_mesh(const Recipe::MeshSizes& sizes) {
  Mesh mesh;
  const int64_t tp = 1, cp = tp * sizes.tp, fsdp = cp * sizes.cp, dp = fsdp * sizes.fsdp, pp = dp * sizes.dp;
  const auto axis = [&](MeshAxisId id, int64_t stride) {
    return MeshAxis{.name = std::string(name_of(id)), .size = sizes.size(id), .stride = stride};
  };
  MeshAxis of_tp = axis(MeshAxisId::kTp, tp), of_dp = axis(MeshAxisId::kDp, dp), of_pp = axis(MeshAxisId::kPp, pp);
  of_tp.gathers_weights = false;
  of_dp.keeps_weights = true;
  of_pp.stages = true;
  for (const MeshAxis& one : {axis(MeshAxisId::kCp, cp), of_tp, axis(MeshAxisId::kFsdp, fsdp), of_dp, of_pp})
    if (one.size > 1) mesh.axes.push_back(one);
  return mesh;
}

Recipe parse_recipe(const std::string& yaml, const std::string& where, const std::vector<std::string>& overrides) {
  return parse(yaml, where, overrides, true);
}

Recipe parse_saved_recipe(const std::string& yaml, const std::string& where) { return parse(yaml, where, {}, false); }

Recipe load_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return parse_recipe(read_text_file(path), path.string(), overrides);
}

std::vector<DataSource> Recipe::Data::sources() const {
  if (path.empty() || !mixture.empty()) return mixture;
  return {{path, 1}};
}

std::string recipe_text(const Recipe& recipe) {
  Recipe copy = recipe;
  std::string text, section;
  for (const Field& entry : fields(copy)) {
    if (is_of_another_optimizer(entry.key, recipe.optimizer)) continue;
    const size_t dot = entry.key.find('.');
    if (dot == std::string::npos) {
      text += fmt::format("{}: {}\n", entry.key, entry.get());
      continue;
    }
    if (entry.key.substr(0, dot) != section) {
      section = entry.key.substr(0, dot);
      text += section + ":\n";
    }
    text += fmt::format("  {}: {}\n", entry.key.substr(dot + 1), entry.get());
  }
  return text;
}

std::vector<RecipeValue> recipe_values(const Recipe& recipe) {
  Recipe copy = recipe;
  std::vector<RecipeValue> values;
  for (const Field& entry : fields(copy)) values.push_back({entry.key, entry.get()});
  return values;
}

std::vector<RecipeDifference> recipe_differences(const Recipe& was, const Recipe& is) {
  const std::vector<RecipeValue> before = recipe_values(was), now = recipe_values(is);
  std::vector<RecipeDifference> differences;
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i].value != now[i].value) differences.push_back({before[i].key, before[i].value, now[i].value});
  return differences;
}

std::vector<RecipeKey> recipe_keys() {
  Recipe defaults;
  std::vector<RecipeKey> keys;
  for (const Field& entry : fields(defaults))
    keys.push_back({entry.key, entry.get(), entry.meaning, entry.kind, entry.choices, aliases_of(entry.key)});
  return keys;
}

std::vector<std::string> recipe_key_names() {
  std::vector<std::string> names;
  for (const RecipeKey& key : recipe_keys()) {
    names.push_back(key.key);
    names.insert(names.end(), key.aliases.begin(), key.aliases.end());
  }
  return names;
}

}  // namespace causeway::train
