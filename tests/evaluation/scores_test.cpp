#include "causeway/evaluation/scores.h"

#include <gtest/gtest.h>

#include <cmath>

namespace causeway::evaluation {
namespace {

TEST(Scores, AMeanHasTheStandardErrorOfASample) {
  const std::vector<double> values = {1, 0, 0, 1, 1};
  const Score score = mean_score(values);
  EXPECT_DOUBLE_EQ(score.value, 0.6);
  EXPECT_DOUBLE_EQ(score.standard_error.value(), std::sqrt((3 * 0.16 + 2 * 0.36) / 4 / 5));
  const std::vector<double> one = {1};
  EXPECT_FALSE(mean_score(one).standard_error);
}

// The longer answer is less likely, and likelier by character: code points count, not bytes.
TEST(Scores, AnswersAreJudgedWholeAndByCharacter) {
  const TaskFormat& format = *find_task_format("piqa");
  const Question question{{"?"}, {"né", "no way"}, 1};
  const std::vector<Likelihood> likelihoods = {{-3, false}, {-8.5, false}};
  const Judgement judgement = judge(format, question, likelihoods);
  EXPECT_EQ(judgement.chosen, 0u);
  EXPECT_FALSE(judgement.is_right);
  EXPECT_EQ(judgement.chosen_norm, 1u);  // 8.5 / 6 < 3 / 2, and not < 3 / 3
  EXPECT_TRUE(judgement.is_right_norm);
  const std::vector<Likelihood> equal = {{-3, false}, {-3, false}};
  EXPECT_EQ(judge(format, question, equal).chosen, 0u);
}

TEST(Scores, OfTheThreeKinds) {
  const std::vector<Question> questions = {{{"a"}, {"b", "c"}, 0}, {{"a"}, {"b", "c"}, 1}};
  const std::vector<std::vector<Likelihood>> likelihoods = {{{-1, true}, {-2, false}}, {{-1, true}, {-2, false}}};
  const TaskScores choices = task_scores(*find_task_format("arc_easy"), questions, likelihoods);
  EXPECT_EQ(choices.acc.value, 0.5);
  EXPECT_EQ(choices.acc_norm.value().value, 0.5);
  EXPECT_FALSE(choices.perplexity);
  EXPECT_FALSE(task_scores(*find_task_format("boolq"), questions, likelihoods).acc_norm);

  const std::vector<Question> options = {{{"a", "b"}, {"c"}, 1}, {{"a", "b"}, {"c"}, 0}};
  const TaskScores schema = task_scores(*find_task_format("winogrande"), options, likelihoods);
  EXPECT_EQ(schema.acc.value, 0.5);
  EXPECT_FALSE(schema.acc_norm);

  const std::vector<Question> words = {{{"a"}, {"b"}, 0}, {{"a"}, {"b"}, 0}, {{"a"}, {"b"}, 0}};
  const std::vector<std::vector<Likelihood>> one_each = {{{-1, true}}, {{-2, false}}, {{-6, false}}};
  const TaskScores cloze = task_scores(*find_task_format("lambada"), words, one_each);
  EXPECT_DOUBLE_EQ(cloze.acc.value, 1.0 / 3);
  EXPECT_DOUBLE_EQ(cloze.perplexity.value().value, std::exp(3.0));
  EXPECT_DOUBLE_EQ(cloze.perplexity.value().standard_error.value(), std::exp(3.0) * std::sqrt(7.0 / 3));
}

}  // namespace
}  // namespace causeway::evaluation
