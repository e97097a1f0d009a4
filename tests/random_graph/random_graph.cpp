#include "tests/random_graph/random_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "causeway/graph/op.h"
#include "tests/random_graph/random_graph_values.h"

namespace causeway::graph {
namespace {

class RandomGraphBuilder : TrackedGraph {
 public:
  using TrackedGraph::TrackedGraph;

  RandomGraph build() {
    choose_sizes();
    const auto target = static_cast<size_t>(random_.range(options_.minimum_nodes, options_.maximum_nodes));
    new_input(DType::kF32, base_);
    new_input(random_dtype(), base_);
    for (int attempt = 0; attempt < 2000 && graph().nodes().size() < target; ++attempt) {
      if (random_.chance(0.2)) graph().set_scope(fmt::format("layers.{}", graph().nodes().size() / 8));
      step();
    }
    graph().set_scope({});
    choose_outputs();
    graph().verify("random graph");
    return std::move(result_);
  }

 private:
  void choose_sizes() {
    static const std::vector<int64_t> kSizes = {1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 24, 31, 33};
    static const std::vector<int64_t> kColumns = {4, 6, 7, 8, 12, 15, 16, 20, 33, 64};
    Dim batch(random_.range(1, 3)), length(random_.pick(kSizes));
    if (options_.symbolic) {
      batch = Dim::symbol("B");
      result_.bindings[batch.symbols()[0]] = random_.range(1, 5);
      const bool multiple = random_.chance(0.5);
      length = multiple ? Dim::symbol("T", 8) : Dim::symbol("L");
      result_.bindings[length.symbols()[0]] = multiple ? random_.range(1, 3) : random_.range(2, 19);
    }
    const Dim columns(random_.pick(kColumns));
    if (random_.chance(0.5))
      base_ = {batch, length, columns};
    else if (random_.chance(0.7))
      base_ = {length, columns};
    else
      base_ = {batch, random_.range(2, 5), length, columns};
    if (elements(base_) > options_.maximum_elements) base_ = {length, columns};
  }

  void unary() {
    const Value x = choose_float();
    switch (random_.range(0, 8)) {
      case 0:
        add(Op::kNeg, {x}, {}, {-known(x).high, -known(x).low, known(x).error});
        break;
      case 1:
        absolute(x);
        break;
      case 2:
        exp2(x);
        break;
      case 3:
        bounded(random_.pick<Op>({Op::kTanh, Op::kErf}), x);
        break;
      case 4:
        bounded(random_.pick<Op>({Op::kSin, Op::kCos}), x);
        break;
      case 5:
        if (const Value y = choose_exact_float(); y.valid())
          add(Op::kFloor, {y}, {}, {std::floor(known(y).low), std::floor(known(y).high), 0});
        break;
      default:
        of_positive(random_.pick<Op>({Op::kSqrt, Op::kRsqrt, Op::kRecip, Op::kLog2}), positive(x));
        break;
    }
  }

  void binary() {
    const Value x = choose_float();
    const Value y = partner(x);
    switch (random_.range(0, 6)) {
      case 0:
        multiply(x, y);
        break;
      case 1:
        divide(x, positive(y));
        break;
      case 2:
        extreme(random_.chance(0.5) ? Op::kMax : Op::kMin, x, y);
        break;
      case 3: {
        const Value z = partner(x);
        if (!y.valid() || !z.valid()) break;
        Known result = product_known(known(x), known(y));
        result.low += known(z).low;
        result.high += known(z).high;
        // The product may have been rounded on its own.
        result.error += known(z).error + unit_roundoff(dtype(x)) * known(x).magnitude() * known(y).magnitude();
        add_rounded(Op::kFma, {x, y, z}, result);
        break;
      }
      case 4: {
        const Value base = positive(x);
        if (!base.valid() || known(base).magnitude() > 6) break;
        const double exponent = random_.pick<double>({0.5, 2, 3, -1});
        const double a = std::pow(known(base).low, exponent), b = std::pow(known(base).high, exponent);
        const double slope = std::abs(exponent) * std::max(std::pow(known(base).low / 2, exponent - 1),
                                                           std::pow(known(base).high * 1.1, exponent - 1));
        add_rounded(Op::kPow, {base, constant_like(base, exponent)},
                    {std::min(a, b), std::max(a, b), slope * known(base).error + 8 * kF32Unit * std::max(a, b)});
        break;
      }
      default:
        sum_of(random_.chance(0.6) ? Op::kAdd : Op::kSub, x, y);
        break;
    }
  }

