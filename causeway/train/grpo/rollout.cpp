#include "causeway/train/grpo/rollout.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"

namespace causeway::train {
namespace {

using RolloutJson = nlohmann::json;

RolloutJson json_of(const Completion& one) {
  return {{"prompt", one.prompt}, {"tokens", one.tokens},       {"truncated", one.is_truncated},
          {"reward", one.reward}, {"advantage", one.advantage}, {"sampled", one.sampled},
          {"older", one.older},   {"reference", one.reference}};
}

Completion completion_of(const RolloutJson& json) {
  Completion one;
  json.at("prompt").get_to(one.prompt);
  json.at("tokens").get_to(one.tokens);
  json.at("truncated").get_to(one.is_truncated);
  json.at("reward").get_to(one.reward);
  json.at("advantage").get_to(one.advantage);
  json.at("sampled").get_to(one.sampled);
  json.at("older").get_to(one.older);
  json.at("reference").get_to(one.reference);
  return one;
}

// At the positions of a row whose targets the completion's tokens are.
void write_numbers(const Completion& completion, const std::vector<float>& of_tokens, std::span<float> row) {
  std::ranges::copy(of_tokens, row.begin() + static_cast<ptrdiff_t>(completion.prompt.size()) - 1);
}

}  // namespace

std::string print_rollout_state(const RolloutState& state) {
  RolloutJson json = {{"end_tokens", state.end_tokens}, {"steps", state.steps}};
  if (state.rollout != nullptr) {
    json["first_sample"] = state.rollout->first_sample;
    json["completions"] = RolloutJson::array();
    for (const Completion& one : state.rollout->completions) json["completions"].push_back(json_of(one));
    json["figures"] = state.rollout->figures;
  }
  return json.dump() + "\n";
}

RolloutState parse_rollout_state(std::string_view text, const std::string& where) {
  const RolloutJson json = parse_json(text, {.name = "the state of sampling", .where = where});
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kCorrupt, fmt::format("the state of sampling cannot be read: {}", what), where,
                "Go on from another checkpoint.");
  };
  try {
    RolloutState state;
    json.at("end_tokens").get_to(state.end_tokens);
    json.at("steps").get_to(state.steps);
    if (!json.contains("completions")) return state;
    auto rollout = std::make_shared<Rollout>();
    json.at("first_sample").get_to(rollout->first_sample);
    for (const RolloutJson& one : json.at("completions")) {
      const Completion& read = rollout->completions.emplace_back(completion_of(one));
      const auto is_whole = [&](const std::vector<float>& numbers, bool may_lack) {
        return numbers.size() == read.tokens.size() || (may_lack && numbers.empty());
      };
      if (read.prompt.empty() || read.tokens.empty() || !is_whole(read.sampled, false) || !is_whole(read.older, true) ||
          !is_whole(read.reference, true))
        refuse(fmt::format("completion {} is not whole", rollout->completions.size()));
    }
    json.at("figures").get_to(rollout->figures);
    state.rollout = std::move(rollout);
    return state;
  } catch (const RolloutJson::exception& error) {
    refuse(error.what());
  }
  CAUSEWAY_CHECK(false, "refused");
}

void write_row(const Completion& completion, bool has_targets, std::span<int32_t> inputs, std::span<int32_t> targets) {
  const auto &prompt = completion.prompt, &tokens = completion.tokens;
  CAUSEWAY_CHECK(!prompt.empty() && !tokens.empty() && prompt.size() + tokens.size() <= inputs.size() + 1);
  std::ranges::fill(inputs, 0);
  std::ranges::fill(targets, data::kIgnoredTarget);
  std::ranges::copy(prompt, inputs.begin());
  std::copy(tokens.begin(), tokens.end() - 1, inputs.begin() + static_cast<ptrdiff_t>(prompt.size()));
  if (has_targets) std::ranges::copy(tokens, targets.begin() + static_cast<ptrdiff_t>(prompt.size()) - 1);
}

RolloutBatch batch_of_rollout(const Rollout& rollout, const Recipe& recipe, const RowRange& own) {
  const auto length = static_cast<size_t>(recipe.data.sequence_length);
  const auto micro_batch = static_cast<size_t>(recipe.train.micro_batch_size);
  const auto first = static_cast<size_t>(own.first), count = static_cast<size_t>(own.count);
  CAUSEWAY_CHECK(rollout.completions.size() == static_cast<size_t>(recipe.train.batch_size));
  const size_t rows = static_cast<size_t>(recipe.micro_batches()) * count;
  RolloutBatch result;
  data::Batch& batch = result.batch;
  batch.first_sample = rollout.first_sample;
  batch.inputs.resize(rows * length);
  batch.targets.resize(rows * length);
  std::vector<float> advantages(rows), sampled(rows * length), older(rows * length), reference(rows * length);
  for (size_t row = 0; row < rollout.completions.size(); ++row) {
    const Completion& one = rollout.completions[row];
    const bool has_targets = !(one.is_truncated && recipe.grpo.mask_truncated_completions);
    const auto targets = static_cast<int64_t>(has_targets ? one.tokens.size() : 0);
    batch.global_valid_targets += targets;
    batch.global_tokens += static_cast<int64_t>(one.prompt.size() + one.tokens.size()) - 1;
    const size_t in_micro_batch = row % micro_batch;
    if (in_micro_batch < first || in_micro_batch >= first + count) continue;
    const size_t place = row / micro_batch * count + in_micro_batch - first;
    batch.valid_targets += targets;
    write_row(one, has_targets, std::span(batch.inputs).subspan(place * length, length),
              std::span(batch.targets).subspan(place * length, length));
    advantages[place] = one.advantage;
    write_numbers(one, one.sampled, std::span(sampled).subspan(place * length, length));
    write_numbers(one, one.older, std::span(older).subspan(place * length, length));
    write_numbers(one, one.reference, std::span(reference).subspan(place * length, length));
  }
  result.numbers = {std::move(advantages), std::move(sampled)};
  if (recipe.grpo.has_older_policy()) result.numbers.push_back(std::move(older));
  if (recipe.grpo.has_reference()) result.numbers.push_back(std::move(reference));
  return result;
}

}  // namespace causeway::train
