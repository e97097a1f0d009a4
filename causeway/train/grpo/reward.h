// What judges a completion (grpo.reward): a number, the higher the better.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "causeway/train/recipe/grpo_config.h"

namespace causeway::train {

struct JudgedCompletion {
  const nlohmann::ordered_json& record;  // that the prompt was prepared from
  std::string text;                      // of the completion, without the token that ends it
  std::string name;                      // for messages: "completion 2 of prompt 3 of data/prompts"
};

class Reward {
 public:
  virtual ~Reward() = default;

  // A finite number. Throws Error naming the completion.
  virtual double judge(const JudgedCompletion& completion) = 0;
  // Throws Error(kInvalidArgument) naming `name` where the record lacks what a completion is judged by: before the run.
  virtual void require_record(const nlohmann::ordered_json& /*record*/, const std::string& /*name*/) const {}
};

// Of a recipe that has one. Throws Error(kInvalidArgument) naming the key: a pattern that is no regular expression.
std::unique_ptr<Reward> make_reward(const GrpoConfig& config);

// What the record has under "answer": a text, or a number as JSON has it. Throws Error(kInvalidArgument) naming `name`
// where there is none.
std::string answer_of(const nlohmann::ordered_json& record, const std::string& name);

// Without spaces, tabs and line breaks at both ends.
std::string without_blanks_around(std::string_view text);

}  // namespace causeway::train
