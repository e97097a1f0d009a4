#include "causeway/optimizer/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "causeway/base/error.h"
#include "causeway/base/field_words.h"
#include "causeway/model/family.h"
#include "causeway/optimizer/held_weight.h"
#include "causeway/optimizer/optimizers.h"
#include "causeway/program/context.h"
#include "causeway/tensor/ops.h"

namespace causeway::optimizer {
namespace {

using Optimizers = std::vector<std::unique_ptr<const Optimizer>>;  // pointers, so that a description stays where it is

void add_optimizer(Optimizers& optimizers, Optimizer added) {
  for (const auto& other : optimizers) {
    CAUSEWAY_CHECK(other->name != added.name, "two optimizers of the name {}", added.name);
    for (const OptimizerKey& key : added.keys) {
      const OptimizerKey* same = other->find_key(key.name);
      CAUSEWAY_CHECK(
          same == nullptr || (same->default_value.index() == key.default_value.index() && same->meaning == key.meaning),
          "the key {} of {} is another in {}", key.name, added.name, other->name);
    }
  }
  optimizers.push_back(std::make_unique<const Optimizer>(std::move(added)));
}

Optimizers& optimizers() {
  static Optimizers all = [] {
    Optimizers own;
    for (Optimizer& one : own_optimizers()) add_optimizer(own, std::move(one));
    return own;
  }();
  return all;
}

std::vector<std::string> owners_of(std::string_view key) {
  std::vector<std::string> names;
  for (const auto& one : optimizers())
    if (one->find_key(key) != nullptr) names.push_back(one->name);
  return names;
}

void require(bool condition, const std::string& key, const std::string& what, const std::string& hint = {}) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, what, "optimizer." + key, hint);
}

// As the optimizer's own update is given it: with what that keeps.
ParameterUpdate own_update(const ParameterUpdate& of, const OptimizerConfig& config) {
  ParameterUpdate one = of;
  one.state.resize(of.state.size() - weight_states(of.parameter, config).size());
  return one;
}

// Chen et al., Cautious Weight Decay, 2025 (2510.12402).
Tensor decayed_cautiously(const Tensor& before, const Tensor& after, const Tensor& share) {
  const Tensor shrinks = ge(before * (before - after), 0.0);
  return where(shrinks, after - before * share, after);
}

template <class T>
const T& own_value(const OptimizerConfig& config, const std::string& name) {
  const auto given = config.own.find(name);
  if (given != config.own.end()) return std::get<T>(given->second);
  const OptimizerKey* key = find_optimizer(config.name).find_key(name);
  CAUSEWAY_CHECK(key != nullptr, "the optimizer {} has no key {}", config.name, name);
  return std::get<T>(key->default_value);
}

}  // namespace

OptimizerKey OptimizerKey::above_zero(std::string name, double default_value, std::string meaning) {
  return {std::move(name), default_value, std::move(meaning), [](const OptimizerValue& value) -> std::string {
            return std::get<double>(value) > 0 ? "" : "must be above 0";
          }};
}

OptimizerKey OptimizerKey::below_one(std::string name, double default_value, std::string meaning) {
  return {std::move(name), default_value, std::move(meaning), [](const OptimizerValue& value) -> std::string {
            const double number = std::get<double>(value);
            return number >= 0 && number < 1 ? "" : "must be at least 0 and below 1";
          }};
}

OptimizerKey OptimizerKey::one_of(std::string name, std::vector<std::string> choices, std::string meaning) {
  OptimizerKey key{std::move(name), choices.front(), std::move(meaning)};
  key.problem = [choices](const OptimizerValue& value) -> std::string {
    const auto& text = std::get<std::string>(value);
    return std::ranges::find(choices, text) != choices.end()
               ? ""
               : fmt::format("'{}' is not one of {}", text, fmt::join(choices, ", "));
  };
  key.choices = std::move(choices);
  return key;
}

Shape OptimizerState::shape(const Parameter& parameter) const {
  Shape shape = parameter.tensor.shape();
  if (!block) return shape;
  const std::vector<int64_t> sizes = block(parameter);
  CAUSEWAY_CHECK(sizes.size() == shape.size(), "{}: a block of {} dimensions of {}", name, sizes.size(),
                 parameter.name);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = shape[i].constant(), of_block = sizes[i] == kWholeDim ? size : sizes[i];
    CAUSEWAY_CHECK(size % of_block == 0, "{}: blocks of {} do not divide {} of {}", name, of_block, size,
                   parameter.name);
    shape[i] = Dim(size / of_block);
  }
  return shape;
}

