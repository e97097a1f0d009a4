#include "causeway/codegen/expressions/expression_emitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/elementwise_text.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

std::string in_float(DType dtype, const std::string& value) {
  return is_float(dtype) ? value : fmt::format("static_cast<float>({})", value);
}

// Of a sigmoid: a power and a constant of at least 1, added up.
bool is_one_or_more(const Graph& graph, Value value) {
  const Node& sum = graph.node(value);
  if (sum.op != Op::kAdd) return false;
  for (size_t i = 0; i < 2; ++i) {
    const Node& constant = graph.node(sum.inputs[i]);
    if (constant.op == Op::kConstant && constant.attributes.value >= 1)
      return graph.node(sum.inputs[1 - i]).op == Op::kExp2;
  }
  return false;
}

}  // namespace

std::string compute_type(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return "int32_t";
    case DType::kI64:
      return "int64_t";
    case DType::kI16:
      return "int16_t";
    case DType::kU8:
      return "uint8_t";
    case DType::kBool:
      return "bool";
    default:
      return "float";
  }
}

std::string storage_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kF8E4M3:
      return "f8e4m3";
    case DType::kF8E5M2:
      return "f8e5m2";
    case DType::kBool:
      return "uint8_t";
    default:
      return compute_type(dtype);
  }
}

std::string from_storage(DType dtype, const std::string& reference) {
  if (dtype == DType::kBool) return fmt::format("({} != 0)", reference);
  if (!is_float(dtype) || dtype == DType::kF32) return reference;
  return fmt::format("to_float({})", reference);
}

std::string to_storage(DType dtype, const std::string& value) {
  if (dtype == DType::kBool) return fmt::format("static_cast<uint8_t>({})", value);
  if (!is_float(dtype) || dtype == DType::kF32) return value;
  return fmt::format("to_{}({})", dtype_name(dtype), value);
}

std::string exact_storage(DType dtype, const std::string& value) {
  return dtype == DType::kBF16 ? fmt::format("exact_bf16({})", value) : to_storage(dtype, value);
}

std::string rounded(DType dtype, const std::string& value) {
  return is_float(dtype) && dtype != DType::kF32 ? from_storage(dtype, to_storage(dtype, value)) : value;
}

std::string rounded_alone(DType dtype, const std::string& value) {
  return dtype == DType::kBF16 ? fmt::format("round_to_bf16({})", value) : rounded(dtype, value);
}

std::string literal(DType dtype, double value) {
  if (dtype == DType::kBool) return value != 0 ? "true" : "false";
  if (dtype == DType::kI64) {
    const int64_t integer = value >= 0x1p63 ? INT64_MAX : value <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
    return integer == INT64_MIN ? "(-9223372036854775807ll - 1)" : fmt::format("int64_t({})", integer);
  }
  if (!is_float(dtype))
    return fmt::format("{}({}ll)", compute_type(dtype), static_cast<int64_t>(round_to_dtype(dtype, value)));
  const double stored = round_to_dtype(dtype, value);
  if (std::isnan(stored)) return "__builtin_nanf(\"\")";
  if (std::isinf(stored)) return stored < 0 ? "(-__builtin_inff())" : "__builtin_inff()";
  std::string digits = fmt::format("{:.9g}", stored);
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return stored < 0 || std::signbit(stored) ? fmt::format("({}f)", digits) : digits + "f";
}

std::string sum_text(DType dtype, const std::string& a, const std::string& b) {
  return is_float(dtype) ? fmt::format("{} + {}", a, b) : fmt::format("add_integers({}, {})", a, b);
}

