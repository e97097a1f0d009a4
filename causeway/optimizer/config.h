// What a recipe says of the optimizer: which one it is, what all of them take, and the keys that this one adds
// (causeway/optimizer/optimizer.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "causeway/base/named_values.h"
#include "causeway/optimizer/parameter_group.h"

namespace causeway::optimizer {

// The value of a key that belongs to some optimizers only.
using OptimizerValue = std::variant<int64_t, double, bool, std::string>;

// What optimizer.gradient_clip bounds: the norm of all gradients together, or the magnitude of each element.
enum class GradientClip { kNorm, kValue };
constexpr auto named_values(GradientClip) {
  return std::to_array<NamedValue<GradientClip>>({{GradientClip::kNorm, "norm"}, {GradientClip::kValue, "value"}});
}

// What matrices and tables that are trained lie in (causeway/optimizer/held_weight.h).
enum class HeldWeights { kF32, kBf16Stochastic, kBf16Kahan };
constexpr auto named_values(HeldWeights) {
  return std::to_array<NamedValue<HeldWeights>>({{HeldWeights::kF32, "f32"},
                                                 {HeldWeights::kBf16Stochastic, "bf16_stochastic"},
                                                 {HeldWeights::kBf16Kahan, "bf16_kahan"}});
}

struct OptimizerConfig {
  std::string name = "adamw";  // of a registered one
  double learning_rate = 3e-4;
  double weight_decay = 0.1;    // of matrices; norms and biases have none
  bool cautious_decay = false;  // no decay where it is against the step
  double gradient_clip = 1.0;   // 0: no clipping
  GradientClip gradient_clip_by = GradientClip::kNorm;
  // Of an exponential average of the weights, which is then what is evaluated and saved; 0: no average.
  double average_decay = 0;
  HeldWeights weights = HeldWeights::kF32;
  std::vector<ParameterGroup> groups = {};  // parameters of which something else holds
  // Of the keys that it adds, by name; what is not here has the key's default.
  std::map<std::string, OptimizerValue> own;

  // The value of a key of the optimizer's own.
  int64_t own_integer(const std::string& key) const;
  double own_number(const std::string& key) const;
  bool own_truth(const std::string& key) const;
  const std::string& own_text(const std::string& key) const;

  // What a parameter's rate is to learning_rate, and its decay; `decays`: it does by itself.
  double rate_factor(std::string_view parameter) const;
  double decay_of(std::string_view parameter, bool decays) const;
  bool is_frozen(std::string_view parameter) const;

  // Fills in every key of the optimizer's own and checks everything. Throws Error(kInvalidArgument) naming the key as
  // it stands in a recipe ("optimizer.beta1"); so for a key that another optimizer adds, unless its value is the
  // default, which is left out.
  OptimizerConfig resolved() const;
  // Without the values of keys that other optimizers add.
  OptimizerConfig without_foreign_keys() const;

  bool operator==(const OptimizerConfig&) const = default;
};

}  // namespace causeway::optimizer
