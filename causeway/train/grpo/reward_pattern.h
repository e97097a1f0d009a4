// A completion judged by a regular expression (grpo.reward=regex), of PCRE2's syntax, over UTF-8.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "causeway/train/grpo/reward.h"

namespace causeway::train {

class RewardPattern final : public Reward {
 public:
  // Throws Error(kInvalidArgument) at "grpo.reward_pattern" for what is no regular expression.
  explicit RewardPattern(const std::string& pattern);
  RewardPattern(const RewardPattern&) = delete;
  RewardPattern& operator=(const RewardPattern&) = delete;
  ~RewardPattern() override;

  // 1 where the pattern matches something of the completion. Where it has a group: where the first group of its last
  // match is the answer, both without blanks around. Otherwise 0. Throws Error(kResource) naming the completion where
  // matching takes too many steps.
  double judge(const JudgedCompletion& completion) override;
  void require_record(const nlohmann::ordered_json& record, const std::string& name) const override;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  bool has_group_ = false;
};

}  // namespace causeway::train
