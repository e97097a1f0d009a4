#include "causeway/train/grpo/prompt_set.h"

#include <algorithm>
#include <cstring>

#include "causeway/base/error.h"
#include "causeway/generate/generated_text.h"

namespace causeway::train {

Prompt PromptSet::at(uint64_t offset) const {
  for (const DocumentPrompts* of_source : prompts_) {
    const std::optional<uint64_t> number = of_source->number_at(offset);
    if (!number) continue;
    Prompt prompt;
    prompt.tokens.resize(of_source->window(*number).length);
    dataset_.read(offset, prompt.tokens);
    prompt.record = of_source->record(dataset_, tokenizer_, *number);
    prompt.name = of_source->name(*number);
    return prompt;
  }
  CAUSEWAY_CHECK(false, "no prompt begins at token {}", offset);
}

void PromptSet::require_records(const Reward& reward) const {
  for (const DocumentPrompts* of_source : prompts_)
    for (uint64_t i = 0; i < of_source->count(); ++i)
      reward.require_record(of_source->record(dataset_, tokenizer_, i), of_source->name(i));
}

std::string PromptSet::text_of(const std::vector<int32_t>& prompt, const std::vector<int32_t>& completion) const {
  GeneratedText text(tokenizer_, prompt, {});
  for (const int32_t token : completion)
    if (!tokenizer_.is_special(token)) text.add(token);
  text.finish();
  return text.text();
}

std::vector<double> Judge::judge(const std::vector<JudgedCompletion>& completions) {
  std::string bytes(completions.size() * sizeof(double), '\0');
  ranks_.on_first([&] {
    for (size_t i = 0; i < completions.size(); ++i) {
      const double reward = reward_->judge(completions[i]);
      std::memcpy(bytes.data() + i * sizeof reward, &reward, sizeof reward);
    }
  });
  bytes = ranks_.of_first(bytes);
  std::vector<double> rewards(completions.size());
  std::memcpy(rewards.data(), bytes.data(), bytes.size());
  return rewards;
}

}  // namespace causeway::train
