// One training step of a small transformer as a front end would trace it: embedding, pre-norm blocks of causal
// attention and a gated MLP, linear cross-entropy, gradients, and an AdamW-like update of every parameter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "causeway/base/error.h"
#include "causeway/graph/host_tensor.h"
#include "causeway/graph/interpreter.h"
#include "causeway/passes/gradient.h"
#include "tests/fixtures/op_literal.h"
#include "tests/passes/attention_specs.h"

namespace causeway::passes {

struct SmallModel {
  Graph graph;  // outputs: the loss; assignments: parameters and both moments
  std::vector<HostTensor> inputs;
  size_t first_parameter = 0;  // among the inputs; each parameter is followed by its moments
  size_t parameters = 0;
};

class SmallModelBuilder {
 public:
  SmallModelBuilder(int64_t layers, int64_t width, int64_t length, int64_t vocabulary)
      : b_(model_.graph), layers_(layers), width_(width), length_(length), vocabulary_(vocabulary) {}

  SmallModel build() {
    const Value tokens = input("tokens", DType::kI32, {kBatch * length_}, 0, static_cast<double>(vocabulary_));
    const Value targets = input("targets", DType::kI32, {kBatch * length_}, -1, static_cast<double>(vocabulary_));
    const Value token_weights = input("token_weights", DType::kF32, {kBatch * length_}, 0.01, 0.02);
    model_.first_parameter = model_.inputs.size();
    const Value table = parameter("embedding", {vocabulary_, width_});
    Value x = b_.gather(table, tokens, 0);
    for (int64_t layer = 0; layer < layers_; ++layer) x = block(x, fmt::format("layers.{}", layer));
    model_.graph.set_scope("head");
    const Value loss =
        model_.graph.add("linear_cross_entropy"_op, {norm(x, "head.norm"), table, targets, token_weights});
    model_.graph.set_scope("");
    model_.graph.outputs = {loss};
    update(loss);
    model_.parameters = parameters_.size();
    return std::move(model_);
  }

 private:
  static constexpr int64_t kBatch = 2;
  static constexpr int64_t kHeads = 2;

  struct Parameter {
    Value value, first, second;
  };

  Value input(const std::string& name, DType dtype, std::vector<int64_t> shape, double low, double high) {
    const Value value = model_.graph.add_input(name, {dtype, Shape(shape.begin(), shape.end())});
    model_.inputs.push_back(random_host_tensor(dtype, shape, 100 + model_.inputs.size(), low, high));
    return value;
  }

  Value parameter(const std::string& name, const std::vector<int64_t>& shape) {
    parameters_.push_back({input(name, DType::kF32, shape, -0.5, 0.5),
                           input(name + ".m", DType::kF32, shape, -0.01, 0.01),
                           input(name + ".v", DType::kF32, shape, 0, 0.01)});
    return parameters_.back().value;
  }

  Value rows(Value vector, Value like) { return b_.broadcast(vector, b_.shape(like), {1}); }

  // RMS norm of [N, C].
  Value norm(Value x, const std::string& name) {
    const Value mean = b_.scale(b_.reduce_sum(b_.mul(x, x), {1}), 1.0 / static_cast<double>(width_));
    const Value root = model_.graph.add("sqrt"_op, {b_.add(mean, b_.constant_like(mean, 1e-5))});
    const Value normed = b_.mul(x, b_.broadcast(b_.recip(root), b_.shape(x), {0}));
    return b_.mul(normed, rows(parameter(name, {width_}), x));
  }

  Value linear(Value x, const std::string& name, int64_t out) {
    const int64_t in = b_.shape(x)[1].constant();
    return b_.dot(x, parameter(name, {out, in}), false, true, DType::kF32);
  }

  Value silu(Value x) {
    const Value one = b_.constant_like(x, 1);
    return b_.div(x, b_.add(one, b_.exp2(b_.scale(x, -std::numbers::log2e))));
  }