std::string SymbolNames::text(const Dim& dim) {
  if (dim.is_constant()) return fmt::format("{}", dim.constant());
  const auto name = [this](int32_t symbol) {
    auto position = std::find(symbols_.begin(), symbols_.end(), symbol);
    if (position == symbols_.end()) position = symbols_.insert(symbols_.end(), symbol);
    return fmt::format("d{}", position - symbols_.begin());
  };
  // Terms in the order of the symbols' text, so that a kernel's text does not depend on symbol ids.
  std::vector<std::pair<std::string, const Dim::Term*>> ordered;
  for (const Dim::Term& term : dim.terms()) {
    std::string key;
    for (const int32_t symbol : term.symbols) key += Dim::symbol_name(symbol) + "*";
    ordered.emplace_back(key, &term);
  }
  std::sort(ordered.begin(), ordered.end());
  std::string sum;
  for (const auto& [key, term] : ordered) {
    std::string product = term->coefficient == 1 ? "" : fmt::format("{}", term->coefficient);
    for (const int32_t symbol : term->symbols) product += (product.empty() ? "" : " * ") + name(symbol);
    sum += (sum.empty() ? "" : " + ") + product;
  }
  if (dim.constant_term() != 0) sum += fmt::format(" + {}", dim.constant_term());
  const bool is_one_name = dim.terms().size() == 1 && dim.terms().front().coefficient == 1 &&
                           dim.terms().front().symbols.size() == 1 && dim.constant_term() == 0;
  return is_one_name ? sum : "(" + sum + ")";
}

std::string ExpressionEmitter::take_statements(int depth) {
  const Statements statements = take(depth);
  return has_lanes() ? statements.text(lane_name(), lanes()) : statements.text();
}

Statements ExpressionEmitter::take(int depth) {
  if (static_cast<size_t>(depth) >= statements_.size()) return {};
  return std::exchange(statements_[static_cast<size_t>(depth)], {});
}

void ExpressionEmitter::place(int depth, const std::string& statement) {
  if (!branches_.empty()) {
    Branch& branch = branches_.back();
    if (branch.of_all_lanes && depth < lane_depth()) {
      branch.before.add(statement + "\n");
    } else {
      branch.text += statement + "\n";
    }
    return;
  }
  at_depth(depth).add(statement + "\n");
}

Statements& ExpressionEmitter::at_depth(int depth) {
  if (static_cast<size_t>(depth) >= statements_.size()) statements_.resize(static_cast<size_t>(depth) + 1);
  return statements_[static_cast<size_t>(depth)];
}

WrittenValue ExpressionEmitter::declare(const std::string& type, const std::string& expression, int depth) {
  WrittenValue written = new_variable_name();
  place(depth, fmt::format("const {} {} = {};", type, written.name, expression));
  return written;
}

std::string ExpressionEmitter::round(DType dtype, const std::string& value) const {
  return rounds_alone_ ? rounded_alone(dtype, value) : rounded(dtype, value);
}

std::string ExpressionEmitter::convert(DType from, DType to, const std::string& value) const {
  if (from == to) return value;
  if (is_float(to)) return round(to, in_float(from, value));
  if (to == DType::kBool) return fmt::format("({} != 0)", value);
  if (from != DType::kBool) return fmt::format("cast_to_{}({})", dtype_name(to), value);
  return fmt::format("static_cast<{}>({})", compute_type(to), value);
}

// What is stored as an 8-bit float keeps that at hand: to store it takes no conversion, to move it none at all.
WrittenValue ExpressionEmitter::declare_stored(DType dtype, const std::string& stored, int depth) {
  if (is_float(dtype) && size_bytes(dtype) == 1)
    return declare(fmt::format("Rounded<{}>", storage_type(dtype)), "{" + stored + "}", depth);
  return declare(compute_type(dtype), from_storage(dtype, stored), depth);
}

void ExpressionEmitter::define_variable(int variable, const std::string& expression) {
  const IndexVariable& defined = variables_[static_cast<size_t>(variable)];
  defined_variables_.insert(variable);
  place(defined.depth, fmt::format("const {} {} = {};", index_type_, defined.name, expression));
}

std::string ExpressionEmitter::index_text(const Index& index) {
  std::string sum;
  for (const Index::Term& term : index.terms) {
    const std::string& name = variables_[static_cast<size_t>(term.variable)].name;
    sum += (sum.empty() ? "" : " + ") +
           (term.coefficient.is_constant(1) ? name : fmt::format("{} * {}", name, symbols_.text(term.coefficient)));
    written_variables_.insert(term.variable);
  }
  if (!index.offset.is_constant(0) || sum.empty()) sum += (sum.empty() ? "" : " + ") + symbols_.text(index.offset);
  return sum;
}

