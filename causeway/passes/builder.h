// Appending nodes to a graph by the names of their ops: what passes write new nodes with. Shapes, dtypes and errors are
// those of Graph::add. A node that would change nothing (a cast to the same type, a reshape to the same shape) is left
// out.
#pragma once

#include <utility>
#include <vector>

#include "causeway/graph/graph.h"

namespace causeway::passes {

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Graph& graph() const { return graph_; }
  const TensorType& type(Value value) const { return graph_.type(value); }
  const Shape& shape(Value value) const { return graph_.shape(value); }
  DType dtype(Value value) const { return graph_.dtype(value); }

  Value constant(DType dtype, Shape shape, double value) const;
  Value iota(DType dtype, Shape shape, int64_t axis) const;
  // `value` in every element of the type of `like`.
  Value constant_like(Value like, double value) const { return constant(dtype(like), shape(like), value); }
  Value zeros_like(Value like) const { return constant_like(like, 0); }

  Value neg(Value x) const;
  Value exp2(Value x) const;
  Value log2(Value x) const;
  Value tanh(Value x) const;
  Value recip(Value x) const;
  Value add(Value a, Value b) const;
  Value sub(Value a, Value b) const;
  Value mul(Value a, Value b) const;
  Value div(Value a, Value b) const;
  Value scale(Value x, double factor) const { return mul(x, constant_like(x, factor)); }
  Value less(Value a, Value b) const;
  Value less_equal(Value a, Value b) const;
  Value equal(Value a, Value b) const;
  Value select(Value condition, Value yes, Value no) const;
  Value cast(Value x, DType dtype) const;

  Value reduce_sum(Value x, std::vector<int64_t> axes) const;
  Value reduce_max(Value x, std::vector<int64_t> axes) const;
  Value reshape(Value x, Shape shape) const;
  Value permute(Value x, std::vector<int64_t> axes) const;
  Value broadcast(Value x, Shape shape, std::vector<int64_t> axes) const;
  // Undoes a reduction over `axes`: x, without those axes, repeated along them to `shape`.
  Value broadcast_over(Value x, Shape shape, const std::vector<int64_t>& axes) const;
  // start <= index < limit along one axis, everything along the others.
  Value slice_axis(Value x, int64_t axis, Dim start, Dim limit) const;
  Value slice(Value x, Shape start, Shape limit) const;
  Value pad(Value x, Shape before, Shape after, double value) const;
  Value concat(std::vector<Value> parts, int64_t axis) const;
  Value gather(Value x, Value indices, int64_t axis) const;
  Value scatter_add(Value base, Value indices, Value updates, int64_t axis, bool replaces = false) const;
  // Rows of x [n R, ...] by indices [n, R] that permute each slab of R rows (graph.h): [n R, ...]. Given the indices of
  // another permutation, permutation_back() has those that undo it.
  Value permute_rows(Value x, Value indices) const;
  Value permutation_back(Value indices) const;
  Value dot(Value a, Value b, bool transpose_a, bool transpose_b, DType dtype, bool tf32 = false) const;
  Value grouped_dot(Value a, Value b, Value offsets, bool transpose_a, bool transpose_b, DType dtype,
                    bool tf32 = false) const;
  Value scaled_dot(Value a, Value b, Value a_scales, Value b_scales, DType dtype) const;

 private:
  Value reduce(Op op, Value x, std::vector<int64_t> axes) const;

  Graph& graph_;
};

}  // namespace causeway::passes