  // x -> f(x), g(x) -> f(x) * g(x) or their sum.
  void diamond() {
    const Value x = choose_float();
    const Value left = bounded(random_.pick<Op>({Op::kTanh, Op::kErf, Op::kSin}), x);
    const Value right = random_.chance(0.5) ? extreme(Op::kMax, x, constant_like(x, 0)) : multiply(x, x);
    if (random_.chance(0.5))
      multiply(left, right);
    else
      sum_of(Op::kAdd, left, right);
  }

  void normalize_rows() {
    const Value x = choose_float(1);
    if (!x.valid()) return;
    const auto last = static_cast<int64_t>(shape(x).size()) - 1;
    const auto count = static_cast<double>(size(shape(x).back()));
    switch (random_.range(0, 3)) {
      case 0: {  // softmax
        const Value shifted = sum_of(Op::kSub, x, spread_rows(reduce(Op::kReduceMax, x, {last}), x));
        // The maximum is one of the elements: no difference is positive, and one is zero.
        if (shifted.valid()) known_[shifted].high = known_[shifted].error;
        const Value powers = exp2(shifted);
        const Value total = reduce(Op::kReduceSum, powers, {last});
        if (total.valid()) known_[total].low = std::max(known_[total].low, 0.9);
        divide(powers, spread_rows(total, x));
        break;
      }
      case 1: {  // root mean square norm
        const Value mean = [&] {
          const Value total = reduce(Op::kReduceSum, multiply(x, x), {last});
          return total.valid() ? multiply(total, constant_like(total, 1 / count)) : Value{};
        }();
        if (mean.valid()) known_[mean].low = 0;
        const Value shifted = mean.valid() ? sum_of(Op::kAdd, mean, constant_like(mean, 0.5)) : Value{};
        if (shifted.valid()) known_[shifted].low = std::max(known_[shifted].low, 0.5 - known_[shifted].error);
        const Value scale = of_positive(Op::kRsqrt, shifted);
        multiply(x, spread_rows(scale, x));
        break;
      }
      case 2: {  // centred on the mean
        const Value total = reduce(Op::kReduceSum, x, {last});
        const Value mean = total.valid() ? multiply(total, constant_like(total, 1 / count)) : Value{};
        sum_of(Op::kSub, x, spread_rows(mean, x));
        break;
      }
      default:
        reduce(random_.chance(0.7) ? Op::kReduceSum : Op::kReduceMax, x, {last});
        break;
    }
  }

