// Reductions, scans, movement and indexing.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter_node.h"
#include "causeway/graph/op.h"

namespace causeway::graph {
namespace {

std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Calls visit(offset) for every index of `shape` in row-major order; offset = base + sum of index * stride.
template <class Visit>
void walk(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides, int64_t base, Visit visit) {
  const int64_t count = element_count(shape);
  if (count == 0) return;
  if (shape.empty()) return visit(base);
  const size_t last = shape.size() - 1;
  std::vector<int64_t> index(shape.size(), 0);
  int64_t offset = base;
  for (int64_t done = 0; done < count; done += shape[last]) {
    for (int64_t i = 0; i < shape[last]; ++i) visit(offset + i * strides[last]);
    for (size_t d = last; d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= index[d] * strides[d];
      index[d] = 0;
    }
  }
}

// The sizes before, along and after an axis.
struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;
  AxisSplit(const std::vector<int64_t>& shape, int64_t axis) {
    for (size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<int64_t>(i) < axis)
        outer *= shape[i];
      else if (static_cast<int64_t>(i) == axis)
        size = shape[i];
      else
        inner *= shape[i];
    }
  }
};

// NaN above everything.
bool greater(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

double add_values(DType dtype, double a, double b) {
  if (is_float(dtype)) return a + b;
  return wrap_integer(dtype,
                      static_cast<int64_t>(static_cast<uint64_t>(to_int64(a)) + static_cast<uint64_t>(to_int64(b))));
}

double smallest(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return std::numeric_limits<int32_t>::min();
    case DType::kI64:
      return static_cast<double>(std::numeric_limits<int64_t>::min());
    case DType::kI16:
      return std::numeric_limits<int16_t>::min();
    case DType::kU8:
      return 0;
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

void evaluate_reduce(const NodeEvaluation& evaluation) {
  const HostTensor& x = evaluation.input(0);
  HostTensor& out = evaluation.output();
  const std::vector<int64_t>& axes = evaluation.node.attributes.axes;
  std::vector<int64_t> strides(x.shape.size(), 0);
  int64_t stride = 1;
  for (size_t i = x.shape.size(); i-- > 0;)
    if (!std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i))) {
      strides[i] = stride;
      stride *= x.shape[i];
    }
  const bool sum = evaluation.node.op == Op::kReduceSum;
  std::fill(out.values.begin(), out.values.end(), sum ? 0 : smallest(x.dtype));
  const double* next = x.values.data();
  walk(x.shape, strides, 0, [&](int64_t offset) {
    double& total = out.values[static_cast<size_t>(offset)];
    total = sum ? add_values(x.dtype, total, *next) : max_or_nan(total, *next);
    ++next;
  });
}

void evaluate_argmax(const NodeEvaluation& evaluation) {
  const HostTensor& x = evaluation.input(0);
  const AxisSplit split(x.shape, evaluation.node.attributes.axes[0]);
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) {
      const double* column = x.values.data() + o * split.size * split.inner + i;
      int64_t best = 0;
      for (int64_t k = 1; k < split.size; ++k)
        if (greater(column[k * split.inner], column[best * split.inner])) best = k;
      evaluation.output().values[static_cast<size_t>(o * split.inner + i)] = static_cast<double>(best);
    }
}

void evaluate_cumsum(const NodeEvaluation& evaluation) {
  const HostTensor& x = evaluation.input(0);
  HostTensor& out = evaluation.output();
  const AxisSplit split(x.shape, evaluation.node.attributes.axes[0]);
  out.values = x.values;
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t k = 1; k < split.size; ++k) {
      double* row = out.values.data() + (o * split.size + k) * split.inner;
      for (int64_t i = 0; i < split.inner; ++i) row[i] = add_values(x.dtype, row[i - split.inner], row[i]);
    }
}

void copy_strided(const NodeEvaluation& evaluation, const std::vector<int64_t>& strides, int64_t base) {
  HostTensor& out = evaluation.output();
  const double* x = evaluation.input(0).values.data();
  double* next = out.values.data();
  walk(out.shape, strides, base, [&](int64_t offset) { *next++ = x[offset]; });
}

void evaluate_permute(const NodeEvaluation& evaluation) {
  const std::vector<int64_t> from = strides_of(evaluation.input(0).shape);
  std::vector<int64_t> strides;
  for (const int64_t axis : evaluation.node.attributes.axes) strides.push_back(from[static_cast<size_t>(axis)]);
  copy_strided(evaluation, strides, 0);
}

void evaluate_broadcast(const NodeEvaluation& evaluation) {
  const HostTensor& x = evaluation.input(0);
  const std::vector<int64_t> from = strides_of(x.shape);
  std::vector<int64_t> strides(evaluation.output().shape.size(), 0);
  for (size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] != 1) strides[static_cast<size_t>(evaluation.node.attributes.axes[i])] = from[i];
  copy_strided(evaluation, strides, 0);
}

void evaluate_slice(const NodeEvaluation& evaluation) {
  const HostTensor& x = evaluation.input(0);
  const Attributes& attributes = evaluation.node.attributes;
  const std::vector<int64_t> start = evaluate(attributes.start, evaluation.bindings);
  const std::vector<int64_t> limit = evaluate(attributes.limit, evaluation.bindings);
  std::vector<int64_t> strides = strides_of(x.shape);
  int64_t base = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    if (start[i] < 0 || start[i] > limit[i] || limit[i] > x.shape[i])
      throw_evaluation_error(
          evaluation, fmt::format("from {} to {} reaches outside axis {} of {}", start[i], limit[i], i, x.type_text()));
    base += start[i] * strides[i];
    strides[i] *= attributes.strides[i];
  }
  copy_strided(evaluation, strides, base);
}

