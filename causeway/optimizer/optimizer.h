// An optimizer is one file (causeway/optimizer/adamw.cpp, say), which describes it whole: its name, the keys it adds to
// a recipe, what it keeps of every parameter, and how it updates one. Recipes, training steps, checkpoints and plans
// ask the description; nothing else tells one optimizer from another.
//
// The program's own are listed in causeway/optimizer/optimizers.h. Others are added while they are registered:
//
//   const RegisteredOptimizer registered(my_optimizer());
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/optimizer/config.h"
#include "causeway/tensor/tensor.h"

namespace causeway::optimizer {

// A key that an optimizer adds. Several may share one: then they describe it alike, but for its default.
struct OptimizerKey {
  std::string name;              // "beta1", in a recipe optimizer.beta1
  OptimizerValue default_value;  // its kind is the key's
  std::string meaning;           // for help texts and docs/recipes.md
  // What is wrong with a value ("must be above 0"), or nothing.
  std::function<std::string(const OptimizerValue&)> problem = {};
  std::vector<std::string> choices = {};  // of a text

  // Numbers of which the bounds are usual.
  static OptimizerKey above_zero(std::string name, double default_value, std::string meaning);
  static OptimizerKey below_one(std::string name, double default_value, std::string meaning);  // and at least 0
  // A text, the first choice unless a recipe says another.
  static OptimizerKey one_of(std::string name, std::vector<std::string> choices, std::string meaning);
};

// A tensor that is kept of each parameter from step to step: of the parameter's shape unless it says another, lying
// over a mesh as it does, zero before the first step.
struct OptimizerState {
  static constexpr int64_t kWholeDim = 0;

  std::string name;  // its name in checkpoints is that, a point and the parameter's: "moment1.model.norm.weight"
  DType dtype = DType::kF32;
  // Of which parameters; empty: of all of them.
  std::function<bool(const Parameter&)> kept_for = {};
  // For how many neighbouring elements of the parameter there is one here, by dimension (kWholeDim: for all of them).
  // They divide its sizes; a dimension that is whole is not cut over a mesh. Empty: for each element one.
  std::function<std::vector<int64_t>(const Parameter&)> block = {};
  std::string block_key = {};  // the optimizer's key that says their size, if there is one
  // It begins at the parameter's own values, which update() takes in its place at step 1. Where that step is left out
  // because it is not finite, it is set to them, so that later steps find it as they expect. Of the parameter's shape.
  bool begins_as_parameter = false;

  Shape shape(const Parameter& parameter) const;
  Sharding sharding(const Parameter& parameter) const;
  // Of this rank. Throws Error(kInvalidArgument), which names the parameter, where the mesh cuts a block.
  int64_t bytes(const Parameter& parameter) const;
};

// What an update is given.
struct ParameterUpdate {
  const Parameter& parameter;
  Tensor gradient;            // f32, clipped
  std::vector<Tensor> state;  // what is kept of this parameter, in the order of Optimizer::state_of
  Tensor learning_rate;       // f32 []: of this step
  Tensor step;                // f32 []: counts from 1
  double weight_decay = 0;    // 0 for a parameter that does not decay
  int64_t seed = 0;           // of random numbers, below 2^53: the parameter's own, the same on every mesh
  // What is trained, where that is not the parameter's tensor as it lies: an average is kept there, or bf16.
  Tensor trained = {};

  // f32 of the parameter's shape: what an update begins with.
  const Tensor& value() const { return trained.defined() ? trained : parameter.tensor; }
};

struct UpdatedParameter {
  Tensor parameter;  // f32 from an optimizer's update, and as it lies from update_each()
  std::vector<Tensor> state;
};

struct Optimizer {
  std::string name;  // in recipes and in the manifests of checkpoints
  std::vector<OptimizerKey> keys;
  // What is kept of every parameter that it is kept for.
  std::function<std::vector<OptimizerState>(const OptimizerConfig&)> state;
  // New values of a parameter and its state as tensor expressions, traced into the training step. A step that is not
  // finite takes none of them (but see OptimizerState::begins_as_parameter).
  std::function<UpdatedParameter(const ParameterUpdate&, const OptimizerConfig&)> update;
  // Where gradients are taken, of the parameter's shape, as an expression of the parameter, its state and the step (the
  // gradient and the rate are undefined); empty: at the parameter. The parameter itself is what is evaluated and saved.
  std::function<Tensor(const ParameterUpdate&, const OptimizerConfig&)> gradient_point = {};

  // The same of several parameters, where some are better updated together: `take` is given each one's place and new
  // values, as soon as they are traced. Empty: one after the other.
  using Take = std::function<void(size_t place, const UpdatedParameter& updated)>;
  std::function<void(const std::vector<ParameterUpdate>&, const OptimizerConfig&, const Take& take)> update_all = {};
  // What a parameter's rate is to the recipe's where no group says one; empty: 1.
  std::function<double(const Parameter&, const OptimizerConfig&)> rate_factor = {};
  // Weight decay shrinks the parameter, and is not added to the gradient.
  bool decouples_decay = true;

  const OptimizerKey* find_key(std::string_view key) const;
  // update_all, or update of each, with cautious decay, the average and what weights lie in.
  void update_each(const std::vector<ParameterUpdate>& parameters, const OptimizerConfig& config,
                   const Take& take) const;
  // With OptimizerConfig::average_decay the parameter is the average, and what is trained is kept beside the rest: a
  // step takes min(decay, step / (step + 9)) of the average before it. Both lie as OptimizerConfig::weights says.

  // What a parameter's rate is to the recipe's. A group's learning_rate is the rate itself, and rate_factor not for it.
  double rate_factor_of(const Parameter& parameter, const OptimizerConfig& config) const;
  // What is kept of a parameter.
  std::vector<OptimizerState> state_of(const Parameter& parameter, const OptimizerConfig& config) const;
  // The bytes of that on this rank.
  int64_t state_bytes(const Parameter& parameter, const OptimizerConfig& config) const;
  // Of what is kept of each element of all parameters, by the number of elements alone.
  int64_t least_state_bytes(int64_t elements, const OptimizerConfig& config) const;
  // Whether gradients are not taken at the parameter, and where they are then: of the parameter's shape, f32 or, where
  // what is trained lies in bf16, that.
  bool has_gradient_point(const OptimizerConfig& config) const;
  Tensor gradient_point_of(const ParameterUpdate& of, const OptimizerConfig& config) const;
};

// Throws Error(kInvalidArgument) with the nearest name, at "optimizer.name".
const Optimizer& find_optimizer(std::string_view name);
// In the order of their registration.
std::vector<std::string> optimizer_names();

// Every key that some optimizer adds, once, and the optimizers that do.
struct SharedOptimizerKey {
  const OptimizerKey& key;  // of the first of them
  std::vector<std::string> optimizers;
  // Of an optimizer: its own default, or where it has no such key that of the first that has.
  const OptimizerValue& default_of(std::string_view optimizer) const;
};
std::vector<SharedOptimizerKey> shared_optimizer_keys();

// An optimizer besides the program's own, for as long as this lives. Not while steps are made on other threads.
class RegisteredOptimizer {
 public:
  // The name must be new, and a key that another optimizer adds too be described as there, but for its default.
  explicit RegisteredOptimizer(Optimizer optimizer);
  RegisteredOptimizer(const RegisteredOptimizer&) = delete;
  RegisteredOptimizer& operator=(const RegisteredOptimizer&) = delete;
  ~RegisteredOptimizer();

 private:
  std::string name_;
};

}  // namespace causeway::optimizer
