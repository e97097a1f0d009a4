// Adding nodes to a graph while keeping track of what is known of their values: the part of the random graph generator
// that decides what is numerically tame.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "tests/random_graph/random_graph.h"

namespace causeway::graph {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  int64_t range(int64_t low, int64_t high) {  // inclusive
    return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return static_cast<double>(next() >> 11) * 0x1p-53 < probability; }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(next() % items.size())];
  }

 private:
  uint64_t state_;
};

// What is known of the elements of a value: their range, and how far a correct execution may be from exact ones.
struct Known {
  double low = 0, high = 0, error = 0;
  double magnitude() const { return std::max(std::abs(low), std::abs(high)); }
};

inline constexpr double kLargestFloat = 1000;
inline constexpr double kLargestInteger = 1 << 20;
inline constexpr double kF32Unit = 0x1p-24;

inline double unit_roundoff(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kF32 ? kF32Unit : 0;
}

// The functions that add an op return an invalid Value, and add nothing, when the result would be too large or too
// inexact, or when an operand is invalid: a chain of them stops by itself.
class TrackedGraph {
 public:
  TrackedGraph(uint64_t seed, const RandomGraphOptions& options) : options_(options), random_(seed) {}

 protected:
  Graph& graph() { return result_.graph; }
  const Shape& shape(Value value) { return graph().shape(value); }
  DType dtype(Value value) { return graph().dtype(value); }
  const Known& known(Value value) { return known_.at(value); }
  bool exact(Value value) { return known(value).error == 0; }
  int64_t size(const Dim& dim) { return dim.evaluate(result_.bindings); }
  int64_t elements(const Shape& shape) { return size(element_count(shape)); }
  DType random_dtype() { return options_.bf16 && random_.chance(0.35) ? DType::kBF16 : DType::kF32; }

  // Whether a float value with these properties may be added; integers by magnitude only.
  bool acceptable(const TensorType& type, const Known& known) {
    if (elements(type.shape) > options_.maximum_elements || elements(type.shape) < 1) return false;
    if (!is_float(type.dtype)) return known.magnitude() <= kLargestInteger;
    return known.magnitude() <= kLargestFloat && known.error <= 0.02 + 0.05 * known.magnitude();
  }

  // Adds a node unless its value would grow too large or too inexact; an invalid value then.
  Value add(Op op, const std::vector<Value>& inputs, Attributes attributes, const Known& known) {
    for (const Value input : inputs)
      if (!input.valid()) return {};
    std::vector<TensorType> types;
    for (const Value input : inputs) types.push_back(graph().type(input));
    const std::vector<TensorType> outputs = infer_types(op, types, attributes);
    if (!acceptable(outputs[0], known)) return {};
    const Value value = graph().add(op, inputs, std::move(attributes));
    known_[value] = known;
    pool_.push_back(value);
    for (const Value input : inputs) used_[input] = true;
    return value;
  }

  // `known` with the rounding of a result to `dtype`, computed in f32.
  static Known rounded(DType dtype, Known known) {
    known.error += (unit_roundoff(dtype) + 8 * kF32Unit) * (known.magnitude() + known.error) + 1e-30;
    return known;
  }
  Value add_rounded(Op op, const std::vector<Value>& inputs, const Known& known, Attributes attributes = {}) {
    for (const Value input : inputs)
      if (!input.valid()) return {};
    return add(op, inputs, attributes, rounded(op == Op::kDot ? attributes.dtype : dtype(inputs.back()), known));
  }

  Value new_input(DType dtype, const Shape& shape, double low = -2, double high = 2) {
    const Value value = graph().add_input(fmt::format("x{}", graph().inputs().size()), {dtype, shape});
    result_.inputs.push_back(random_host_tensor(dtype, evaluate(shape, result_.bindings), random_.next(), low, high));
    known_[value] = dtype == DType::kBool ? Known{0, 1, 0} : Known{low, high, 0};
    pool_.push_back(value);
    return value;
  }

  Value constant(DType dtype, const Shape& shape, double value) {
    Attributes attributes;
    attributes.dtype = dtype;
    attributes.shape = shape;
    attributes.value = value;
    const double error = is_float(dtype) ? std::abs(round_to_dtype(dtype, value) - value) : 0;
    return add(Op::kConstant, {}, attributes, {value, value, error});
  }
  Value constant_like(Value value, double number) { return constant(dtype(value), shape(value), number); }

