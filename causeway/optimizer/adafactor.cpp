// Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018 (1804.04235), as
// torch.optim.Adafactor: of a matrix the second moment is kept as the means of its rows and columns, there is no first
// moment, and a step is a share of the parameter's own root mean square. Each expert's matrix is a parameter of its
// own.
#include <cmath>

#include "causeway/optimizer/optimizers.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

bool has_factors(const Parameter& parameter) { return parameter.tensor.shape().size() > 1; }

Tensor root_mean_square(const Tensor& x) { return sqrt(x.rank() < 3 ? mean(x * x) : mean(x * x, {-2, -1}, true)); }

UpdatedParameter adafactor_update(const ParameterUpdate& of, const OptimizerConfig& config) {
  const Tensor &p = of.value(), &g = of.gradient;
  // 1 - the decay of this step.
  const Tensor share = exp2(log2(of.step) * config.own_number("decay_power"));
  const double epsilon = config.own_number("variance_epsilon");
  const Tensor squares = g * g;
  const auto toward = [&](const Tensor& average, const Tensor& now) { return average + share * (now - average); };
  UpdatedParameter updated;
  Tensor square;
  if (has_factors(of.parameter)) {
    const Tensor rows = toward(of.state[0], mean(squares, -1, true));
    const Tensor columns = toward(of.state[1], mean(squares, -2, true));
    square = rows / clamp_min(mean(rows, -2, true), epsilon) * columns;
    updated.state = {rows, columns};
  } else {
    square = toward(of.state[0], squares);
    updated.state = {square};
  }
  const Tensor direction = g * rsqrt(clamp_min(square, epsilon * epsilon));
  const Tensor largest = minimum(of.learning_rate, rsqrt(of.step));
  const Tensor size = clamp_min(root_mean_square(p), config.own_number("scale_epsilon")) * largest;
  const Tensor excess = clamp_min(root_mean_square(direction) / config.own_number("clip_threshold"), 1.0);
  const Tensor decayed = of.weight_decay == 0 ? p : p * (1.0 - of.learning_rate * of.weight_decay);
  updated.parameter = decayed - direction * (size / excess);
  return updated;
}

}  // namespace

Optimizer adafactor_optimizer() {
  Optimizer optimizer;
  optimizer.name = "adafactor";
  optimizer.keys = {
      {"decay_power", -0.8, "step to this power is what an average takes of a new value",
       [](const OptimizerValue& value) -> std::string {
         return std::get<double>(value) <= 0 ? "" : "must not be above 0";
       }},
      OptimizerKey::above_zero("variance_epsilon", 0x1p-23, "least root of the second moment"),
      OptimizerKey::above_zero("scale_epsilon", 1e-3, "least root mean square of a parameter that scales its steps"),
      {"clip_threshold", 1.0, "root mean square that an update is cut to",
       [](const OptimizerValue& value) -> std::string {
         return std::get<double>(value) >= 1 ? "" : "must be at least 1";
       }}};
  optimizer.state = [](const OptimizerConfig&) {
    const auto block = [](int64_t rows, int64_t columns) {
      return [=](const Parameter& parameter) {
        std::vector<int64_t> sizes(parameter.tensor.shape().size(), 1);
        sizes[sizes.size() - 2] = rows;
        sizes[sizes.size() - 1] = columns;
        return sizes;
      };
    };
    const auto is_vector = [](const Parameter& parameter) { return !has_factors(parameter); };
    return std::vector<OptimizerState>{
        {"moment2_rows", DType::kF32, has_factors, block(1, OptimizerState::kWholeDim)},
        {"moment2_columns", DType::kF32, has_factors, block(OptimizerState::kWholeDim, 1)},
        {"moment2", DType::kF32, is_vector}};
  };
  optimizer.update = adafactor_update;
  return optimizer;
}

}  // namespace causeway::optimizer