Sharding OptimizerState::sharding(const Parameter& parameter) const {
  Sharding sharding = parameter.tensor.sharding();
  if (!block || sharding.dims.empty()) return sharding;
  const std::vector<int64_t> sizes = block(parameter), local = parameter.tensor.local_shape();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == kWholeDim) {
      sharding.dims[i].clear();
    } else if (local[i] % sizes[i] != 0) {
      const int64_t fits = std::gcd(local[i], sizes[i]);
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the mesh cuts {} [{}] into parts of {} along dimension {}, and {} of the optimizer is "
                              "kept by blocks of {} there",
                              parameter.name, fmt::join(evaluate(parameter.tensor.shape(), {}), ", "), local[i], i,
                              name, sizes[i]),
                  fmt::format("mesh.{}", sharding.dims[i].back()),
                  block_key.empty() ? fmt::format("Parts of a multiple of {} would do.", sizes[i])
                                    : fmt::format("Parts of a multiple of {} would do, or optimizer.{}={}.", sizes[i],
                                                  block_key, fits));
    }
  }
  return sharding;
}

int64_t OptimizerState::bytes(const Parameter& parameter) const {
  const Shape local = local_shape(shape(parameter), sharding(parameter), parameter.tensor.context()->mesh());
  return element_count(local).constant() * static_cast<int64_t>(size_bytes(dtype));
}

const OptimizerKey* Optimizer::find_key(std::string_view key) const {
  const auto found = std::ranges::find(keys, key, &OptimizerKey::name);
  return found == keys.end() ? nullptr : &*found;
}

void Optimizer::update_each(const std::vector<ParameterUpdate>& parameters, const OptimizerConfig& config,
                            const Take& take) const {
  std::vector<WeightValues> before;
  std::vector<ParameterUpdate> updates;
  for (const ParameterUpdate& of : parameters) {
    before.push_back(weight_values(of, config));
    ParameterUpdate& one = updates.emplace_back(own_update(of, config));
    one.trained = before.back().trained;
    if (config.cautious_decay) one.weight_decay = 0;
  }
  const Take take_trained = [&](size_t i, UpdatedParameter updated) {
    if (config.cautious_decay && parameters[i].weight_decay > 0)
      updated.parameter = decayed_cautiously(before[i].trained, updated.parameter,
                                             parameters[i].learning_rate * parameters[i].weight_decay);
    take(i, stored_weights(parameters[i], before[i], std::move(updated), config));
  };
  if (update_all) return update_all(updates, config, take_trained);
  for (size_t i = 0; i < updates.size(); ++i) take_trained(i, update(updates[i], config));
}

double Optimizer::rate_factor_of(const Parameter& parameter, const OptimizerConfig& config) const {
  const ParameterGroup* group = group_of(config.groups, parameter.name);
  const bool has_own_rate = group != nullptr && group->learning_rate;
  return config.rate_factor(parameter.name) * (rate_factor && !has_own_rate ? rate_factor(parameter, config) : 1);
}

std::vector<OptimizerState> Optimizer::state_of(const Parameter& parameter, const OptimizerConfig& config) const {
  std::vector<OptimizerState> kept;
  for (const OptimizerState& one : state(config))
    if (!one.kept_for || one.kept_for(parameter)) kept.push_back(one);
  for (OptimizerState& one : weight_states(parameter, config)) kept.push_back(std::move(one));
  return kept;
}

bool Optimizer::has_gradient_point(const OptimizerConfig& config) const {
  return gradient_point || config.average_decay > 0;
}

Tensor Optimizer::gradient_point_of(const ParameterUpdate& of, const OptimizerConfig& config) const {
  if (!gradient_point) return trained_weight(of, config);
  ParameterUpdate one = own_update(of, config);
  one.trained = weight_values(of, config).trained;
  return gradient_point(one, config);
}

int64_t Optimizer::state_bytes(const Parameter& parameter, const OptimizerConfig& config) const {
  int64_t bytes = 0;
  for (const OptimizerState& one : state_of(parameter, config)) bytes += one.bytes(parameter);
  return bytes;
}

int64_t Optimizer::least_state_bytes(int64_t elements, const OptimizerConfig& config) const {
  int64_t bytes = 0;
  for (const OptimizerState& one : state(config))
    if (!one.kept_for && !one.block) bytes += elements * static_cast<int64_t>(size_bytes(one.dtype));
  return bytes + elements * weight_state_bytes_of_element(config);
}

const Optimizer& find_optimizer(std::string_view name) {
  for (const auto& one : optimizers())
    if (one->name == name) return *one;
  const std::vector<std::string> names = optimizer_names();
  const std::string all = fmt::format("{} {}.", names.size() == 1 ? "There is" : "There are", list_names(names));
  const std::string hint = name_hint(NameOf::kOptimizer, name, names);
  throw Error(ErrorKind::kInvalidArgument, fmt::format("unknown optimizer '{}'", name), "optimizer.name",
              hint.empty()              ? all
              : hint.starts_with("Did") ? hint
                                        : fmt::format("{} {}", hint, all));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& one : optimizers()) names.push_back(one->name);
  return names;
}

