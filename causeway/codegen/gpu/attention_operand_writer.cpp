#include "causeway/codegen/gpu/attention_operand_writer.h"

#include <algorithm>
#include <array>

#include "causeway/graph/op.h"

namespace causeway::codegen {

void GpuAttentionOperandWriter::find_operands() {
  const auto add = [&](const char* name, const char* row, const char* position, size_t input) {
    const Value value = node_.inputs[input];
    operands_.push_back({name, row, position, value, find_rows(position, value)});
  };
  add("Q", "q_row", "t", 0);
  add("K", "k_row", "s", 1);
  add("V", "v_row", "s", 2);
  if (backward_) add("Gradient", "out_gradient_row", "t", 3);
}

std::vector<std::optional<GpuAttentionRows>> GpuAttentionOperandWriter::rows() const {
  std::vector<std::optional<GpuAttentionRows>> result;
  for (const Operand& operand : operands_) result.push_back(operand.rows);
  return result;
}

std::optional<Value> GpuAttentionOperandWriter::scattered_operand() const {
  const auto found = std::find_if(operands_.begin(), operands_.end(), [&](const Operand& operand) {
    return !operand.rows && !materialized_.contains(operand.value);
  });
  if (found == operands_.end()) return std::nullopt;
  return found->value;
}

std::string GpuAttentionOperandWriter::access_constants(const GpuAttentionPlan& plan) {
  std::string text;
  if (plan.loads_by_tma)
    text = fmt::format("static constexpr bool kComputesOperands = {};\n", plan.computes_operands());
  int map = 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const auto& [name, row, position, value, rows] = operands_[i];
    const bool in_memory = plan.in_memory[i];
    if (plan.loads_by_tma) {
      text += fmt::format("static constexpr int kMap{} = {};\n", name, in_memory ? map++ : -1);
      if (in_memory) pointer(rows->source);
    } else {
      text += fmt::format("static constexpr bool kDirect{} = {};\n", name, in_memory);
    }
  }
  return text;
}

std::string GpuAttentionOperandWriter::row_functions(const GpuAttentionPlan& plan) {
  std::string text;
  if (plan.loads_by_tma) return text;
  for (size_t i = 0; i < operands_.size(); ++i)
    if (plan.in_memory[i]) text += row_function(operands_[i], plan.rounds_to_tf32);
  return text;
}

std::vector<MappedAttentionRows> GpuAttentionOperandWriter::mapped_rows(const GpuAttentionPlan& plan) const {
  std::vector<MappedAttentionRows> result;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (!plan.loads_by_tma || !plan.in_memory[i]) continue;
    const GpuAttentionRows& rows = *operands_[i].rows;
    const auto found = std::find_if(arguments_.begin(), arguments_.end(), [&](const KernelArgument& candidate) {
      return candidate.kind == KernelArgument::Kind::kValue && candidate.value == rows.source;
    });
    CAUSEWAY_CHECK(found != arguments_.end(), "an operand of attention is no argument of its kernel");
    result.push_back({rows, static_cast<int>(found - arguments_.begin()), plan.box_lines(i)});
  }
  return result;
}

std::optional<GpuAttentionRows> GpuAttentionOperandWriter::find_rows(const std::string& position, Value operand) {
  GpuAttentionRows rows;
  rows.source = operand;
  while (!materialized_.contains(rows.source)) {
    const Node& node = graph_.node(rows.source);
    if (node.op != Op::kReshape && node.op != Op::kPermute && node.op != Op::kSlice) return std::nullopt;
    rows.source = node.inputs[0];
  }
  rows.shape = graph_.shape(operand);
  const Shape& shape = rows.shape;
  const int first = static_cast<int>(variables_.size());
  for (const auto& [variable, axis] :
       {std::pair{std::string("b"), 0}, {std::string("h"), 2}, {position, 1}, {std::string("d"), 3}})
    parameter(variable, shape[static_cast<size_t>(axis)]);
  const std::vector<Index> at = {Index::of(first), Index::of(first + 2), Index::of(first + 1), Index::of(first + 3)};
  const size_t known = variables_.size();
  pointer(rows.source);
  ElementWalk walk(graph_, *this, variables_);
  loads_.clear();
  walk.compute(operand, {{}, at});
  if (loads_.size() != 1 || variables_.size() != known) return std::nullopt;
  const Index& linear = loads_.front();
  rows.element_bytes = static_cast<int64_t>(size_bytes(graph_.dtype(operand)));
  const int64_t piece = 16 / rows.element_bytes;
  const auto in_pieces = [&](const Dim& dim) { return dim.is_constant(0) || dim.divide_exactly(piece).has_value(); };
  bool contiguous = false;
  rows.strides.fill(Dim(0));
  for (const Index::Term& term : linear.terms) {
    if (term.variable == first + 3) {
      contiguous = term.coefficient.is_constant(1);
    } else if (term.variable >= first && in_pieces(term.coefficient)) {
      rows.strides[static_cast<size_t>(term.variable - first)] = term.coefficient;
    } else {
      return std::nullopt;
    }
  }
  rows.offset = linear.offset;
  if (!contiguous || !in_pieces(rows.offset) || shape[3].constant() % piece != 0) return std::nullopt;
  return rows;
}

// The address of a row of a head.
std::string GpuAttentionOperandWriter::row_function(const Operand& operand, bool rounds_to_tf32) {
  const GpuAttentionRows& rows = *operand.rows;
  const int first = static_cast<int>(variables_.size());
  Index linear = Index::constant(rows.offset);
  for (const auto& [variable, axis] : {std::pair{std::string("b"), 0}, {std::string("h"), 2}, {operand.position, 1}})
    parameter(variable, rows.shape[static_cast<size_t>(axis)]);
  for (int i = 0; i < 3; ++i)
    if (!rows.strides[static_cast<size_t>(i)].is_constant(0))
      linear = add(linear, scale(Index::of(first + i), rows.strides[static_cast<size_t>(i)]));
  ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
  const std::string data = pointer(rows.source);
  return fmt::format(
      "CAUSEWAY_INLINE const Operand* {}(int64_t b, int64_t h, int64_t {}) const {{ return {} + {}; }}\n", operand.row,
      operand.position, rounds_to_tf32 ? fmt::format("reinterpret_cast<const Operand*>({})", data) : data,
      emitter.index_text(linear));
}

}  // namespace causeway::codegen