  void reduce_columns() {
    const Value x = choose_float(2);
    if (!x.valid()) return;
    const size_t rank = shape(x).size();
    std::vector<int64_t> axes;
    for (size_t i = 0; i + 1 < rank; ++i)
      if (i == 0 || random_.chance(0.7)) axes.push_back(static_cast<int64_t>(i));
    if (random_.chance(0.15)) axes.push_back(static_cast<int64_t>(rank) - 1);
    const Value reduced = reduce(random_.chance(0.7) ? Op::kReduceSum : Op::kReduceMax, x, axes);
    if (!reduced.valid() || shape(reduced).empty() || random_.chance(0.5)) return;
    std::vector<int64_t> kept;
    for (size_t i = 0; i < rank; ++i)
      if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i)))
        kept.push_back(static_cast<int64_t>(i));
    extreme(Op::kMin, x, broadcast(reduced, shape(x), kept));
  }

  void change_shape() {
    const Value x = choose([&](Value value) { return !shape(value).empty(); });
    if (!x.valid()) return;
    Shape to = shape(x);
    const auto at = static_cast<size_t>(random_.range(0, static_cast<int64_t>(to.size()) - 1));
    const auto position = to.begin() + static_cast<ptrdiff_t>(at);
    switch (random_.range(0, 3)) {
      case 0:
        if (at + 1 == to.size()) return;
        to[at] *= to[at + 1];
        to.erase(position + 1);
        break;
      case 1: {
        if (to.size() >= 5) return;
        for (const int64_t factor : {8, 3, 4, 2, 5, 7}) {
          const std::optional<Dim> rest = to[at].divide_exactly(factor);
          if (!rest.has_value() || rest->is_constant(0)) continue;
          to[at] = *rest;
          to.insert(to.begin() + static_cast<ptrdiff_t>(at) + 1, Dim(factor));
          break;
        }
        break;
      }
      case 2:
        if (to.size() >= 5) return;
        to.insert(position, Dim(1));
        break;
      default:
        to = {element_count(to)};
        break;
    }
    if (to != shape(x)) reshape(x, to);
  }

  void permute() {
    const Value x = choose([&](Value value) { return shape(value).size() >= 2; });
    if (!x.valid()) return;
    Attributes attributes;
    attributes.axes.resize(shape(x).size());
    std::iota(attributes.axes.begin(), attributes.axes.end(), int64_t{0});
    for (size_t i = attributes.axes.size(); i-- > 1;)
      std::swap(attributes.axes[i], attributes.axes[static_cast<size_t>(random_.range(0, static_cast<int64_t>(i)))]);
    add(Op::kPermute, {x}, attributes, known(x));
  }

  void slice() {
    const Value x = choose([&](Value value) { return !shape(value).empty(); });
    if (!x.valid()) return;
    Attributes attributes;
    for (const Dim& dim : shape(x)) {
      Dim start(0), limit = dim;
      int64_t stride = 1;
      if (dim.is_constant() && random_.chance(0.6)) {
        const int64_t first = random_.range(0, dim.constant() - 1);
        start = first;
        limit = random_.range(first + 1, dim.constant());
        stride = random_.range(1, 3);
      } else if (size(dim) >= 2 && random_.chance(0.5)) {
        if (random_.chance(0.5))
          start = 1;
        else
          limit = dim - 1;
      }
      attributes.start.push_back(start);
      attributes.limit.push_back(limit);
      attributes.strides.push_back(stride);
    }
    add(Op::kSlice, {x}, attributes, known(x));
  }

  void pad() {
    const Value x = choose([&](Value value) { return !shape(value).empty(); });
    if (!x.valid()) return;
    Attributes attributes;
    attributes.value = dtype(x) == DType::kBool ? random_.range(0, 1) : random_.pick<double>({0, 0, 1, -2});
    for (size_t i = 0; i < shape(x).size(); ++i) {
      attributes.start.emplace_back(random_.chance(0.4) ? random_.range(1, 3) : 0);
      attributes.limit.emplace_back(random_.chance(0.4) ? random_.range(1, 3) : 0);
    }
    Known result = known(x);
    result.low = std::min(result.low, attributes.value);
    result.high = std::max(result.high, attributes.value);
    add(Op::kPad, {x}, attributes, result);
  }

  void concat() {
    const Value x = choose([&](Value value) { return !shape(value).empty(); });
    if (!x.valid()) return;
    const Value y = choose([&](Value value) { return graph().type(value) == graph().type(x); });
    Attributes attributes;
    attributes.axes = {random_.range(0, static_cast<int64_t>(shape(x).size()) - 1)};
    const Known &a = known(x), &b = known(y);
    add(Op::kConcat, {x, y}, attributes,
        {std::min(a.low, b.low), std::max(a.high, b.high), std::max(a.error, b.error)});
  }

  void convert() {
    switch (random_.range(0, 4)) {
      case 0:
        cast(choose([&](Value value) { return !is_float(dtype(value)); }), random_dtype());
        break;
      case 1:
        cast(choose_exact_float(), random_.chance(0.8) ? DType::kI32 : DType::kBool);
        break;
      case 2: {
        const Value x = choose([&](Value value) { return dtype(value) == DType::kF32 && exact(value); });
        if (!x.valid()) break;
        Attributes attributes;
        attributes.dtype = DType::kI32;
        const Known original = known(x);
        // The bits are too large for other integer ops, so they are not offered to them.
        const Value bits = graph().add(Op::kBitcast, {x}, attributes);
        used_[x] = true;
        known_[bits] = {-0x1p31, 0x1p31, 0};
        attributes.dtype = DType::kF32;
        add(Op::kBitcast, {bits}, attributes, original);
        break;
      }
      default: {
        const Value x = choose_float();
        if (options_.bf16) cast(x, dtype(x) == DType::kF32 ? DType::kBF16 : DType::kF32);
        break;
      }
    }
  }

  Value condition(const Shape& shape) {
    if (random_.chance(0.3)) {
      const Value bools =
          choose([&](Value value) { return dtype(value) == DType::kBool && this->shape(value) == shape; });
      if (bools.valid()) return bools;
    }
    Value x = choose(
        [&](Value value) { return dtype(value) != DType::kBool && this->shape(value) == shape && exact(value); });
    if (!x.valid()) x = new_input(random_dtype(), shape);
    Value y = choose([&](Value value) { return graph().type(value) == graph().type(x) && exact(value) && value != x; });
    if (!y.valid() || random_.chance(0.5)) y = constant_like(x, random_.pick<double>({0, 0.5, 1}));
    return add(random_.pick<Op>({Op::kLt, Op::kLe, Op::kEq}), {x, y}, {}, {0, 1, 0});
  }

  void select() {
    const Value x = choose_float();
    const Value chosen = condition(shape(x));
    const Value y = partner(x);
    if (!y.valid()) return;
    const Known &a = known(x), &b = known(y);
    add(Op::kSelect, {chosen, x, y}, {},
        {std::min(a.low, b.low), std::max(a.high, b.high), std::max(a.error, b.error)});
  }

  void bools() {
    const Value x = choose([&](Value value) { return dtype(value) == DType::kBool; });
    const Value left = x.valid() ? x : condition(shape(choose_float()));
    if (!left.valid()) return;
    add(random_.pick<Op>({Op::kAnd, Op::kOr, Op::kXor, Op::kEq}), {left, condition(shape(left))}, {}, {0, 1, 0});
  }

  void integers() {
    Value x = choose([&](Value value) { return dtype(value) == DType::kI32; });
    if (!x.valid() || random_.chance(0.3)) {
      if (random_.chance(0.5)) {
        Attributes attributes;
        attributes.dtype = random_.chance(0.6) ? DType::kI32 : DType::kF32;
        attributes.shape = base_;
        attributes.axes = {random_.range(0, static_cast<int64_t>(base_.size()) - 1)};
        x = add(Op::kIota, {}, attributes,
                {0, static_cast<double>(size(base_[static_cast<size_t>(attributes.axes[0])])), 0});
      } else {
        x = new_input(DType::kI32, base_, -20, 20);
      }
    }
    if (!x.valid() || dtype(x) != DType::kI32) return;
    const double magnitude = known(x).magnitude();
    switch (random_.range(0, 6)) {
      case 0:
        add(random_.chance(0.5) ? Op::kDiv : Op::kRem, {x, constant_like(x, random_.pick<double>({2, 3, 7, -5}))}, {},
            {-magnitude - 7, magnitude + 7, 0});
        break;
      case 1: {
        const double shift = static_cast<double>(random_.range(0, 3));
        if (random_.chance(0.5))
          add(Op::kShr, {x, constant_like(x, shift)}, {}, {-magnitude, magnitude, 0});
        else
          add(Op::kShl, {x, constant_like(x, shift)}, {}, {-8 * magnitude, 8 * magnitude, 0});
        break;
      }
      case 2: {
        const Value y = partner(x);
        if (!y.valid()) break;
        const double bits = std::exp2(std::ceil(std::log2(std::max({magnitude, known(y).magnitude(), 1.0}) + 1)));
        add(random_.pick<Op>({Op::kAnd, Op::kOr, Op::kXor}), {x, y}, {}, {-bits, bits, 0});
        break;
      }
      case 3:
        multiply(x, partner(x));
        break;
      case 4:
        add(random_.chance(0.5) ? Op::kNeg : Op::kAbs, {x}, {}, {-magnitude, magnitude, 0});
        break;
      case 5:
        extreme(random_.chance(0.5) ? Op::kMax : Op::kMin, x, partner(x));
        break;
      default:
        sum_of(random_.chance(0.5) ? Op::kAdd : Op::kSub, x, partner(x));
        break;
    }
  }

  Value indices(int64_t limit) {
    const Shape index_shape = random_.chance(0.6) ? Shape{random_.range(1, 9)} : Shape{random_.range(1, 3), 4};
    const double margin = random_.chance(0.3) ? 2 : 0;  // some indices are outside
    return new_input(DType::kI32, index_shape, -margin, static_cast<double>(limit) + margin);
  }

  void gather() {
    const Value x = choose([&](Value value) { return !shape(value).empty(); });
    if (!x.valid()) return;
    Attributes attributes;
    attributes.axes = {random_.range(0, static_cast<int64_t>(shape(x).size()) - 1)};
    add(Op::kGather, {x, indices(size(shape(x)[static_cast<size_t>(attributes.axes[0])]))}, attributes, known(x));
  }

  void scatter_add() {
    const Value x = choose([&](Value value) {
      return (dtype(value) == DType::kF32 || dtype(value) == DType::kI32) && !shape(value).empty();
    });
    if (!x.valid()) return;
    const int64_t axis = random_.range(0, static_cast<int64_t>(shape(x).size()) - 1);
    const Value index = indices(size(shape(x)[static_cast<size_t>(axis)]));
    Shape updates(shape(x).begin(), shape(x).begin() + axis);
    updates.insert(updates.end(), shape(index).begin(), shape(index).end());
    updates.insert(updates.end(), shape(x).begin() + axis + 1, shape(x).end());
    if (elements(updates) > options_.maximum_elements) return;
    const Value update = new_input(dtype(x), updates);
    const auto count = static_cast<double>(elements(shape(index)));
    const double grown = count * known(update).magnitude();
    Known result{known(x).low - grown, known(x).high + grown, known(x).error};
    if (is_float(dtype(x))) result.error += (count + 1) * kF32Unit * result.magnitude();
    Attributes attributes;
    attributes.axes = {axis};
    // Not drawn, so that the graphs of all seeds stay what they were but for this.
    attributes.replaces = elements(shape(index)) % 2 == 1;
    if (attributes.replaces) {
      result.low = std::min(result.low, -grown);
      result.high = std::max(result.high, grown);
    }
    add(Op::kScatterAdd, {x, index, update}, attributes, result);
  }

  void order() {
    const Value x =
        choose([&](Value value) { return dtype(value) != DType::kBool && exact(value) && !shape(value).empty(); });
    if (!x.valid()) return;
    Attributes attributes;
    if (random_.chance(0.4)) {
      attributes.axes = {random_.range(0, static_cast<int64_t>(shape(x).size()) - 1)};
      const int64_t along = size(shape(x)[static_cast<size_t>(attributes.axes[0])]);
      add(Op::kArgmax, {x}, attributes, {0, static_cast<double>(along), 0});
    } else if (random_.chance(0.5)) {
      attributes.count = random_.range(1, std::min<int64_t>(4, size(shape(x).back())));
      const double along = static_cast<double>(size(shape(x).back()));
      const Value top = add(Op::kTopk, {x}, attributes, known(x));
      if (!top.valid()) return;
      known_[{top.node, 1}] = {0, along, 0};
      pool_.push_back({top.node, 1});
    } else {
      attributes.axes = {random_.range(0, static_cast<int64_t>(shape(x).size()) - 1)};
      const auto along = static_cast<double>(size(shape(x)[static_cast<size_t>(attributes.axes[0])]));
      if (dtype(x) == DType::kBF16) return;
      const Known& a = known(x);
      Known result{std::min(a.low, a.low * along), std::max(a.high, a.high * along), 0};
      if (is_float(dtype(x))) result.error = along * along * kF32Unit * a.magnitude();
      add(Op::kCumsum, {x}, attributes, result);
    }
  }

  // A contraction with a weight, then what commonly follows one: bias, activation, residual, cast.
  void dot() {
    Value x = choose_float(2);
    if (!x.valid() || !shape(x).back().is_constant()) return;
    if (shape(x).size() > 2 && random_.chance(0.7)) {
      const Dim last = shape(x).back();
      Shape flat(shape(x).begin(), shape(x).end() - 1);
      x = reshape(x, {element_count(flat), last});
      if (!x.valid()) return;
    }
    Attributes attributes;
    attributes.dtype = random_dtype();
    attributes.transpose_b = random_.chance(0.5);
    const int64_t k = shape(x).back().constant(), n = random_.range(1, 20);
    Shape weight(shape(x).begin(), shape(x).end() - 2);
    weight.emplace_back(attributes.transpose_b ? n : k);
    weight.emplace_back(attributes.transpose_b ? k : n);
    if (elements(weight) > options_.maximum_elements) return;
    if (random_.chance(0.3)) {
      Attributes swap;
      swap.axes.resize(shape(x).size());
      std::iota(swap.axes.begin(), swap.axes.end(), int64_t{0});
      std::swap(swap.axes[swap.axes.size() - 1], swap.axes[swap.axes.size() - 2]);
      x = add(Op::kPermute, {x}, swap, known(x));
      attributes.transpose_a = true;
      if (!x.valid()) return;
    }
    const double limit = 2 / std::sqrt(static_cast<double>(k));
    const Value w = new_input(dtype(x), weight, -limit, limit);
    const auto depth = static_cast<double>(k);
    Known result = product_known(known(x), known(w));
    result.low *= depth;
    result.high *= depth;
    result.error = depth * (result.error + depth * kF32Unit * known(x).magnitude() * known(w).magnitude());
    Value y = add_rounded(Op::kDot, {x, w}, result, attributes);
    if (!y.valid()) return;
    if (random_.chance(0.6))
      y = sum_of(Op::kAdd, y,
                 broadcast(new_input(dtype(y), {Dim(n)}), shape(y), {static_cast<int64_t>(shape(y).size()) - 1}));
    if (y.valid() && random_.chance(0.5)) {
      const Value gate = bounded(Op::kTanh, y);
      y = random_.chance(0.5) ? multiply(y, gate) : gate;
    }
    if (y.valid() && random_.chance(0.3)) y = sum_of(Op::kAdd, y, partner(y));
    if (y.valid() && options_.bf16 && random_.chance(0.3))
      cast(y, dtype(y) == DType::kF32 ? DType::kBF16 : DType::kF32);
  }

  void dropout() {
    const Value x = choose_float();
    const Value seed = new_input(DType::kI64, {Dim(2)}, 0, 1e6);
    Attributes attributes;
    attributes.shape = shape(x);
    attributes.stream = random_.range(0, 100);
    const Value bits = graph().add(Op::kRandomBits, {seed}, attributes);
    used_[seed] = true;
    known_[bits] = {-0x1p31, 0x1p31, 0};
    const Value low_bits = [&] {
      attributes.dtype = DType::kI32;
      attributes.stream = 0;
      attributes.value = (1 << 20) - 1;
      const Value mask = graph().add(Op::kConstant, {}, attributes);
      return add(Op::kAnd, {bits, mask}, {}, {0, (1 << 20) - 1, 0});
    }();
    const Value keep =
        low_bits.valid() ? add(Op::kLt, {low_bits, constant_like(low_bits, 700000)}, {}, {0, 1, 0}) : Value{};
    const Value scaled = multiply(x, constant_like(x, 1.5));
    if (!scaled.valid()) return;
    const Known& a = known(scaled);
    add(Op::kSelect, {keep, scaled, constant_like(x, 0)}, {}, {std::min(a.low, 0.0), std::max(a.high, 0.0), a.error});
  }

  void attention();

  void step() {
    struct Choice {
      int weight;
      void (RandomGraphBuilder::*action)();
    };
    using B = RandomGraphBuilder;
    static const std::vector<Choice> kChoices = {
        {6, &B::unary},          {8, &B::binary},         {3, &B::diamond},
        {6, &B::normalize_rows}, {3, &B::reduce_columns}, {4, &B::change_shape},
        {3, &B::permute},        {2, &B::slice},          {2, &B::pad},
        {2, &B::concat},         {3, &B::convert},        {3, &B::select},
        {1, &B::bools},          {3, &B::integers},       {2, &B::gather},
        {1, &B::scatter_add},    {2, &B::order},          {4, &B::dot},
        {1, &B::dropout},        {2, &B::attention}};
    int total = 0;
    for (const Choice& choice : kChoices) total += choice.weight;
    int64_t point = random_.range(0, total - 1);
    for (const Choice& choice : kChoices) {
      point -= choice.weight;
      if (point < 0) return (this->*choice.action)();
    }
  }

  void choose_outputs() {
    std::vector<Value> leaves;
    for (const Value value : pool_)
      if (!used_[value] && graph().node(value).op != Op::kInput) leaves.push_back(value);
    for (const Value leaf : leaves)
      if (graph().outputs.size() < 2 || random_.chance(0.85)) graph().outputs.push_back(leaf);
    // Values that have consumers as well; now and then an input.
    for (int64_t extra = random_.range(graph().outputs.size() < 2 ? 2 : 0, 2); extra > 0; --extra)
      graph().outputs.push_back(choose([&](Value value) {
        return graph().node(value).op != Op::kInput || (!is_integer(dtype(value)) && random_.chance(0.1));
      }));
    std::erase_if(graph().outputs, [](Value value) { return !value.valid(); });
    if (graph().outputs.empty()) graph().outputs.push_back(graph().inputs()[0]);
    if (random_.chance(0.6)) assign();
    for (const Value output : graph().outputs) result_.tolerances.push_back(known(output).error);
    for (const Assignment& assignment : graph().assignments)
      result_.tolerances.push_back(known(assignment.value).error);
  }

  void assign() {
    for (const Value input : graph().inputs()) {
      const Value value = choose([&](Value candidate) {
        return graph().node(candidate).op != Op::kInput && graph().type(candidate) == graph().type(input);
      });
      if (!value.valid()) continue;
      graph().assignments.push_back({input, value});
      return;
    }
  }

  Shape base_;
};

