#include "causeway/data/document_prompts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/base/json_document.h"

namespace causeway::data {

DocumentPrompts::DocumentPrompts(const TokenDataset& dataset, size_t source, int64_t longest)
    : source_(dataset.sources()[source].path.string()) {
  const auto refuse = [&](const std::string& what, const std::string& hint,
                          ErrorKind kind = ErrorKind::kInvalidArgument) { throw Error(kind, what, source_, hint); };
  if (!dataset.holds_prompts())
    refuse("the dataset holds no prompts",
           "Prepare some: causeway data prepare prompts.jsonl --chat --prompts, of records with \"prompt\".");
  uint64_t longer = 0, longest_there = 0;
  std::vector<uint8_t> targets;
  dataset.visit_documents(dataset.sources()[source], [&](uint64_t offset, uint64_t tokens) {
    targets.resize(tokens);
    dataset.read_targets(offset, targets);
    const auto record = static_cast<uint64_t>(std::ranges::find(targets, uint8_t{1}) - targets.begin());
    if (record == 0 || record == tokens)
      refuse(fmt::format("document {} is no prompt with its record", offsets_.size() + 1), "Prepare the dataset again.",
             ErrorKind::kCorrupt);
    longer += record > static_cast<uint64_t>(std::max<int64_t>(longest, 0)) ? 1 : 0;
    longest_there = std::max(longest_there, record);
    offsets_.push_back(offset);
    prompt_tokens_.push_back(static_cast<uint32_t>(record));
    record_tokens_.push_back(static_cast<uint32_t>(tokens - record));
  });
  if (longer > 0)
    refuse(fmt::format("{} of {} prompts have more than {} tokens, the longest {}, and a row has no room for a "
                       "completion behind them",
                       longer, offsets_.size(), std::max<int64_t>(longest, 0), longest_there),
           fmt::format("Raise data.sequence_length by {}, or lower grpo.max_completion_length.",
                       static_cast<int64_t>(longest_there) - longest));
}

SampleWindow DocumentPrompts::window(uint64_t number) const {
  CAUSEWAY_CHECK(number < offsets_.size());
  return {0, offsets_[number], prompt_tokens_[number]};
}

std::optional<uint64_t> DocumentPrompts::number_at(uint64_t offset) const {
  const auto place = std::ranges::lower_bound(offsets_, offset);
  if (place == offsets_.end() || *place != offset) return std::nullopt;
  return static_cast<uint64_t>(place - offsets_.begin());
}

nlohmann::ordered_json DocumentPrompts::record(const TokenDataset& dataset, const Tokenizer& tokenizer,
                                               uint64_t number) const {
  std::vector<int32_t> ids(record_tokens_[number]);
  dataset.read(offsets_[number] + prompt_tokens_[number], ids);
  nlohmann::ordered_json record = parse_ordered_json(
      tokenizer.decode(ids), {.name = "the record", .where = name(number), .hint = "Prepare the dataset again."});
  if (!record.is_object())
    throw Error(ErrorKind::kCorrupt, "the record is no JSON object", name(number), "Prepare the dataset again.");
  return record;
}

std::string DocumentPrompts::name(uint64_t number) const { return fmt::format("prompt {} of {}", number + 1, source_); }

std::vector<SampleWindow> PromptOrder::windows(uint64_t sample) const {
  const EpochOrder::Visit visit = epochs_.visit(sample / completions_);
  SampleWindow window = prompts_->window(visit.number);
  window.epoch = visit.epoch;
  return {window};
}

}  // namespace causeway::data
