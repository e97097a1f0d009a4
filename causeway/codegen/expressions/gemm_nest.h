// What a kernel of a GEMM computes beside the GEMM itself: values of its result, each element from the
// same element of the values before it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "causeway/codegen/expressions/element_walk.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

// Sizes of a GEMM, [batch..., m, k] x [batch..., k, n]. Of a grouped_dot, those of its result and of what it sums over;
// its operands have batches of their own.
struct GemmSizes {
  GemmSizes(const Graph& graph, Value gemm);

  Shape batch_shape;
  Dim batch, m, n, k;
};

class GemmNest : public ReadContext {
 public:
  static constexpr int kBodyDepth = 1;  // of parameters

  explicit GemmNest(const KernelInputs& inputs);

  // Why the GEMM cannot be written, from what was walked so far.
  const std::optional<Obstacle>& obstacle() const { return obstacle_; }

  // The result's own position in memory; its parameters are batch_index, m_index and n_index.
  void begin_result();
  const Index& result_linear() const { return result_linear_; }
  int row_variable() const { return row_variable_; }
  int column_variable() const { return column_variable_; }
  // After begin_result(): one element of the result, under the name "result", and of what is computed from it. Calls
  // take(position, value) for each member of the request, in order.
  void walk_result(ElementWalk& walk, const std::function<void(size_t position, const ElementValue& value)>& take);

  // One element of an operand of `rows` x k, or k x rows when k is not last. Its parameters are batch_index, over the
  // operand's own batch, `row_name` and k_index.
  struct OperandElement {
    ElementValue value;
    bool contiguous_in_k = true;  // the largest tensor read decides
    std::optional<std::pair<Value, Index>>
        only_read;  // the element in memory that it is computed from, if there is one
  };
  OperandElement walk_operand(ElementWalk& walk, Value operand, const std::string& row_name, const Dim& rows,
                              bool k_last);

  bool is_stored(Value value) override { return request_.computes(value) || materialized_.contains(value); }
  std::optional<ElementValue> variable(Value value, const Index& linear) override;
  void note_load(Value value, const Index& linear) override { loads_.emplace_back(value, linear); }

  const GemmSizes& sizes() const { return sizes_; }
  IndexVariables& variables() { return variables_; }

 protected:
  // The leading dimensions of an operand.
  Shape batch_shape_of(Value operand) const;
  int parameter(const std::string& name, const Dim& extent);
  void find(Obstacle::Kind kind, Value value) {
    if (!obstacle_) obstacle_ = Obstacle{kind, value};
  }
  // Elements that were loaded since the last call.
  std::vector<std::pair<Value, Index>> take_loads() { return std::exchange(loads_, {}); }

  const Graph& graph_;
  const MaterializedValues& materialized_;
  const KernelRequest& request_;
  GemmSizes sizes_;
  IndexVariables variables_;

 private:
  std::optional<Obstacle> obstacle_;
  std::map<Value, ElementValue> of_result_;  // the members computed so far, of the element at result_linear_
  Index result_linear_;
  int row_variable_ = 0, column_variable_ = 0;
  std::vector<std::pair<Value, Index>> loads_;
};

}  // namespace causeway::codegen