// A graph of scalars over the position and the captured tensors, for score and mask functions.
std::shared_ptr<Graph> position_function(bool has_score, const std::vector<TensorType>& captured) {
  auto function = std::make_shared<Graph>();
  for (const char* name : {"b", "h", "i", "j"}) function->add_input(name, {DType::kI32, {}});
  if (has_score) function->add_input("s", {DType::kF32, {}});
  for (size_t i = 0; i < captured.size(); ++i) function->add_input(fmt::format("captured{}", i), captured[i]);
  return function;
}

Value scalar_constant(Graph& graph, DType dtype, double value) {
  Attributes attributes;
  attributes.dtype = dtype;
  attributes.value = value;
  return graph.add(Op::kConstant, {}, attributes);
}

void RandomGraphBuilder::attention() {
  if (!options_.attention) return;
  const Dim batch = base_[0], length = base_.size() > 2 ? base_[base_.size() - 2] : base_[0];
  const int64_t key_heads = random_.range(1, 2), heads = key_heads * random_.range(1, 2), dim = 4 * random_.range(1, 4);
  if (base_.size() < 3 || elements({batch, length, Dim(heads), length}) > options_.maximum_elements) return;
  const DType type = random_dtype();
  const Value q = new_input(type, {batch, length, Dim(heads), Dim(dim)});
  const Value k = new_input(type, {batch, length, Dim(key_heads), Dim(dim)});
  const Value v = new_input(type, {batch, length, Dim(key_heads), Dim(dim)});
  std::vector<Value> inputs = {q, k, v};
  std::vector<TensorType> captured;
  const auto steps = static_cast<double>(size(length));

  auto spec = std::make_shared<AttentionSpec>();
  spec->scale = 0.25;
  // |scale * q . k|, and the error of its f32 sum.
  double score = spec->scale * static_cast<double>(dim) * known(q).magnitude() * known(k).magnitude();
  double score_error = static_cast<double>(dim) * score * kF32Unit;
  if (random_.chance(0.5)) {
    if (random_.chance(0.5)) {  // ALiBi
      inputs.push_back(new_input(DType::kF32, {Dim(heads)}, 0, 0.1));
      captured.push_back({DType::kF32, {Dim(heads)}});
      const std::shared_ptr<Graph> function = position_function(true, captured);
      const std::vector<Value> args = function->inputs();
      Attributes attributes;
      attributes.axes = {0};
      const Value slope = function->add(Op::kGather, {args[5], args[1]}, attributes);
      attributes = {};
      attributes.dtype = DType::kF32;
      const Value distance = function->add(Op::kCast, {function->add(Op::kSub, {args[3], args[2]})}, attributes);
      function->outputs = {function->add(Op::kFma, {slope, distance, args[4]})};
      spec->score = function;
      score += 0.1 * steps;
    } else {  // soft cap
      const std::shared_ptr<Graph> function = position_function(true, captured);
      const Value s = function->inputs()[4];
      const Value scaled = function->add(Op::kMul, {s, scalar_constant(*function, DType::kF32, 0.5)});
      const Value capped = function->add(Op::kTanh, {scaled});
      function->outputs = {function->add(Op::kMul, {capped, scalar_constant(*function, DType::kF32, 2)})};
      spec->score = function;
      score = std::min(score, 2.0);
    }
    score_error += 16 * kF32Unit * (1 + score);
  }
  if (random_.chance(0.7)) {  // causal, sometimes in a window: a position always attends to itself
    const std::shared_ptr<Graph> function = position_function(false, captured);
    const Value i = function->inputs()[2], j = function->inputs()[3];
    Value attends = function->add(Op::kLe, {j, i});
    if (random_.chance(0.5)) {
      const Value distance = function->add(Op::kSub, {i, j});
      const Value near = function->add(Op::kLt, {distance, scalar_constant(*function, DType::kI32, 5)});
      attends = function->add(Op::kAnd, {attends, near});
    }
    function->outputs = {attends};
    spec->mask = function;
  }
  Attributes attributes;
  attributes.attention = spec;
  const double magnitude = known(v).magnitude();
  // Weights change by at most e^(2 error) - 1 and may be rounded to the dtype before they meet the values.
  const double error = magnitude * (std::expm1(2 * score_error) + 2 * unit_roundoff(type) + (steps + 16) * kF32Unit);
  const Value out = add(Op::kAttention, inputs, attributes, rounded(type, {-magnitude, magnitude, error}));
  if (!out.valid()) return;
  const Value lse{out.node, 1};
  known_[lse] = rounded(DType::kF32, {-score, score + std::log(steps), score_error + (steps + 16) * kF32Unit});
  pool_.push_back(lse);
}

}  // namespace

RandomGraph make_random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return RandomGraphBuilder(seed, options).build();
}

}  // namespace causeway::graph
