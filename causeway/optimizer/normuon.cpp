// Li et al., NorMuon: Making Muon more efficient and scalable, 2025 (2510.05491): of Muon's direction the rows, one of
// each output, are divided by the root of their running mean square, and the norm of the whole is kept.
#include "causeway/optimizer/optimizers.h"
#include "causeway/optimizer/orthogonal_update.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

constexpr double kAboveZero = 1e-10;

// The dimension of a row, along which an output's elements lie.
int64_t along_row(const Parameter& parameter) { return parameter.tensor.rank() - (parameter.input_first ? 2 : 1); }

// Of a matrix, and of each expert's.
Tensor norm_of(const Tensor& x) { return x.rank() == 2 ? sqrt(sum(x * x)) : sqrt(sum(x * x, {-2, -1}, true)); }

Tensor normalized_rows(const Tensor& direction, const ParameterUpdate& of, const OptimizerConfig& config,
                       std::vector<Tensor>& kept) {
  const double beta = config.own_number("row_beta2");
  const Tensor squares = beta * of.state[1] + (1 - beta) * mean(direction * direction, along_row(of.parameter), true);
  kept.push_back(squares);
  const Tensor scaled = direction / (sqrt(squares) + kAboveZero);
  return scaled * (norm_of(direction) / (norm_of(scaled) + kAboveZero));
}

}  // namespace

Optimizer normuon_optimizer() {
  return orthogonal_optimizer(
      "normuon", {OptimizerKey::below_one("row_beta2", 0.95, "decay of the mean squares of a direction's rows")},
      {.more_state =
           [](const OptimizerConfig&) {
             const auto row = [](const Parameter& parameter) {
               std::vector<int64_t> block(parameter.tensor.shape().size(), 1);
               block[static_cast<size_t>(along_row(parameter))] = OptimizerState::kWholeDim;
               return block;
             };
             return std::vector<OptimizerState>{{"row_moment2", DType::kF32, is_hidden_matrix, row}};
           },
       .normalize = normalized_rows});
}

}  // namespace causeway::optimizer
