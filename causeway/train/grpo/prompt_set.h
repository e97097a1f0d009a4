// The prompts that a run samples completions of, and what judges these.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "causeway/data/document_prompts.h"
#include "causeway/data/token_dataset.h"
#include "causeway/formats/tokenizer/tokenizer.h"
#include "causeway/train/grpo/reward.h"
#include "causeway/train/ranks.h"

namespace causeway::train {

// A prompt of the data.
struct Prompt {
  std::vector<int32_t> tokens;
  nlohmann::ordered_json record;
  std::string name;  // for messages
};

// Prompts as texts, and completions as they are judged.
class PromptSet {
 public:
  // `prompts` of each source of the dataset. All outlive it.
  PromptSet(const TokenDataset& dataset, std::vector<const DocumentPrompts*> prompts, const Tokenizer& tokenizer)
      : dataset_(dataset), prompts_(std::move(prompts)), tokenizer_(tokenizer) {}

  // That whose first token is at `offset` in the dataset. Throws what reading the data throws.
  Prompt at(uint64_t offset) const;
  // Throws Error naming the first prompt whose record lacks what the reward reads.
  void require_records(const Reward& reward) const;
  // What a completion says, as it is judged: without tokens that mark something and are no text.
  std::string text_of(const std::vector<int32_t>& prompt, const std::vector<int32_t>& completion) const;

 private:
  const TokenDataset& dataset_;
  std::vector<const DocumentPrompts*> prompts_;
  const Tokenizer& tokenizer_;
};

// The rewards of completions, whose judge the first rank alone has. All ranks make the call and get the same. Throws on
// every rank what judging throws.
class Judge {
 public:
  // Throws Error(kInvalidArgument) as make_reward() does.
  Judge(const GrpoConfig& config, const Ranks& ranks) : ranks_(ranks), reward_(make_reward(config)) {}

  const Reward& reward() const { return *reward_; }
  std::vector<double> judge(const std::vector<JudgedCompletion>& completions);

 private:
  const Ranks& ranks_;
  std::unique_ptr<Reward> reward_;
};

}  // namespace causeway::train