  Value broadcast(Value value, const Shape& to, const std::vector<int64_t>& axes) {
    Attributes attributes;
    attributes.shape = to;
    attributes.axes = axes;
    return value.valid() ? add(Op::kBroadcast, {value}, attributes, known(value)) : Value{};
  }
  Value reshape(Value value, const Shape& to) {
    Attributes attributes;
    attributes.shape = to;
    return value.valid() ? add(Op::kReshape, {value}, attributes, known(value)) : Value{};
  }
  Value cast(Value value, DType to) {
    if (!value.valid()) return {};
    Attributes attributes;
    attributes.dtype = to;
    Known result = known(value);
    if (is_float(to)) {
      const bool keeps = (dtype(value) == DType::kBF16) || dtype(value) == to ||
                         (!is_float(dtype(value)) && result.magnitude() <= (to == DType::kBF16 ? 256 : 1 << 24));
      if (!keeps) result = rounded(to, result);
    } else {
      result = to == DType::kBool ? Known{0, 1, 0} : Known{std::trunc(result.low), std::trunc(result.high), 0};
    }
    return add(Op::kCast, {value}, attributes, result);
  }

  Value sum_of(Op op, Value x, Value y) {  // add or sub
    if (!x.valid() || !y.valid()) return {};
    const Known &a = known(x), &b = known(y);
    const Known result = op == Op::kAdd ? Known{a.low + b.low, a.high + b.high, a.error + b.error}
                                        : Known{a.low - b.high, a.high - b.low, a.error + b.error};
    return is_float(dtype(x)) ? add_rounded(op, {x, y}, result) : add(op, {x, y}, {}, result);
  }
  static Known product_known(const Known& a, const Known& b) {
    const double corners[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    return {*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4),
            a.magnitude() * b.error + b.magnitude() * a.error + a.error * b.error};
  }
  Value multiply(Value x, Value y) {
    if (!x.valid() || !y.valid()) return {};
    const Known result = product_known(known(x), known(y));
    return is_float(dtype(x)) ? add_rounded(Op::kMul, {x, y}, result) : add(Op::kMul, {x, y}, {}, result);
  }
  // y is at least 0.2 here, so that half of it is a safe bound below every computed y.
  Value divide(Value x, Value y) {
    if (!x.valid() || !y.valid() || known(y).low < 0.2 || known(y).error > known(y).low / 2) return {};
    const Known &a = known(x), &b = known(y);
    const double least = b.low / 2, largest = a.magnitude() / b.low;
    return add_rounded(
        Op::kDiv, {x, y},
        {a.low >= 0 ? 0 : -largest, largest, a.error / least + a.magnitude() * b.error / (least * least)});
  }
  Value extreme(Op op, Value x, Value y) {  // max or min
    if (!x.valid() || !y.valid()) return {};
    const Known &a = known(x), &b = known(y);
    const double error = std::max(a.error, b.error);
    return op == Op::kMax ? add(op, {x, y}, {}, {std::max(a.low, b.low), std::max(a.high, b.high), error})
                          : add(op, {x, y}, {}, {std::min(a.low, b.low), std::min(a.high, b.high), error});
  }
  Value absolute(Value x) {
    const Known& a = known(x);
    const double low = a.low > 0 ? a.low : a.high < 0 ? -a.high : 0;
    return add(Op::kAbs, {x}, {}, {low, a.magnitude(), a.error});
  }
  // A value of at least 0.25 made from x.
  Value positive(Value x) {
    if (!x.valid()) return {};
    if (known(x).low >= 0.25 && known(x).error < 0.1) return x;
    const Value magnitude = absolute(x);
    return magnitude.valid() ? sum_of(Op::kAdd, magnitude, constant_like(x, random_.chance(0.5) ? 0.5 : 1)) : Value{};
  }