  Value block(Value x, const std::string& scope) {
    model_.graph.set_scope(scope + ".attention");
    const int64_t head = width_ / kHeads;
    const Value normed = norm(x, scope + ".attention_norm");
    std::vector<Value> qkv;
    for (const char* name : {".q", ".k", ".v"})
      qkv.push_back(b_.reshape(linear(normed, scope + name, width_), {kBatch, length_, kHeads, head}));
    Attributes attributes;
    auto spec = std::make_shared<AttentionSpec>();
    spec->mask = causal_mask();
    spec->scale = 0.5;
    attributes.attention = spec;
    const Value attended = model_.graph.add("attention"_op, qkv, attributes);
    x = b_.add(x, linear(b_.reshape(attended, {kBatch * length_, width_}), scope + ".out", width_));
    model_.graph.set_scope(scope + ".mlp");
    const Value hidden = norm(x, scope + ".mlp_norm");
    const Value gated =
        b_.mul(silu(linear(hidden, scope + ".gate", 4 * width_)), linear(hidden, scope + ".up", 4 * width_));
    return b_.add(x, linear(gated, scope + ".down", width_));
  }

  void update(Value loss) {
    std::vector<Value> wrt;
    for (const Parameter& p : parameters_) wrt.push_back(p.value);
    const std::vector<Value> gradients = add_gradients(model_.graph, loss, wrt);
    // Clipping by the global norm, then AdamW.
    Value square_norm = b_.constant(DType::kF32, {}, 0);
    for (const Value g : gradients) {
      std::vector<int64_t> axes;
      for (size_t d = 0; d < b_.shape(g).size(); ++d) axes.push_back(static_cast<int64_t>(d));
      square_norm = b_.add(square_norm, b_.reduce_sum(b_.mul(g, g), axes));
    }
    const Value rsqrt = model_.graph.add("rsqrt"_op, {b_.add(square_norm, b_.constant_like(square_norm, 1e-6))});
    const Value clip = model_.graph.add("min"_op, {rsqrt, b_.constant_like(rsqrt, 1)});
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& p = parameters_[i];
      const Value g = b_.mul(gradients[i], b_.broadcast(clip, b_.shape(p.value), {}));
      const Value first = b_.add(b_.scale(p.first, 0.9), b_.scale(g, 0.1));
      const Value second = b_.add(b_.scale(p.second, 0.99), b_.scale(b_.mul(g, g), 0.01));
      const Value root = model_.graph.add("sqrt"_op, {second});
      const Value step = b_.div(first, b_.add(root, b_.constant_like(root, 1e-3)));
      const Value next = b_.sub(b_.scale(p.value, 0.999), b_.scale(step, 0.01));
      model_.graph.assignments.push_back({p.value, next});
      model_.graph.assignments.push_back({p.first, first});
      model_.graph.assignments.push_back({p.second, second});
    }
  }

  SmallModel model_;
  Builder b_;
  int64_t layers_, width_, length_, vocabulary_;
  std::vector<Parameter> parameters_;
};

// The loss of a graph made for narrow types from the model's, each result rounded, and how far every parameter's first
// moment moved, which is its gradient: the error's rms over that of what it moved by.
inline void expect_rounded_values(const SmallModel& model, const Graph& narrow, double loss_share,
                                  double gradient_rms) {
  const std::vector<HostTensor> exact = interpret(model.graph, model.inputs);
  const std::vector<HostTensor> rounded = interpret(narrow, model.inputs, {}, Rounding::kRounded);
  const double loss = exact[0].values[0];
  EXPECT_NE(rounded[0].values[0], loss);
  EXPECT_NEAR(rounded[0].values[0], loss, loss_share * loss);
  // Assignments: a parameter, its first and its second moment, in turn; inputs likewise.
  for (size_t i = 0; i < model.parameters; ++i) {
    const HostTensor& before = model.inputs[model.first_parameter + 3 * i + 1];
    const HostTensor &expected = exact[1 + 3 * i + 1], &actual = rounded[1 + 3 * i + 1];
    double error = 0, moved = 0;
    for (size_t e = 0; e < before.values.size(); ++e) {
      error += std::pow(actual.values[e] - expected.values[e], 2);
      moved += std::pow(expected.values[e] - 0.9 * before.values[e], 2);
    }
    EXPECT_GT(moved, 0) << "parameter " << i;
    EXPECT_LE(std::sqrt(error), gradient_rms * std::sqrt(moved)) << "gradient of parameter " << i;
  }
}

inline SmallModel small_model(int64_t layers = 2, int64_t width = 8, int64_t length = 6, int64_t vocabulary = 11) {
  return SmallModelBuilder(layers, width, length, vocabulary).build();
}

}  // namespace causeway::passes