std::vector<SharedOptimizerKey> shared_optimizer_keys() {
  std::vector<SharedOptimizerKey> shared;
  for (const auto& one : optimizers())
    for (const OptimizerKey& key : one->keys)
      if (std::ranges::none_of(shared, [&](const SharedOptimizerKey& other) { return other.key.name == key.name; }))
        shared.push_back({key, owners_of(key.name)});
  return shared;
}

const OptimizerValue& SharedOptimizerKey::default_of(std::string_view optimizer) const {
  const OptimizerKey* own = find_optimizer(optimizer).find_key(key.name);
  return (own == nullptr ? key : *own).default_value;
}

RegisteredOptimizer::RegisteredOptimizer(Optimizer optimizer) : name_(optimizer.name) {
  add_optimizer(optimizers(), std::move(optimizer));
}

RegisteredOptimizer::~RegisteredOptimizer() {
  std::erase_if(optimizers(), [&](const auto& one) { return one->name == name_; });
}

int64_t OptimizerConfig::own_integer(const std::string& key) const { return own_value<int64_t>(*this, key); }
double OptimizerConfig::own_number(const std::string& key) const { return own_value<double>(*this, key); }
bool OptimizerConfig::own_truth(const std::string& key) const { return own_value<bool>(*this, key); }
const std::string& OptimizerConfig::own_text(const std::string& key) const {
  return own_value<std::string>(*this, key);
}

double OptimizerConfig::rate_factor(std::string_view parameter) const {
  const ParameterGroup* group = group_of(groups, parameter);
  if (group == nullptr) return 1;
  return group->learning_rate ? *group->learning_rate / learning_rate : group->rate_factor.value_or(1);
}

double OptimizerConfig::decay_of(std::string_view parameter, bool decays) const {
  const ParameterGroup* group = group_of(groups, parameter);
  const double usual = decays ? weight_decay : 0;
  return group == nullptr ? usual : group->weight_decay.value_or(usual);
}

bool OptimizerConfig::is_frozen(std::string_view parameter) const {
  const ParameterGroup* group = group_of(groups, parameter);
  return group != nullptr && group->frozen;
}

OptimizerConfig OptimizerConfig::without_foreign_keys() const {
  OptimizerConfig c = *this;
  const Optimizer& described = find_optimizer(name);
  std::erase_if(c.own, [&](const auto& entry) { return described.find_key(entry.first) == nullptr; });
  return c;
}

OptimizerConfig OptimizerConfig::resolved() const {
  const Optimizer& described = find_optimizer(name);
  require(learning_rate > 0, "learning_rate", "must be above 0");
  require(weight_decay >= 0, "weight_decay", "must not be negative");
  require(!cautious_decay || described.decouples_decay, "cautious_decay",
          fmt::format("{} adds the decay to the direction of its step, and cannot leave it out", name),
          "Delete the key, or choose another optimizer with optimizer.name.");
  require(gradient_clip >= 0, "gradient_clip", "must not be negative");
  require(average_decay >= 0 && average_decay < 1, "average_decay", "must be at least 0 and below 1");
  require(gradient_clip_by == GradientClip::kNorm || gradient_clip > 0, "gradient_clip_by",
          "has no effect without optimizer.gradient_clip", "Say with optimizer.gradient_clip what the bound is.");
  for (const auto& [key, value] : own) {
    if (described.find_key(key) != nullptr) continue;
    const std::vector<std::string> owners = owners_of(key);
    require(!owners.empty(), key, "unknown key");
    const auto is_default = [&](const std::string& owner) {
      return value == find_optimizer(owner).find_key(key)->default_value;
    };
    require(std::ranges::any_of(owners, is_default), key,
            fmt::format("has no effect on {}: it belongs to {}", name, list_names(owners)),
            "Delete the key, or choose what it belongs to with optimizer.name.");
  }
  OptimizerConfig c = *this;
  c.own.clear();
  for (const OptimizerKey& key : described.keys) {
    const auto given = own.find(key.name);
    const OptimizerValue& value = given == own.end() ? key.default_value : given->second;
    require(value.index() == key.default_value.index(), key.name, "has another kind of value");
    const std::string problem = key.problem ? key.problem(value) : "";
    require(problem.empty(), key.name, problem);
    c.own.emplace(key.name, value);
  }
  return c;
}

}  // namespace causeway::optimizer
