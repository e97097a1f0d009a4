// What judges completions: exact answers, regular expressions, and programs, those that fail included.
#include "causeway/train/grpo/reward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "causeway/train/grpo/advantages.h"
#include "causeway/train/grpo/reward_program.h"
#include "tests/fixtures/data_test_support.h"

namespace causeway::train {
namespace {

const nlohmann::ordered_json kRecord = {{"prompt", "6 * 7 ="}, {"answer", "42"}, {"level", 3}};

double reward_of(Reward& reward, const std::string& text, const nlohmann::ordered_json& record = kRecord) {
  return reward.judge({record, text, "completion 2 of prompt 5 of data (step 3)"});
}

std::unique_ptr<Reward> pattern(const std::string& text) {
  GrpoConfig config;
  config.reward = RewardKind::kRegex;
  config.reward_pattern = text;
  return make_reward(config);
}

TEST(Reward, ExactMatch) {
  GrpoConfig config;
  config.reward = RewardKind::kExactMatch;
  const std::unique_ptr<Reward> reward = make_reward(config);
  EXPECT_EQ(reward_of(*reward, " 42\n"), 1);
  EXPECT_EQ(reward_of(*reward, "42."), 0);
  EXPECT_EQ(reward_of(*reward, ""), 0);
  EXPECT_EQ(reward_of(*reward, "42", {{"answer", 42}}), 1);
  const Error none = caught([&] { reward->require_record({{"prompt", "x"}, {"target", 1}}, "prompt 1 of data"); });
  EXPECT_EQ(none.where(), "prompt 1 of data");
  EXPECT_TRUE(contains(none.message(), "no \"answer\"")) << none.message();
  EXPECT_TRUE(contains(none.message(), "\"target\"")) << none.message();
  reward->require_record(kRecord, "prompt 1 of data");
}

TEST(Reward, RegularExpressions) {
  EXPECT_EQ(reward_of(*pattern("^<think>.*</think>"), "<think>so</think> 42"), 1);
  EXPECT_EQ(reward_of(*pattern("^<think>.*</think>"), "so <think>so</think>"), 0);
  EXPECT_EQ(reward_of(*pattern("(?i)É"), "caf\u00e9"), 1);
  // With a group the last match counts, and must have the answer.
  const auto boxed = pattern(R"(\\boxed\{([^}]*)\})");
  EXPECT_EQ(reward_of(*boxed, R"(first \boxed{41}, no: \boxed{ 42 })"), 1);
  EXPECT_EQ(reward_of(*boxed, R"(\boxed{42} or \boxed{41})"), 0);
  EXPECT_EQ(reward_of(*boxed, "42"), 0);
  EXPECT_EQ(reward_of(*pattern("(\\d*)"), "\xff\xfe 42"), 0);  // the last match is the empty one at the end
  EXPECT_EQ(reward_of(*pattern("a*"), "\xff\u00e9"), 1);
  EXPECT_EQ(caught([&] { boxed->require_record({{"prompt", "x"}}, "prompt 1 of data"); }).where(), "prompt 1 of data");
  pattern("a")->require_record({{"prompt", "x"}}, "prompt 1 of data");
  const Error bad = caught([] { pattern("(a"); });
  EXPECT_EQ(bad.where(), "grpo.reward_pattern");
  EXPECT_TRUE(contains(bad.message(), "is no regular expression")) << bad.message();
  const Error slow = caught([] { reward_of(*pattern("^(a+)+$"), std::string(60, 'a') + "b"); });
  EXPECT_EQ(slow.kind(), ErrorKind::kResource);
  EXPECT_TRUE(contains(slow.message(), "completion 2 of prompt 5")) << slow.message();
}

// One process for all completions, which is given the whole record with the completion.
TEST(Reward, AProgramIsAskedLineByLine) {
  RewardProgram counting("n=0; while read -r line; do n=$((n+1)); echo \" $n.5 \"; done", 20);
  EXPECT_EQ(reward_of(counting, "a"), 1.5);
  EXPECT_EQ(reward_of(counting, "b\n\"c\" \xff"), 2.5);
  TemporaryDirectory directory;
  const std::string seen = (directory / "seen").string();
  RewardProgram keeping(fmt::format("while read -r line; do printf '%s\\n' \"$line\" >> {}; echo -1e-3; done", seen),
                        20);
  EXPECT_EQ(reward_of(keeping, "b\nc"), -1e-3);
  nlohmann::ordered_json expected = kRecord;
  expected["completion"] = "b\nc";
  EXPECT_EQ(read_text_file(seen), expected.dump() + "\n");
}

TEST(Reward, ProgramsThatFailAreNamedWithTheCompletion) {
  const auto failure = [](const std::string& command, double seconds = 20) {
    RewardProgram program(command, seconds);
    return caught([&] { reward_of(program, "text"); });
  };
  const auto expect_message = [](const Error& error, const std::string& what) {
    EXPECT_EQ(error.where(), "grpo.reward_program");
    EXPECT_TRUE(contains(error.message(), what)) << error.message();
    EXPECT_TRUE(contains(error.message(), "completion 2 of prompt 5 of data (step 3)")) << error.message();
    EXPECT_TRUE(contains(error.message(), "\"completion\":\"text\"")) << error.message();
  };
  expect_message(failure("exit 3"), "ended with status 3");
  expect_message(failure("read -r line; kill -9 $$"), "was ended by signal 9");
  expect_message(failure("read -r line; sleep 100", 0.2), "wrote no number within 0.2 s (grpo.reward_timeout)");
  expect_message(failure("read -r line; echo good; sleep 100"), "wrote \"good\", which is no number");
  expect_message(failure("read -r line; echo nan; sleep 100"), "which is no finite number");
  expect_message(failure("read -r line; echo; sleep 100"), "wrote \"\", which is no number");
  expect_message(failure("read -r line; printf '1\\n2\\n'; sleep 100"), "behind its number");
  expect_message(failure("no-such-program-at-all 2> /dev/null"), "ended with status 127");
  expect_message(failure("exec 0<&-; exec 1>&-; sleep 100"), "closed its input or its output");
}

// The next completion has a new process.
TEST(Reward, AProgramThatFailedIsStartedAgain) {
  TemporaryDirectory directory;
  RewardProgram program(
      fmt::format("read -r line; if [ -e {0} ]; then echo 1; else touch {0}; fi", (directory / "there").string()), 20);
  EXPECT_TRUE(contains(caught([&] { reward_of(program, "a"); }).message(), "ended with status 0"));
  EXPECT_EQ(reward_of(program, "a"), 1);
}

TEST(Advantages, AreOfTheGroup) {
  const std::vector<double> rewards = {1, 0, 0, 0.5, 0.5, 0.5};
  const double deviation = std::sqrt(1.0 / 3);
  const Advantages of_group = compute_advantages(rewards, 3, RewardScale::kGroup);
  EXPECT_NEAR(of_group.values[0], 2.0 / 3 / (deviation + 1e-4), 1e-6);
  EXPECT_NEAR(of_group.values[1], -1.0 / 3 / (deviation + 1e-4), 1e-6);
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(of_group.values[i], 0);
  EXPECT_EQ(of_group.share_of_equals, 0.5);
  EXPECT_NEAR(of_group.mean_reward, 2.5 / 6, 1e-12);
  const Advantages plain = compute_advantages(rewards, 3, RewardScale::kNone);
  EXPECT_NEAR(plain.values[0], 2.0 / 3, 1e-6);
  const Advantages of_batch = compute_advantages(rewards, 3, RewardScale::kBatch);
  EXPECT_NEAR(of_batch.values[0], 2.0 / 3 / (of_batch.reward_deviation + 1e-4), 1e-6);
}

}  // namespace
}  // namespace causeway::train
