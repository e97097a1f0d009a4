#include "causeway/codegen/expressions/gemm_nest.h"

namespace causeway::codegen {

GemmSizes::GemmSizes(const Graph& graph, Value gemm) {
  const Node& node = graph.node(gemm);
  const Shape& a = graph.shape(node.inputs[0]);
  const Shape& c = graph.shape(gemm);
  const size_t rank = c.size();
  batch_shape.assign(c.begin(), c.end() - 2);
  batch = element_count(batch_shape), m = c[rank - 2], n = c[rank - 1];
  k = a[node.attributes.transpose_a ? rank - 2 : rank - 1];
}

GemmNest::GemmNest(const KernelInputs& inputs)
    : graph_(inputs.graph),
      materialized_(inputs.materialized),
      request_(inputs.request),
      sizes_(inputs.graph, inputs.request.members.front()) {}

Shape GemmNest::batch_shape_of(Value operand) const {
  const Shape& shape = graph_.shape(operand);
  return {shape.begin(), shape.end() - 2};
}

int GemmNest::parameter(const std::string& name, const Dim& extent) {
  variables_.push_back({name, extent, kBodyDepth});
  return static_cast<int>(variables_.size()) - 1;
}

std::optional<ElementValue> GemmNest::variable(Value value, const Index& linear) {
  if (!request_.computes(value)) return std::nullopt;
  const auto entry = of_result_.find(value);
  if (entry != of_result_.end() && linear == result_linear_) return entry->second;
  find(Obstacle::Kind::kOwnValueElsewhere, value);
  return std::nullopt;
}

void GemmNest::begin_result() {
  const int batch_variable = parameter("batch_index", sizes_.batch);
  row_variable_ = parameter("m_index", sizes_.m);
  column_variable_ = parameter("n_index", sizes_.n);
  result_linear_ = Index::of(column_variable_);
  if (!sizes_.m.is_constant(1)) result_linear_ = add(result_linear_, scale(Index::of(row_variable_), sizes_.n));
  if (!sizes_.batch.is_constant(1))
    result_linear_ = add(result_linear_, scale(Index::of(batch_variable), sizes_.m * sizes_.n));
}

void GemmNest::walk_result(ElementWalk& walk,
                           const std::function<void(size_t position, const ElementValue& value)>& take) {
  const size_t known = variables_.size();
  for (size_t i = 0; i < request_.members.size(); ++i) {
    const Value member = request_.members[i];
    const ElementValue value = i == 0 ? ElementValue{"result", kBodyDepth} : walk.define(member, {result_linear_, {}});
    of_result_[member] = value;
    take(i, value);
  }
  if (variables_.size() != known) find(Obstacle::Kind::kDividedIndex, request_.members.front());
}

GemmNest::OperandElement GemmNest::walk_operand(ElementWalk& walk, Value operand, const std::string& row_name,
                                                const Dim& rows, bool k_last) {
  const Shape batch_shape = batch_shape_of(operand);
  const int batch_variable = parameter("batch_index", element_count(batch_shape));
  const int row = parameter(row_name, rows);
  const int term = parameter("k_index", sizes_.k);
  const size_t known = variables_.size();
  std::vector<Index> at = walk.delinearize(Index::of(batch_variable), batch_shape);
  at.push_back(Index::of(k_last ? row : term));
  at.push_back(Index::of(k_last ? term : row));
  take_loads();
  OperandElement element;
  element.value = walk.compute(operand, {{}, at});
  // Dividing for every element would cost more than storing the operand beforehand.
  if (variables_.size() != known && batch_shape.empty()) find(Obstacle::Kind::kDividedIndex, operand);
  element.contiguous_in_k = k_last;
  // The largest tensor read decides in which order memory is walked.
  std::optional<Dim> largest;
  const std::vector<std::pair<Value, Index>> loads = take_loads();
  if (loads.size() == 1) element.only_read = loads.front();
  for (const auto& [loaded, linear] : loads) {
    for (const Index::Term& part : linear.terms) {
      if (!part.coefficient.is_constant(1) || (part.variable != term && part.variable != row)) continue;
      const Dim count = element_count(graph_.shape(loaded));
      if (!largest || !known_non_negative(*largest - count)) {
        largest = count;
        element.contiguous_in_k = part.variable == term;
      }
    }
  }
  return element;
}

}  // namespace causeway::codegen