  Value exp2(Value x) {
    if (!x.valid() || known(x).high > 6 || known(x).error > 0.5) return {};
    const double high = std::exp2(known(x).high);
    return add_rounded(Op::kExp2, {x}, {std::exp2(known(x).low), high, high * known(x).error});
  }
  // sqrt, rsqrt, recip and log2 of a value of at least 0.2.
  Value of_positive(Op op, Value x) {
    if (!x.valid() || known(x).low < 0.2 || known(x).error > known(x).low / 2) return {};
    const Known& a = known(x);
    const double least = a.low / 2;
    switch (op) {
      case Op::kSqrt:
        return add_rounded(op, {x}, {std::sqrt(a.low), std::sqrt(a.high), a.error / (2 * std::sqrt(least))});
      case Op::kRsqrt:
        return add_rounded(op, {x},
                           {1 / std::sqrt(a.high), 1 / std::sqrt(a.low), a.error / (2 * least * std::sqrt(least))});
      case Op::kRecip:
        return add_rounded(op, {x}, {1 / a.high, 1 / a.low, a.error / (least * least)});
      default:
        return add_rounded(op, {x}, {std::log2(a.low), std::log2(a.high), 1.5 * a.error / least + 1e-6});
    }
  }
  Value bounded(Op op, Value x) {  // tanh, erf, sin, cos
    if (!x.valid() || known(x).magnitude() > 100) return {};
    const bool odd = op == Op::kTanh || op == Op::kErf;
    return add_rounded(op, {x}, {odd && known(x).low >= 0 ? 0.0 : -1.0, 1, 1.13 * known(x).error + 1e-6});
  }

  Value reduce(Op op, Value x, const std::vector<int64_t>& axes) {
    if (!x.valid()) return {};
    Attributes attributes;
    attributes.axes = axes;
    const Known& a = known(x);
    double count = 1;
    for (const int64_t axis : axes) count *= static_cast<double>(size(shape(x)[static_cast<size_t>(axis)]));
    if (op == Op::kReduceMax) return add(op, {x}, attributes, a);
    const Known result{a.low * count, a.high * count,
                       count * a.error + (is_float(dtype(x)) ? count * count * kF32Unit * a.magnitude() : 0)};
    return is_float(dtype(x)) ? add_rounded(op, {x}, result, attributes) : add(op, {x}, attributes, result);
  }
  // A reduction over the last axis, as wide as x again; sometimes by way of a size of one.
  Value spread_rows(Value reduced, Value x) {
    if (!reduced.valid()) return {};
    std::vector<int64_t> axes(shape(x).size() - 1);
    std::iota(axes.begin(), axes.end(), int64_t{0});
    if (random_.chance(0.5)) {
      Shape one = shape(reduced);
      one.push_back(1);
      reduced = reshape(reduced, one);
      axes.push_back(static_cast<int64_t>(axes.size()));
    }
    return broadcast(reduced, shape(x), axes);
  }

  // A value of the pool that `suits`, recent ones more often; invalid when there is none.
  template <class Predicate>
  Value choose(Predicate suits) {
    std::vector<Value> candidates;
    for (const Value value : pool_)
      if (suits(value)) candidates.push_back(value);
    if (candidates.empty()) return {};
    if (candidates.size() > 5 && random_.chance(0.5)) candidates.erase(candidates.begin(), candidates.end() - 5);
    return random_.pick(candidates);
  }
  Value choose_float(size_t minimum_rank = 0) {
    return choose([&](Value value) { return is_float(dtype(value)) && shape(value).size() >= minimum_rank; });
  }
  Value choose_exact_float() {
    return choose([&](Value value) { return is_float(dtype(value)) && exact(value); });
  }

  // A second operand of x's type: another value, a constant, a broadcast vector or an input.
  Value partner(Value x) {
    if (!x.valid()) return {};
    const Value same = choose([&](Value value) { return value != x && graph().type(value) == graph().type(x); });
    if (same.valid() && random_.chance(0.6)) return same;
    if (random_.chance(0.3))
      return constant_like(x, is_float(dtype(x)) ? random_.pick<double>({0.5, -1.25, 0.1, 2, 1}) : 3);
    if (!shape(x).empty() && random_.chance(0.6)) {
      const Dim last = shape(x).back();
      Value vector = choose([&](Value value) { return dtype(value) == dtype(x) && shape(value) == Shape{last}; });
      if (!vector.valid()) vector = new_input(dtype(x), {last});
      return broadcast(vector, shape(x), {static_cast<int64_t>(shape(x).size()) - 1});
    }
    return new_input(dtype(x), shape(x));
  }

  const RandomGraphOptions& options_;
  Random random_;
  RandomGraph result_;
  std::vector<Value> pool_;  // in the order they were added
  std::map<Value, Known> known_;
  std::map<Value, bool> used_;
};

}  // namespace causeway::graph
