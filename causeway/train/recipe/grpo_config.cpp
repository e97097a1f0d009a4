#include "causeway/train/recipe/grpo_config.h"

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/train/grpo/reward_pattern.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/recipe/recipe_field.h"

namespace causeway::train {
namespace {

void require_grpo(bool condition, const std::string& key, const std::string& what, const std::string& hint = {},
                  ErrorKind kind = ErrorKind::kInvalidArgument) {
  if (!condition) throw Error(kind, what, key, hint);
}

// TRL has more of them; what they would be here is said by name.
Field loss_type_field(GrpoLoss& value) {
  Field field = choice("grpo.loss_type", value, "grpo, dr_grpo or dapo: over what the losses of tokens are averaged");
  field.set = [set = field.set](const std::string& text) {
    if (text == "bnpo")
      throw Error(ErrorKind::kUnsupported, "bnpo averages over the tokens of each micro-batch by itself", "",
                  "Set grpo.loss_type=dapo: the mean over all tokens of the batch, however it is cut.");
    for (const char* other : {"cispo", "sapo", "luspo", "vespo", "dppo_tv", "dppo_kl"})
      if (text == other)
        throw Error(ErrorKind::kUnsupported, fmt::format("the loss {} is not implemented", other), "",
                    "Implemented are grpo, dr_grpo and dapo.");
    return set(text);
  };
  return field;
}

void check_reward(const GrpoConfig& grpo) {
  require_grpo(grpo.reward != RewardKind::kRegex || !grpo.reward_pattern.empty(), "grpo.reward_pattern",
               "is empty, and grpo.reward=regex looks for it in completions", "Give a regular expression.");
  // What is none is told before there is a model.
  if (grpo.reward == RewardKind::kRegex) const RewardPattern compiled(grpo.reward_pattern);
  require_grpo(grpo.reward != RewardKind::kProgram || !grpo.reward_program.empty(), "grpo.reward_program",
               "is empty, and grpo.reward=program runs it",
               "Give a command that reads a line of JSON for each completion and writes a number.");
  require_grpo(grpo.reward_timeout > 0 && std::isfinite(grpo.reward_timeout), "grpo.reward_timeout", "must be above 0");
}

void check_sampling_keys(const Recipe& r) {
  const GrpoConfig& grpo = r.grpo;
  require_grpo(grpo.num_generations >= 2, "grpo.num_generations",
               fmt::format("{} completion of a prompt has no group to be compared with", grpo.num_generations),
               "Give at least 2.");
  require_grpo(grpo.max_completion_length >= 1, "grpo.max_completion_length", "must be at least 1");
  require_grpo(grpo.max_completion_length <= r.data.sequence_length, "grpo.max_completion_length",
               fmt::format("{} tokens behind a prompt do not fit data.sequence_length, {}", grpo.max_completion_length,
                           r.data.sequence_length),
               "Raise data.sequence_length, which holds a prompt and its completion.");
  require_grpo(grpo.temperature > 0 && std::isfinite(grpo.temperature), "grpo.temperature",
               "must be above 0: completions that are all the same teach nothing");
  require_grpo(grpo.sampling_batch_size >= 0 &&
                   (grpo.sampling_batch_size == 0 || r.train.batch_size % grpo.sampling_batch_size == 0),
               "grpo.sampling_batch_size",
               fmt::format("{} does not divide train.batch_size, {}", grpo.sampling_batch_size, r.train.batch_size));
  require_grpo(grpo.top_k >= 0, "grpo.top_k", "must not be negative");
  require_grpo(grpo.top_p > 0 && grpo.top_p <= 1, "grpo.top_p", "must be above 0 and at most 1");
}

void check_loss_keys(const GrpoConfig& grpo) {
  require_grpo(grpo.num_iterations >= 1, "grpo.num_iterations", "must be at least 1");
  require_grpo(grpo.epsilon > 0 && grpo.epsilon < 1, "grpo.epsilon", "must be above 0 and below 1");
  require_grpo(grpo.epsilon_high >= 0 && std::isfinite(grpo.epsilon_high), "grpo.epsilon_high",
               "must be above 0, or 0 for that of grpo.epsilon");
  require_grpo(grpo.beta >= 0 && std::isfinite(grpo.beta), "grpo.beta", "must not be negative");
}

void check_batches_of_groups(const Recipe& r) {
  require_grpo(r.train.batch_size % r.grpo.num_generations == 0, "train.batch_size",
               fmt::format("{} completions are not whole groups of grpo.num_generations={}", r.train.batch_size,
                           r.grpo.num_generations),
               fmt::format("Give a multiple of {}: it counts completions, not prompts.", r.grpo.num_generations));
}

void refuse_what_does_not_fit(const Recipe& r) {
  const auto refuse_where = [&](bool is_there, const char* key, const std::string& what, const std::string& hint) {
    require_grpo(!is_there, key, what, hint, ErrorKind::kUnsupported);
  };
  const std::string reward = fmt::format("grpo.reward={}", name_of(r.grpo.reward));
  refuse_where(r.preference.is_used(), "preference.loss",
               fmt::format("{} trains on completions of its own, and preference.loss={} on pairs", reward,
                           name_of(r.preference.loss)),
               "Leave one of them out.");
  refuse_where(r.mesh.pp > 1, "mesh.pp", fmt::format("{} is not yet trained over stages", reward),
               "Cut over mesh.fsdp, mesh.dp or mesh.tp.");
  refuse_where(r.mesh.cp > 1, "mesh.cp", fmt::format("{} is not yet trained with cut sequences", reward),
               "Cut over mesh.fsdp, mesh.dp or mesh.tp.");
  refuse_where(r.data.packs_documents(), "data.packing",
               fmt::format("{} has each completion in a row of its own, and packs none", reward), "Leave it out.");
  refuse_where(r.data.document_mask, "data.document_mask",
               fmt::format("{} has each completion in a row of its own: nothing is to be masked", reward),
               "Leave it out.");
  refuse_where(r.train.z_loss > 0, "train.z_loss", fmt::format("{} has no z-loss", reward), "Leave it out.");
  // A step's log-probabilities would not be those that completions were drawn by.
  refuse_where(r.model.dropout > 0, "model.dropout",
               fmt::format("is {}, and {} samples from the model that it trains, of which nothing may be dropped",
                           r.model.dropout, reward),
               "Set model.dropout=0.");
  refuse_where(r.adapter.is_used() && r.adapter.dropout > 0, "lora.dropout",
               fmt::format("is {}, and {} samples from the model that it trains, of which nothing may be dropped",
                           r.adapter.dropout, reward),
               "Set lora.dropout=0.");
  refuse_where(r.grpo.has_reference() && r.adapter.is_used() && !r.adapter_from.empty(), "lora.from",
               "the reference of grpo.beta is the model without adapters, and the run begins with some",
               "Set grpo.beta=0, or merge the adapters first: causeway export --merged.");
  refuse_where(
      r.train.precision == Precision::kFp8 || r.train.precision == Precision::kFp8Block, "train.precision",
      fmt::format("{} is not yet trained in 8 bits, whose scales differ between sampling and training", reward),
      "Set train.precision to bf16, tf32 or f32.");
  refuse_where(
      find_optimizer(r.optimizer.name).has_gradient_point(r.optimizer),
      r.optimizer.average_decay > 0 ? "optimizer.average_decay" : "optimizer.name",
      fmt::format("{} samples from the weights that a run keeps, and this optimizer takes gradients elsewhere", reward),
      r.optimizer.average_decay > 0 ? "Leave it out." : "Choose another optimizer.");
}

}  // namespace

std::vector<Field> grpo_fields(GrpoConfig& g) {
  return {
      choice("grpo.reward", g.reward,
             "exact_match, regex or program: what judges completions of prompts, which the data must be; none: the "
             "model samples nothing"),
      field("grpo.reward_pattern", g.reward_pattern,
            "a regular expression of PCRE2's: 1 where a completion matches it; with a group, where what the last "
            "match's first group has is the answer (regex)"),
      field("grpo.reward_program", g.reward_program,
            "a command that is given a line of JSON for each completion and writes a line with a number (program)"),
      field("grpo.reward_timeout", g.reward_timeout, "seconds that the program has for one completion (program)"),
      field("grpo.num_generations", g.num_generations, "completions of each prompt, which are compared"),
      field("grpo.max_completion_length", g.max_completion_length, "tokens of a completion, at most"),
      field("grpo.temperature", g.temperature, "logits are divided by it, in sampling and in the loss"),
      field("grpo.top_k", g.top_k, "draw among this many likeliest tokens; 0: all"),
      field("grpo.top_p", g.top_p, "draw among the likeliest tokens whose probabilities reach this together"),
      field("grpo.sampling_batch_size", g.sampling_batch_size,
            "completions that are sampled side by side, with a KV cache; 0: train.batch_size"),
      field("grpo.num_iterations", g.num_iterations, "optimizer steps on the same completions"),
      field("grpo.epsilon", g.epsilon, "by how much a token may become less likely before it counts no more"),
      field("grpo.epsilon_high", g.epsilon_high, "the same of more likely; 0: grpo.epsilon"),
      field("grpo.beta", g.beta, "weight of the divergence from the model that the run begins with; 0: none is held"),
      choice("grpo.scale_rewards", g.scale_rewards,
             "group, batch or none: whose standard deviation advantages are divided by"),
      loss_type_field(g.loss_type),
      field("grpo.mask_truncated_completions", g.mask_truncated_completions,
            "completions that reach the most tokens before their end are not trained on")};
}

bool samples_with_cache(const Recipe& r) { return r.mesh.ranks() == 1 && !r.train.mesh_independent; }

int64_t sampled_side_by_side(const Recipe& r) {
  if (!samples_with_cache(r)) return r.train.micro_batch_size;
  return r.grpo.sampling_batch_size > 0 ? r.grpo.sampling_batch_size : r.train.batch_size;
}

bool holds_reference_model(const Recipe& r) { return r.grpo.has_reference() && !r.adapter.is_used(); }

void check_grpo(const Recipe& r) {
  if (!r.grpo.is_used()) return;
  check_reward(r.grpo);
  check_sampling_keys(r);
  check_loss_keys(r.grpo);
  check_batches_of_groups(r);
  refuse_what_does_not_fit(r);
}

void refuse_grpo_without_effect(const Recipe& r) {
  const GrpoConfig& grpo = r.grpo;
  const auto require_effect = [&](bool has_one, const char* key, const char* what) {
    require_grpo(has_one, key, what, "Delete the key, or choose what it belongs to.");
  };
  const GrpoConfig defaults;
  require_effect(grpo.reward == RewardKind::kRegex || grpo.reward_pattern.empty(), "grpo.reward_pattern",
                 "has an effect with grpo.reward=regex alone");
  require_effect(grpo.reward == RewardKind::kProgram || grpo.reward_program.empty(), "grpo.reward_program",
                 "has an effect with grpo.reward=program alone");
  require_effect(grpo.reward == RewardKind::kProgram || grpo.reward_timeout == defaults.reward_timeout,
                 "grpo.reward_timeout", "has an effect with grpo.reward=program alone");
  require_effect(grpo.sampling_batch_size == 0 || samples_with_cache(r), "grpo.sampling_batch_size",
                 "has no effect over a mesh and with train.mesh_independent, where micro-batches are sampled without a "
                 "KV cache");
  if (grpo.is_used()) return;
  GrpoConfig stated = grpo, unset = defaults;
  const std::vector<Field> given = grpo_fields(stated), usual = grpo_fields(unset);
  for (size_t i = 0; i < given.size(); ++i)
    require_effect(given[i].get() == usual[i].get(), given[i].key.c_str(), "has no effect without grpo.reward");
}

}  // namespace causeway::train
