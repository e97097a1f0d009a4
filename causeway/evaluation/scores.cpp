#include "causeway/evaluation/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "causeway/base/error.h"
#include "causeway/evaluation/python_text.h"

namespace causeway::evaluation {
namespace {

size_t first_largest(const std::vector<double>& values) {
  return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
}

}  // namespace

Score mean_score(std::span<const double> values) {
  CAUSEWAY_CHECK(!values.empty());
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() == 1) return {mean, std::nullopt};
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (count - 1)) / std::sqrt(count)};
}

Judgement judge(const TaskFormat& format, const Question& question, std::span<const Likelihood> likelihoods) {
  Judgement judgement;
  if (format.kind == TaskKind::kCloze) {
    judgement.is_right = judgement.is_right_norm = likelihoods.front().is_greedy;
    return judgement;
  }
  std::vector<double> logs, by_character;
  for (size_t i = 0; i < likelihoods.size(); ++i) {
    logs.push_back(likelihoods[i].log);
    const std::string& answer = question.answers[question.answers.size() > 1 ? i : 0];
    by_character.push_back(likelihoods[i].log / static_cast<double>(character_count(answer)));
  }
  judgement.chosen = first_largest(logs);
  judgement.chosen_norm = first_largest(by_character);
  judgement.is_right = judgement.chosen == question.gold;
  judgement.is_right_norm = judgement.chosen_norm == question.gold;
  return judgement;
}

TaskScores task_scores(const TaskFormat& format, std::span<const Question> questions,
                       std::span<const std::vector<Likelihood>> likelihoods) {
  std::vector<double> right, right_norm, logs;
  for (size_t i = 0; i < likelihoods.size(); ++i) {
    const Judgement judgement = judge(format, questions[i], likelihoods[i]);
    right.push_back(judgement.is_right ? 1 : 0);
    right_norm.push_back(judgement.is_right_norm ? 1 : 0);
    logs.push_back(likelihoods[i].front().log);
  }
  TaskScores scores;
  scores.acc = mean_score(right);
  if (format.has_acc_norm) scores.acc_norm = mean_score(right_norm);
  if (format.kind == TaskKind::kCloze) {
    Score mean = mean_score(logs);
    mean.value = std::exp(-mean.value);
    if (mean.standard_error) *mean.standard_error *= mean.value;
    scores.perplexity = mean;
  }
  return scores;
}

}  // namespace causeway::evaluation
