#include "causeway/train/grpo/reward.h"

#include <nlohmann/json.hpp>

#include "causeway/base/error.h"
#include "causeway/data/chat_record.h"
#include "causeway/train/grpo/reward_pattern.h"
#include "causeway/train/grpo/reward_program.h"

namespace causeway::train {
namespace {

// 1 where the completion is the answer.
class ExactMatch final : public Reward {
 public:
  double judge(const JudgedCompletion& completion) override {
    return without_blanks_around(completion.text) ==
                   without_blanks_around(answer_of(completion.record, completion.name))
               ? 1
               : 0;
  }
  void require_record(const nlohmann::ordered_json& record, const std::string& name) const override {
    answer_of(record, name);
  }
};

}  // namespace

std::string without_blanks_around(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
}

std::string answer_of(const nlohmann::ordered_json& record, const std::string& name) {
  const auto answer = record.find("answer");
  if (answer != record.end() && answer->is_string()) return answer->get<std::string>();
  if (answer != record.end() && answer->is_number()) return answer->dump();
  throw Error(ErrorKind::kInvalidArgument,
              answer == record.end()
                  ? fmt::format("the record has no \"answer\" to compare completions with; its fields are {}",
                                data::names_of_fields(record))
                  : fmt::format("\"answer\" is a JSON {}", answer->type_name()),
              name, "Give the right answer as a text under \"answer\", and prepare the data again.");
}

std::unique_ptr<Reward> make_reward(const GrpoConfig& config) {
  switch (config.reward) {
    case RewardKind::kNone:
      break;
    case RewardKind::kExactMatch:
      return std::make_unique<ExactMatch>();
    case RewardKind::kRegex:
      return std::make_unique<RewardPattern>(config.reward_pattern);
    case RewardKind::kProgram:
      return std::make_unique<RewardProgram>(config.reward_program, config.reward_timeout);
  }
  CAUSEWAY_CHECK(false, "no reward");
}

}  // namespace causeway::train