void ExpressionEmitter::write_division(const Index& index, const Dim& divisor, int quotient, int remainder) {
  const std::string dividend = index_text(index), by = symbols_.text(divisor);
  define_variable(quotient, fmt::format("({}) / {}", dividend, by));
  define_variable(remainder, fmt::format("({}) % {}", dividend, by));
}

void ExpressionEmitter::write_clamped(int variable, const ElementValue& index, const Dim& size) {
  define_variable(variable, fmt::format("clamp_index({}, {})", index.name, symbols_.text(size)));
}

WrittenValue ExpressionEmitter::write_load(Value value, const Index& linear, int depth) {
  const DType dtype = graph_.dtype(value);
  const std::string index = text_.known_index(linear).value_or(index_text(linear));
  return declare_stored(dtype, fmt::format("{}[{}]", text_.pointer(value), index), depth);
}

WrittenValue ExpressionEmitter::write_iota(const Node& node, const Index& index, int depth) {
  const DType dtype = node.attributes.dtype;
  const std::string text = fmt::format("static_cast<{}>({})", compute_type(dtype), index_text(index));
  WrittenValue written = declare(compute_type(dtype), round(dtype, text), depth);
  if (settles_comparisons_ && (dtype == DType::kI32 || dtype == DType::kI64)) {
    const std::optional<Index> first = where_it_begins(index, lane_variable());
    const auto of_loops = [&] {
      return std::ranges::none_of(first->terms,
                                  [&](const Index::Term& term) { return defined_variables_.contains(term.variable); });
    };
    if (first && of_loops()) lane_positions_[written.variable] = *first;
  }
  return written;
}

// A comparison whose most frequent outcome for all lanes is a constant where `settled` is true.
std::optional<std::string> ExpressionEmitter::settled_comparison(const Node& node,
                                                                 const std::vector<ElementValue>& inputs) {
  if (!settles_comparisons_ || !branches_.empty()) return std::nullopt;
  const size_t position = lane_positions_.contains(inputs[0].variable) ? 0 : 1;
  const ElementValue& other = inputs[1 - position];
  if (!lane_positions_.contains(inputs[position].variable) || other.depth >= lane_depth() - 1) return std::nullopt;
  if (node.op != Op::kEq && position != 0) return std::nullopt;
  const std::string first = index_text(lane_positions_.at(inputs[position].variable));
  const std::string last = fmt::format("{} + {}", first, lanes() - 1);
  std::string condition, text;
  if (node.op == Op::kEq) {
    condition = fmt::format("({0} < {1} || {0} > {2})", other.name, first, last);
    text = fmt::format("!settled && {} == {}", inputs[0].name, inputs[1].name);
  } else {
    const char* symbol = node.op == Op::kLt ? "<" : "<=";
    condition = fmt::format("{} {} {}", last, symbol, other.name);
    text = fmt::format("settled || {} {} {}", inputs[0].name, symbol, inputs[1].name);
  }
  settled_condition_ = settled_condition_ ? *settled_condition_ + " && " + condition : condition;
  return text;
}

WrittenValue ExpressionEmitter::write_random_bits(const Node& node, const ElementValue& seed, const ElementValue& step,
                                                  const Index& at, int depth) {
  return declare(
      "int32_t",
      fmt::format("random_bits({}, {}, {}, {})", seed.name, step.name, node.attributes.stream, index_text(at)), depth);
}

WrittenValue ExpressionEmitter::write_literal(DType dtype, double value) { return {literal(dtype, value)}; }

std::string ExpressionEmitter::write_condition(const std::vector<Comparison>& all_of) {
  std::string condition;
  for (const Comparison& comparison : all_of) {
    const auto& [index, less, bound] = comparison;
    condition += (condition.empty() ? "" : " && ") +
                 fmt::format("{} {} {}", index_text(index), less ? "<" : ">=", symbols_.text(bound));
    if (const Dim turn = bound - index.offset;
        index.terms.size() == 1 && index.terms.front().coefficient.is_constant(1) && turn.is_constant())
      turns_[index.terms.front().variable].insert(turn.constant());
  }
  return condition;
}

void ExpressionEmitter::begin_branch(bool of_all_lanes) { branches_.push_back({of_all_lanes, {}, {}}); }

