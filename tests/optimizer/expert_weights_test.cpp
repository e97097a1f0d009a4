// Experts' matrices [experts, out, in] of optimizers that treat a matrix as a whole: each expert's is updated as if it
// were alone, by the published formulas written out in f64 (Jordan's Muon, NorMuon 2510.05491, Adafactor 1804.04235 as
// PyTorch has it). Gradients of experts are of very different sizes, and one expert has none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "causeway/optimizer/optimizer.h"
#include "causeway/tensor/ops.h"
#include "tests/optimizer/optimizer_steps.h"

namespace causeway::optimizer {
namespace {

constexpr double kRate = 0.05, kDecay = 0.1;
constexpr int kSteps = 4;

struct Plain {
  size_t rows, columns;
  std::vector<double> values;

  double& at(size_t i, size_t j) { return values[i * columns + j]; }
  double at(size_t i, size_t j) const { return values[i * columns + j]; }
};

Plain product(const Plain& a, const Plain& b) {
  Plain c{a.rows, b.columns, std::vector<double>(a.rows * b.columns)};
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t k = 0; k < a.columns; ++k)
      for (size_t j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
  return c;
}

Plain flipped(const Plain& a) {
  Plain b{a.columns, a.rows, std::vector<double>(a.values.size())};
  for (size_t i = 0; i < a.rows; ++i)
    for (size_t j = 0; j < a.columns; ++j) b.at(j, i) = a.at(i, j);
  return b;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double root_mean_square(const std::vector<double>& values) {
  return norm_of(values) / std::sqrt(static_cast<double>(values.size()));
}

Plain orthogonal(const Plain& m) {
  const bool is_tall = m.rows > m.columns;
  Plain x = is_tall ? flipped(m) : m;
  const double norm = std::max(norm_of(x.values), 1e-7);
  for (double& value : x.values) value /= norm;
  for (int iteration = 0; iteration < 5; ++iteration) {
    const Plain a = product(x, flipped(x)), aa = product(a, a);
    Plain b = a;
    for (size_t i = 0; i < b.values.size(); ++i) b.values[i] = -4.7750 * a.values[i] + 2.0315 * aa.values[i];
    const Plain bx = product(b, x);
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = 3.4445 * x.values[i] + bx.values[i];
  }
  return is_tall ? flipped(x) : x;
}

// One matrix through all steps.
class PlainOptimizer {
 public:
  PlainOptimizer(std::string name, Plain p)
      : name_(std::move(name)),
        p_(std::move(p)),
        momentum_(p_.values.size()),
        of_rows_(p_.rows),
        of_columns_(p_.columns) {}

  void take(const std::vector<double>& gradient) {
    ++step_;
    if (name_ == "adafactor")
      take_adafactor(gradient);
    else
      take_muon(gradient);
  }
  const std::vector<double>& values() const { return p_.values; }

 private:
  void take_muon(const std::vector<double>& gradient) {
    constexpr double kMomentum = 0.95, kBeta = 0.95, kAboveZero = 1e-10;
    Plain direction = p_;
    for (size_t i = 0; i < gradient.size(); ++i) {
      momentum_[i] = kMomentum * momentum_[i] + (1 - kMomentum) * gradient[i];
      direction.values[i] = kMomentum * momentum_[i] + (1 - kMomentum) * gradient[i];
    }
    direction = orthogonal(direction);
    if (name_ == "normuon") {
      const double before = norm_of(direction.values);
      for (size_t i = 0; i < p_.rows; ++i) {
        double mean = 0;
        for (size_t j = 0; j < p_.columns; ++j)
          mean += direction.at(i, j) * direction.at(i, j) / static_cast<double>(p_.columns);
        of_rows_[i] = kBeta * of_rows_[i] + (1 - kBeta) * mean;
        for (size_t j = 0; j < p_.columns; ++j) direction.at(i, j) /= std::sqrt(of_rows_[i]) + kAboveZero;
      }
      const double after = norm_of(direction.values) + kAboveZero;
      for (double& value : direction.values) value *= before / after;
    }
    step_by(direction.values, kRate * 0.2 * std::sqrt(static_cast<double>(std::max(p_.rows, p_.columns))));
  }

  void take_adafactor(const std::vector<double>& gradient) {
    constexpr double kEpsilon = 0x1p-23;
    const double share = std::pow(step_, -0.8);
    std::vector<double> rows(p_.rows), columns(p_.columns);
    for (size_t i = 0; i < p_.rows; ++i)
      for (size_t j = 0; j < p_.columns; ++j) {
        const double square = gradient[i * p_.columns + j] * gradient[i * p_.columns + j];
        rows[i] += square / static_cast<double>(p_.columns);
        columns[j] += square / static_cast<double>(p_.rows);
      }
    double mean_of_rows = 0;
    for (size_t i = 0; i < p_.rows; ++i) {
      of_rows_[i] += share * (rows[i] - of_rows_[i]);
      mean_of_rows += of_rows_[i] / static_cast<double>(p_.rows);
    }
    for (size_t j = 0; j < p_.columns; ++j) of_columns_[j] += share * (columns[j] - of_columns_[j]);
    std::vector<double> direction(gradient.size());
    for (size_t i = 0; i < p_.rows; ++i)
      for (size_t j = 0; j < p_.columns; ++j) {
        const double square = of_rows_[i] / std::max(mean_of_rows, kEpsilon) * of_columns_[j];
        direction[i * p_.columns + j] = gradient[i * p_.columns + j] / std::sqrt(std::max(square, kEpsilon * kEpsilon));
      }
    const double size = std::max(root_mean_square(p_.values), 1e-3) * std::min(kRate, 1 / std::sqrt(step_));
    step_by(direction, size / std::max(root_mean_square(direction), 1.0));
  }

  void step_by(const std::vector<double>& direction, double size) {
    for (size_t i = 0; i < direction.size(); ++i)
      p_.values[i] = p_.values[i] * (1 - kRate * kDecay) - size * direction[i];
  }

  std::string name_;
  Plain p_;
  std::vector<double> momentum_, of_rows_, of_columns_;
  double step_ = 0;
};

std::vector<double> weight_values(size_t count, const std::function<double(size_t)>& of) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(of(i));
  return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST(ExpertWeights, AreUpdatedAsIfEachExpertsWereAlone) {
  constexpr size_t kExperts = 3;
  for (const char* name : {"muon", "normuon", "adafactor"})
    for (const auto& [rows, columns] : {std::pair<size_t, size_t>{4, 6}, {6, 4}}) {
      SCOPED_TRACE(fmt::format("{} of [{}, {}, {}]", name, kExperts, rows, columns));
      const size_t of_expert = rows * columns;
      const auto start = weight_values(kExperts * of_expert, [&](size_t i) {
        return std::sin(1 + static_cast<double>(i)) * (i < of_expert ? 1.0 : 0.1);
      });
      // Full rank; a hundred times as large for the second expert, nothing for the last.
      const auto gradient_of = [&](int step) {
        return weight_values(kExperts * of_expert, [&, step](size_t i) {
          const double size = i < of_expert ? 1 : i < 2 * of_expert ? 100 : 0;
          const auto x = static_cast<double>(i);
          return size * std::sin(0.7 * x * x + x + step);
        });
      };
      OptimizerConfig config;
      config.name = name;
      config.learning_rate = kRate;
      OptimizerSteps steps(
          config,
          {"model.layers.0.mlp.experts.up_proj.weight",
           Tensor::from_values(start, {kExperts, static_cast<int64_t>(rows), static_cast<int64_t>(columns)}), true});
      std::vector<PlainOptimizer> alone;
      for (size_t e = 0; e < kExperts; ++e)
        alone.emplace_back(name, Plain{rows,
                                       columns,
                                       {start.begin() + static_cast<int64_t>(e * of_expert),
                                        start.begin() + static_cast<int64_t>((e + 1) * of_expert)}});
      PlainOptimizer as_one_matrix(name, Plain{kExperts * rows, columns, start});
      for (int step = 1; step <= kSteps; ++step) {
        const std::vector<double> gradient = gradient_of(step);
        steps.take(gradient, kRate, kDecay);
        for (size_t e = 0; e < kExperts; ++e)
          alone[e].take({gradient.begin() + static_cast<int64_t>(e * of_expert),
                         gradient.begin() + static_cast<int64_t>((e + 1) * of_expert)});
        as_one_matrix.take(gradient);
      }
      std::vector<double> expected;
      for (const PlainOptimizer& one : alone) expected.insert(expected.end(), one.values().begin(), one.values().end());
      EXPECT_LT(largest_difference(steps.values(), expected), 1e-5);
      EXPECT_GT(largest_difference(as_one_matrix.values(), expected), 1e-3);
      // Without a gradient an expert decays and nothing else.
      for (size_t i = 2 * of_expert; i < start.size(); ++i)
        EXPECT_NEAR(steps.values()[i], start[i] * std::pow(1 - kRate * kDecay, kSteps), 1e-6);
    }
}

}  // namespace
}  // namespace causeway::optimizer