void evaluate_pad(const NodeEvaluation& evaluation) {
  const HostTensor& x = evaluation.input(0);
  HostTensor& out = evaluation.output();
  const std::vector<int64_t> before = evaluate(evaluation.node.attributes.start, evaluation.bindings);
  const std::vector<int64_t> after = evaluate(evaluation.node.attributes.limit, evaluation.bindings);
  const std::vector<int64_t> strides = strides_of(out.shape);
  int64_t base = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] < 0 || after[i] < 0)
      throw_evaluation_error(evaluation,
                             fmt::format("has {} and {} elements before and after axis {}", before[i], after[i], i));
    base += before[i] * strides[i];
  }
  const double value = evaluation.node.attributes.value;
  std::fill(out.values.begin(), out.values.end(), is_float(out.dtype) ? value : round_to_dtype(out.dtype, value));
  const double* next = x.values.data();
  walk(x.shape, strides, base, [&](int64_t offset) { out.values[static_cast<size_t>(offset)] = *next++; });
}

void evaluate_concat(const NodeEvaluation& evaluation) {
  HostTensor& out = evaluation.output();
  const int64_t axis = evaluation.node.attributes.axes[0];
  const AxisSplit whole(out.shape, axis);
  int64_t begin = 0;
  for (const HostTensor* input : evaluation.inputs) {
    const AxisSplit part(input->shape, axis);
    for (int64_t o = 0; o < part.outer; ++o)
      std::copy_n(input->values.data() + o * part.size * part.inner, part.size * part.inner,
                  out.values.data() + (o * whole.size + begin) * whole.inner);
    begin += part.size;
  }
}

void evaluate_gather(const NodeEvaluation& evaluation) {
  const HostTensor &x = evaluation.input(0), &indices = evaluation.input(1);
  const AxisSplit split(x.shape, evaluation.node.attributes.axes[0]);
  if (split.size == 0 && !evaluation.output().values.empty())
    throw_evaluation_error(evaluation, fmt::format("reads from an empty axis of {}", x.type_text()));
  double* next = evaluation.output().values.data();
  for (int64_t o = 0; o < split.outer; ++o)
    for (const double index : indices.values) {
      const int64_t row = std::clamp<int64_t>(to_int64(index), 0, split.size - 1);
      next = std::copy_n(x.values.data() + (o * split.size + row) * split.inner, split.inner, next);
    }
}

void evaluate_scatter_add(const NodeEvaluation& evaluation) {
  const HostTensor &x = evaluation.input(0), &indices = evaluation.input(1), &updates = evaluation.input(2);
  HostTensor& out = evaluation.output();
  const AxisSplit split(x.shape, evaluation.node.attributes.axes[0]);
  out.values = x.values;
  if (evaluation.node.attributes.replaces)
    for (int64_t o = 0; o < split.outer; ++o)
      for (const double index : indices.values)
        if (const int64_t row = to_int64(index); row >= 0 && row < split.size)
          std::fill_n(out.values.data() + (o * split.size + row) * split.inner, split.inner, 0.0);
  const double* next = updates.values.data();
  for (int64_t o = 0; o < split.outer; ++o)
    for (const double index : indices.values) {
      const int64_t row = to_int64(index);
      if (row >= 0 && row < split.size) {
        double* to = out.values.data() + (o * split.size + row) * split.inner;
        for (int64_t i = 0; i < split.inner; ++i) to[i] = add_values(x.dtype, to[i], next[i]);
      }
      next += split.inner;
    }
}

void evaluate_topk(const NodeEvaluation& evaluation) {
  const HostTensor& x = evaluation.input(0);
  const int64_t size = x.shape.back(), count = evaluation.node.attributes.count;
  if (count > size)
    throw_evaluation_error(evaluation, fmt::format("takes {} of the {} elements of an axis", count, size));
  std::vector<int64_t> order(static_cast<size_t>(size));
  const size_t rows = evaluation.output().values.size() / static_cast<size_t>(count);
  for (size_t r = 0; r < rows; ++r) {
    const double* row = x.values.data() + static_cast<int64_t>(r) * size;
    std::iota(order.begin(), order.end(), int64_t{0});
    std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
      if (greater(row[a], row[b])) return true;
      if (greater(row[b], row[a])) return false;
      return a < b;
    });
    for (size_t k = 0; k < static_cast<size_t>(count); ++k) {
      evaluation.output(0).values[r * static_cast<size_t>(count) + k] = row[order[k]];
      evaluation.output(1).values[r * static_cast<size_t>(count) + k] = static_cast<double>(order[k]);
    }
  }
}

}  // namespace

void evaluate_reduction(const NodeEvaluation& evaluation) {
  switch (evaluation.node.op) {
    case Op::kArgmax:
      return evaluate_argmax(evaluation);
    case Op::kCumsum:
      return evaluate_cumsum(evaluation);
    default:
      return evaluate_reduce(evaluation);
  }
}

void evaluate_movement(const NodeEvaluation& evaluation) {
  switch (evaluation.node.op) {
    case Op::kReshape:
    case Op::kConstrainSharding:
      evaluation.output().values = evaluation.input(0).values;
      return;
    case Op::kPermute:
      return evaluate_permute(evaluation);
    case Op::kBroadcast:
      return evaluate_broadcast(evaluation);
    case Op::kSlice:
      return evaluate_slice(evaluation);
    case Op::kPad:
      return evaluate_pad(evaluation);
    default:
      return evaluate_concat(evaluation);
  }
}

void evaluate_indexing(const NodeEvaluation& evaluation) {
  switch (evaluation.node.op) {
    case Op::kGather:
      return evaluate_gather(evaluation);
    case Op::kScatterAdd:
      return evaluate_scatter_add(evaluation);
    default:
      return evaluate_topk(evaluation);
  }
}

}  // namespace causeway::graph
