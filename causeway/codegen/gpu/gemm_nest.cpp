#include "causeway/codegen/gpu/gemm_nest.h"

#include <algorithm>

#include "causeway/codegen/expressions/expression_emitter.h"
#include "causeway/codegen/gpu/gemm_plan.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {

void GpuGemmNest::find_operands() {
  const Node& node = graph_.node(request_.members.front());
  a_ = find_operand(node.inputs[0], sizes_.m, !node.attributes.transpose_a);
  b_ = find_operand(node.inputs[1], sizes_.n, node.attributes.transpose_b || node.op == Op::kScaledDot);
  if (obstacle()) return;
  if (node.op == Op::kGroupedDot) {
    // Groups begin at any row: operands that run along rows would be aligned for the first group only.
    if (a_.contiguous_in_k == node.attributes.transpose_a) find(Obstacle::Kind::kScatteredOperand, node.inputs[0]);
    if (b_.contiguous_in_k && node.attributes.transpose_a) find(Obstacle::Kind::kScatteredOperand, node.inputs[1]);
    return;
  }
  const GpuGemmProblem problem = this->problem();
  if (gains_from_copy(problem, problem.a, architecture_)) find(Obstacle::Kind::kOperandAcrossK, node.inputs[0]);
  if (gains_from_copy(problem, problem.b, architecture_)) find(Obstacle::Kind::kOperandAcrossK, node.inputs[1]);
}

GpuGemmOperand GpuGemmNest::find_operand(Value operand, const Dim& lines, bool k_last) {
  GpuGemmOperand found;
  found.value = operand;
  found.lines = lines;
  found.k = sizes_.k;
  while (!materialized_.contains(found.value)) {
    const Node& node = graph_.node(found.value);
    if (node.op != Op::kReshape && node.op != Op::kPermute && node.op != Op::kSlice) {
      find(Obstacle::Kind::kComputedOperand, operand);
      return found;
    }
    found.value = node.inputs[0];
  }
  found.is_view = found.value != operand;
  const Shape batch_shape = batch_shape_of(operand);
  const int first = static_cast<int>(variables_.size());
  for (const Dim& extent : batch_shape) parameter("batch_index", extent);
  const int line_variable = parameter("line", lines), k_variable = parameter("k_index", sizes_.k);
  std::vector<Index> at;
  for (size_t i = 0; i < batch_shape.size(); ++i) at.push_back(Index::of(first + static_cast<int>(i)));
  at.push_back(Index::of(k_last ? line_variable : k_variable));
  at.push_back(Index::of(k_last ? k_variable : line_variable));
  const size_t known = variables_.size();
  Index linear;
  if (found.value == operand) {
    linear = linearize(at, graph_.shape(operand));
  } else {
    ElementWalk walk(graph_, *this, variables_);
    take_loads();
    walk.compute(operand, {{}, at});
    const auto loads = take_loads();
    if (variables_.size() != known || loads.size() != 1) {
      find(Obstacle::Kind::kDividedIndex, operand);
      return found;
    }
    linear = loads.front().second;
  }
  const auto coefficient = [&](int variable) {
    for (const Index::Term& term : linear.terms)
      if (term.variable == variable) return term.coefficient;
    return Dim(0);
  };
  found.offset = linear.offset;
  const Dim line_stride = coefficient(line_variable), k_stride = coefficient(k_variable);
  const auto is_contiguous = [](const Dim& extent, const Dim& stride) {
    return extent.is_constant(1) || stride.is_constant(1);
  };
  if (is_contiguous(found.k, k_stride) && (k_last || !is_contiguous(lines, line_stride))) {
    found.stride = lines.is_constant(1) ? Dim(0) : line_stride;
  } else if (is_contiguous(lines, line_stride)) {
    found.contiguous_in_k = false;
    found.stride = found.k.is_constant(1) ? Dim(0) : k_stride;
  } else {
    find(Obstacle::Kind::kScatteredOperand, operand);
    return found;
  }
  for (size_t i = 0; i < batch_shape.size(); ++i) {
    if (batch_shape[i].is_constant(1)) continue;
    const Dim stride = coefficient(first + static_cast<int>(i));
    if (!found.batch.empty() && found.batch.back().stride == stride * batch_shape[i]) {
      found.batch.back() = {found.batch.back().extent * batch_shape[i], stride};
    } else {
      found.batch.push_back({batch_shape[i], stride});
    }
  }
  found.dtype = graph_.dtype(found.value);
  found.element_bytes = static_cast<int64_t>(size_bytes(found.dtype));
  found.aligned = found.element_bytes > 1 && found.is_multiple(16 / found.element_bytes);
  return found;
}

GpuGemmProblem GpuGemmNest::problem() const {
  const Node& node = graph_.node(request_.members.front());
  GpuGemmProblem problem;
  problem.type = gpu_gemm_type(graph_.dtype(node.inputs[0]));
  problem.batch = sizes_.batch;
  problem.m = sizes_.m;
  problem.n = sizes_.n;
  problem.k = sizes_.k;
  problem.a = a_;
  problem.b = b_;
  if (node.op == Op::kScaledDot)
    problem.scales = graph_.shape(node.inputs[3])[1] == sizes_.n ? GpuGemmScales::kOfColumns : GpuGemmScales::kOfBlocks;
  if (node.op == Op::kGroupedDot) {
    problem.groups = node.attributes.transpose_a ? GpuGemmGroups::kOfTerms : GpuGemmGroups::kOfRows;
    problem.slabs = graph_.shape(node.inputs[2])[0];
    problem.group_count = graph_.shape(node.inputs[2])[1] - Dim(1);
  }
  problem.rounds_to_tf32 = node.attributes.tf32;
  problem.fixed_order = request_.fixed_order;
  problem.b_never_changes = never_changes(b_.value);
  return problem;
}

// Whether it is the program's from its beginning to its end.
bool GpuGemmNest::never_changes(Value value) const {
  return graph_.node(value).op == Op::kInput &&
         std::none_of(graph_.assignments.begin(), graph_.assignments.end(),
                      [&](const Assignment& assignment) { return assignment.target == value; });
}

}  // namespace causeway::codegen
