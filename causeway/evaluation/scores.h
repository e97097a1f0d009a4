// What likelihoods say of a model: accuracies, perplexities, and how sure they are.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "causeway/evaluation/likelihood.h"
#include "causeway/evaluation/task_format.h"

namespace causeway::evaluation {

// A mean over documents, with its standard error (the sample's standard deviation over the root of their number);
// nothing for a single one.
struct Score {
  double value = 0;
  std::optional<double> standard_error;
};
Score mean_score(std::span<const double> values);

// How a document was judged.
struct Judgement {
  size_t chosen = 0;       // the likeliest choice; of equal ones the first
  size_t chosen_norm = 0;  // the likeliest by character
  bool is_right = false;
  bool is_right_norm = false;
};
// `likelihoods`: of the document's requests (task_requests()). acc_norm divides by the answers' numbers of characters,
// without what stands before them. A cloze is right when its answer is greedy.
Judgement judge(const TaskFormat& format, const Question& question, std::span<const Likelihood> likelihoods);

struct TaskScores {
  Score acc;
  std::optional<Score> acc_norm;    // of tasks that have it
  std::optional<Score> perplexity;  // of clozes: exp of the mean of -log p(answer); its error follows from that mean's
};
TaskScores task_scores(const TaskFormat& format, std::span<const Question> questions,
                       std::span<const std::vector<Likelihood>> likelihoods);

}  // namespace causeway::evaluation
