#include "causeway/codegen/gpu/gemm_nest.h"

#include <algorithm>

#include "causeway/codegen/expressions/expression_emitter.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

bool divisible(const Dim& size, int64_t by) { return size.divide_exactly(by).has_value(); }

}  // namespace

void GpuGemmNest::find_operands() {
  const Node& node = graph_.node(request_.members.front());
  a_ = find_operand(node.inputs[0], sizes_.m, !node.attributes.transpose_a);
  b_ = find_operand(node.inputs[1], sizes_.n, node.attributes.transpose_b || node.op == Op::kScaledDot);
  // Matrix instructions want 8-bit operands along k, those of warpgroups a second one of f32 too: others are copied.
  if (lies_across_k(a_, node.inputs[0])) find(Obstacle::Kind::kOperandAcrossK, node.inputs[0]);
  if (lies_across_k(b_, node.inputs[1])) find(Obstacle::Kind::kOperandAcrossK, node.inputs[1]);
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
  const Shape& batch_shape = sizes_.batch_shape;
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

bool GpuGemmNest::lies_across_k(const GpuGemmOperand& operand, Value value) const {
  if (operand.contiguous_in_k || operand.value == value || is_skinny_gemm_side(sizes_.m) ||
      is_skinny_gemm_side(sizes_.n))
    return false;
  if (operand.element_bytes == 1) return architecture_.has_f8_matrix && divisible(operand.k, 16);
  return !serves_as_it_lies(operand) && gains_from_copies();
}

// Whether warpgroup instructions multiply an operand of f32: A may be in registers.
bool GpuGemmNest::serves_as_it_lies(const GpuGemmOperand& operand) const {
  return (operand.contiguous_in_k || &operand == &a_) && operand.fits_tma();
}

// Whether operands are rounded to tf32 and warpgroups multiply them once those that they do not take lie along k, so
// much faster than waves do (five times) that copies are worth their time: of two million elements one takes 5
// microseconds, of few as long as a launch.
bool GpuGemmNest::gains_from_copies() const {
  constexpr int64_t kLeastOtherLines = 256, kLeastMultiplyAdds = int64_t{1} << 28;
  const Node& node = graph_.node(request_.members.front());
  if (!node.attributes.tf32 || !architecture_.has_warpgroup_matrix || request_.fixed_order) return false;
  const auto is_less = [](const Dim& size, int64_t least) { return size.is_constant() && size.constant() < least; };
  const auto may_be_multiplied = [&](const GpuGemmOperand& operand, Value value, const Dim& other_lines) {
    return serves_as_it_lies(operand) ||
           (!operand.contiguous_in_k && operand.value != value && !is_less(other_lines, kLeastOtherLines));
  };
  return sizes_.k.is_constant() && divisible(sizes_.k, 4) && may_be_multiplied(a_, node.inputs[0], sizes_.n) &&
         may_be_multiplied(b_, node.inputs[1], sizes_.m) &&
         !is_less(sizes_.batch * sizes_.m * sizes_.n * sizes_.k, kLeastMultiplyAdds);
}

}  // namespace causeway::codegen