void ExpressionEmitter::end_branch(const std::string& result, const ElementValue& value) {
  Branch branch = std::move(branches_.back());
  branches_.pop_back();
  branch.text += fmt::format("{} = {};\n", result, value.name);
  if (branch.of_all_lanes) {
    branch.before.add_for_each_lane(branch.text);
  } else {
    branch.before.add(branch.text);
  }
  finished_branches_.push_back(std::move(branch.before));
}

void ExpressionEmitter::discard_branches() { finished_branches_.resize(finished_branches_.size() - 2); }

void ExpressionEmitter::write_conditional(DType dtype, const std::string& result, const std::string& condition,
                                          bool of_all_lanes, int depth) {
  Statements whole;
  whole.add(fmt::format("{} {}{};\nif ({}) {{\n", compute_type(dtype), result,
                        of_all_lanes ? fmt::format("[{}]", lanes()) : "", condition));
  whole.add(finished_branches_[finished_branches_.size() - 2]);
  whole.add("} else {\n");
  whole.add(finished_branches_.back());
  whole.add("}\n");
  discard_branches();
  if (branches_.empty()) {
    at_depth(depth).add(whole);
  } else if (of_all_lanes || (branches_.back().of_all_lanes && depth < lane_depth())) {
    branches_.back().before.add(whole);
  } else {
    branches_.back().text += whole.text();
  }
}

// What is left unused of the erf is not computed.
bool ExpressionEmitter::adds_one_to_erf(const Node& node, const std::vector<ElementValue>& inputs, size_t erf) const {
  const Node& other = graph_.node(node.inputs[1 - erf]);
  return node.outputs[0].dtype == DType::kF32 && erf_arguments_.contains(inputs[erf].variable) &&
         other.op == Op::kConstant && other.attributes.value == 1;
}

WrittenValue ExpressionEmitter::write_elementwise(const Node& node, const std::vector<ElementValue>& inputs,
                                                  int depth) {
  const DType dtype = node.outputs[0].dtype;
  const DType input_dtype = graph_.dtype(node.inputs[0]);
  const std::string& in = inputs[0].name;
  const bool floating = is_float(dtype);
  std::string text;
  switch (node.op) {
    case Op::kTanh:
      text = fmt::format("{}({})", text_.tanh_function(), in);
      break;
    case Op::kRecip:
      text = dtype == DType::kF32 && is_one_or_more(graph_, node.inputs[0])
                 ? fmt::format("reciprocal_of_normal_f32({})", in)
                 : elementwise_text(node.op, floating, inputs);
      break;
    case Op::kErf: {
      WrittenValue written = declare(compute_type(dtype), round(dtype, fmt::format("erf_f32({})", in)), depth);
      if (dtype == DType::kF32) erf_arguments_[written.variable] = in;
      return written;
    }
    case Op::kCast:
      if (floating && size_bytes(dtype) == 1)
        return declare_stored(dtype, to_storage(dtype, in_float(input_dtype, in)), depth);
      text = convert(input_dtype, dtype, in);
      break;
    case Op::kBitcast:
      return declare_stored(
          dtype, fmt::format("__builtin_bit_cast({}, {})", storage_type(dtype), to_storage(input_dtype, in)), depth);
    case Op::kAdd:
      text = floating && adds_one_to_erf(node, inputs, 0)
                 ? fmt::format("one_plus_erf_f32({})", erf_arguments_.at(inputs[0].variable))
             : floating && adds_one_to_erf(node, inputs, 1)
                 ? fmt::format("one_plus_erf_f32({})", erf_arguments_.at(inputs[1].variable))
                 : elementwise_text(node.op, floating, inputs);
      break;
    case Op::kLt:
    case Op::kLe:
    case Op::kEq:
      text = settled_comparison(node, inputs).value_or(elementwise_text(node.op, floating, inputs));
      break;
    default:
      text = elementwise_text(node.op, floating, inputs);
  }
  const bool computed_in_float = floating && node.op != Op::kCast && node.op != Op::kSelect;
  if (computed_in_float) text = round(dtype, "(" + text + ")");
  // Narrow integers wrap as their type does.
  if (dtype == DType::kU8 || dtype == DType::kI16) text = fmt::format("static_cast<{}>({})", compute_type(dtype), text);
  return declare(compute_type(dtype), text, depth);
}

}  // namespace causeway::codegen
