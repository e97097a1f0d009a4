#include "causeway/bench/gradient_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace causeway::bench {
namespace {

constexpr int64_t kElementsOfEach = 4096;

// From the middle of the rank's part of each first moment.
std::vector<double> read_moments(const TrainingStep& training) {
  std::vector<double> values;
  for (const TrainingStep::StateTensor& state : training.optimizer_state()) {
    if (!state.name.starts_with("moment1.") || state.is_copy) continue;
    const int64_t elements = state.tensor.local_bytes() / static_cast<int64_t>(sizeof(float));
    const int64_t count = std::min(elements, kElementsOfEach);
    std::vector<float> read(static_cast<size_t>(count));
    state.tensor.read_bytes_from(static_cast<size_t>((elements - count) / 2) * sizeof(float),
                                 std::as_writable_bytes(std::span(read)));
    values.insert(values.end(), read.begin(), read.end());
  }
  return values;
}

// What the step before clipping added, from the moments before and after it.
std::vector<double> gradient_between(const std::vector<double>& before, const std::vector<double>& after,
                                     const StepFigures& figures, const OptimizerConfig& optimizer) {
  const double beta1 = optimizer.own_number("beta1");
  const double clipped =
      optimizer.gradient_clip > 0 ? std::min(optimizer.gradient_clip / (figures.grad_norm + 1e-6), 1.0) : 1.0;
  std::vector<double> gradient(after.size());
  for (size_t i = 0; i < after.size(); ++i) gradient[i] = (after[i] - beta1 * before[i]) / ((1 - beta1) * clipped);
  return gradient;
}

double squares_between(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

}  // namespace

void RandomRows::draw(std::mt19937& random, int64_t vocabulary_size) {
  for (std::vector<int32_t>* tokens : {&inputs, &targets})
    for (int32_t& token : *tokens) token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary_size));
}

TrainingBatch RandomRows::batch(int64_t groups) const {
  return {inputs, targets, {}, static_cast<int64_t>(targets.size()) * groups};
}

RandomRows own_random_rows(const TrainingStep& step, const Recipe& recipe) {
  RandomRows rows;
  rows.inputs.resize(static_cast<size_t>(step.own_rows().count * recipe.data.sequence_length));
  rows.targets.resize(rows.inputs.size());
  return rows;
}

std::string GradientAgreement::text() const {
  if (elements == 0) return "all ranks have the same rows";
  return fmt::format(
      "gradients are {}those of all ranks' rows: {:.2f} % off, those of a rank's own rows {:.1f} % ({} "
      "elements)",
      holds() ? "" : "NOT ", 100 * difference, 100 * alone, elements);
}

GradientAgreement compare_gradients(TrainingStep& training, const Recipe& recipe, const train::Ranks& ranks,
                                    int64_t& step) {
  const int64_t groups = recipe.mesh.row_groups();
  if (groups == 1) return {};
  RandomRows rows = own_random_rows(training, recipe);
  std::vector<double> before = read_moments(training);
  const auto gradient_of_group = [&](int64_t group) {
    std::mt19937 random(static_cast<uint32_t>(group));
    rows.draw(random, recipe.model.vocabulary_size);
    const StepFigures figures = training.run(rows.batch(groups), step++, 0);
    std::vector<double> after = read_moments(training);
    std::vector<double> gradient = gradient_between(before, after, figures, recipe.optimizer);
    before = std::move(after);
    return gradient;
  };
  const int64_t own_group = training.own_rows().first / training.own_rows().count;
  std::vector<double> mean(before.size()), own;
  for (int64_t group = 0; group < groups; ++group) {
    const std::vector<double> gradient = gradient_of_group(group);
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += gradient[i] / static_cast<double>(groups);
    if (group == own_group) own = gradient;
  }
  const std::vector<double> together = gradient_of_group(own_group);
  const double size = ranks.sum(squares_between(together, std::vector<double>(together.size())));
  GradientAgreement agreement;
  agreement.elements = static_cast<int64_t>(ranks.sum(static_cast<double>(together.size())));
  agreement.difference = std::sqrt(ranks.sum(squares_between(together, mean)) / size);
  agreement.alone = std::sqrt(ranks.sum(squares_between(together, own)) / size);
  return agreement;
}

}  // namespace causeway::bench
