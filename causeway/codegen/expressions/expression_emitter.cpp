#include "causeway/codegen/expressions/expression_emitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::codegen {
namespace {

std::string index_key(const Index& index) {
  std::string key = index.offset.text();
  for (const Index::Term& term : index.terms) key += fmt::format("+{}*({})", term.variable, term.coefficient.text());
  return key;
}

std::string position_key(const ElementPosition& position) {
  if (position.linear) return index_key(*position.linear);
  std::string key = "m";
  for (const Index& index : *position.multi) key += ";" + index_key(index);
  return key;
}

// The result of an op in float, rounded to the dtype it is declared to have.
std::string rounded(DType dtype, const std::string& expression) {
  return dtype == DType::kF32 ? expression : from_storage(dtype, to_storage(dtype, expression));
}

std::string convert(DType from, DType to, const std::string& value) {
  if (from == to) return value;
  if (is_float(to)) return rounded(to, is_float(from) ? value : fmt::format("static_cast<float>({})", value));
  if (to == DType::kBool) return fmt::format("({} != 0)", value);
  if (from != DType::kBool) return fmt::format("cast_to_{}({})", dtype_name(to), value);
  return fmt::format("static_cast<{}>({})", compute_type(to), value);
}

}  // namespace

std::string compute_type(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return "int32_t";
    case DType::kI64:
      return "int64_t";
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
  return sum.find(' ') != std::string::npos ? "(" + sum + ")" : sum;
}

ExpressionEmitter::ExpressionEmitter(const Graph& graph, EmitterContext& context, IndexVariables& variables,
                                     SymbolNames& symbols)
    : graph_(graph), context_(context), variables_(variables), symbols_(symbols) {}

std::string ExpressionEmitter::take_statements(int depth) {
  if (static_cast<size_t>(depth) >= statements_.size()) return {};
  return std::exchange(statements_[static_cast<size_t>(depth)], {});
}

void ExpressionEmitter::leave_loops(int depth) {
  std::erase_if(known_, [&](const auto& entry) { return entry.second.depth >= depth; });
  std::erase_if(quotients_, [&](const auto& entry) {
    return index_depth(entry.second.quotient) >= depth || index_depth(entry.second.remainder) >= depth;
  });
}

void ExpressionEmitter::place(int depth, const std::string& statement) {
  if (!captures_.empty()) {
    Capture& capture = captures_.back();
    (capture.of_all_lanes && depth < lane_depth() ? capture.before : capture.text) += statement + "\n";
    return;
  }
  if (static_cast<size_t>(depth) >= statements_.size()) statements_.resize(static_cast<size_t>(depth) + 1);
  statements_[static_cast<size_t>(depth)] += statement + "\n";
}

EmittedValue ExpressionEmitter::declare(const std::string& type, const std::string& expression, int depth) {
  const std::string name = fmt::format("t{}", next_name_++);
  place(depth, fmt::format("const {} {} = {};", type, name, expression));
  return {name, depth};
}

int ExpressionEmitter::add_variable(const std::string& expression, Dim extent, int depth) {
  const std::string name = fmt::format("i{}", variables_.size());
  place(depth, fmt::format("const {} {} = {};", index_type_, name, expression));
  variables_.push_back({name, std::move(extent), depth});
  return static_cast<int>(variables_.size()) - 1;
}

int ExpressionEmitter::index_depth(const Index& index) const {
  int depth = 0;
  for (const Index::Term& term : index.terms)
    depth = std::max(depth, variables_[static_cast<size_t>(term.variable)].depth);
  return depth;
}

std::string ExpressionEmitter::index_text(const Index& index) {
  std::string sum;
  for (const Index::Term& term : index.terms) {
    const std::string& name = variables_[static_cast<size_t>(term.variable)].name;
    sum += (sum.empty() ? "" : " + ") +
           (term.coefficient.is_constant(1) ? name : fmt::format("{} * {}", name, symbols_.text(term.coefficient)));
  }
  if (!index.offset.is_constant(0) || sum.empty()) sum += (sum.empty() ? "" : " + ") + symbols_.text(index.offset);
  return sum;
}

QuotientRemainder ExpressionEmitter::divide_at_run_time(const Index& index, const Dim& divisor,
                                                        const Dim& quotient_extent) {
  // A loop variable whose steps the divisor spans can be cut in two, and the division disappears.
  for (const Index::Term& term : index.terms) {
    const IndexVariable& variable = variables_[static_cast<size_t>(term.variable)];
    const std::optional<Dim> inner = divisor.divide_exactly(term.coefficient);
    if (inner && !inner->is_constant(1) && variable.extent.divide_exactly(*inner) && variable.extent != *inner)
      context_.want_split(term.variable, *inner);
  }
  const std::string key = index_key(index) + "/" + divisor.text();
  if (const auto entry = quotients_.find(key); entry != quotients_.end()) return entry->second;
  const int depth = index_depth(index);
  const std::string dividend = index_text(index), by = symbols_.text(divisor);
  const int quotient = add_variable(fmt::format("({}) / {}", dividend, by), quotient_extent, depth);
  const int remainder = add_variable(fmt::format("({}) % {}", dividend, by), divisor, depth);
  QuotientRemainder result{Index::of(quotient), Index::of(remainder)};
  quotients_.emplace(key, result);
  if (!captures_.empty()) captures_.back().quotients.push_back(key);
  return result;
}

std::vector<Index> ExpressionEmitter::delinearize(const Index& linear, const Shape& shape, size_t first_axis) {
  std::vector<Index> result(shape.size(), Index::constant(0));
  Index rest = linear;
  for (size_t i = shape.size(); i-- > first_axis;) {
    if (shape[i].is_constant(1)) continue;
    const Dim above = element_count(Shape(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(i)));
    if (above.is_constant(1)) {
      result[i] = rest;
      break;
    }
    std::optional<QuotientRemainder> parts = divide(rest, shape[i], variables_);
    if (!parts) parts = divide_at_run_time(rest, shape[i], above);
    result[i] = parts->remainder;
    rest = parts->quotient;
  }
  return result;
}

Index ExpressionEmitter::linear(const ElementPosition& position, const Shape& shape) {
  return position.linear ? *position.linear : linearize(*position.multi, shape);
}

std::vector<Index> ExpressionEmitter::multi(const ElementPosition& position, const Shape& shape) {
  return position.multi ? *position.multi : delinearize(*position.linear, shape);
}

EmittedValue ExpressionEmitter::load(Value value, const Index& linear) {
  const DType dtype = graph_.dtype(value);
  context_.note_load(value, linear);
  const std::string index = context_.known_index(linear).value_or(index_text(linear));
  const std::string reference = fmt::format("{}[{}]", context_.pointer(value), index);
  return declare(compute_type(dtype), from_storage(dtype, reference), index_depth(linear));
}

EmittedValue ExpressionEmitter::emit(Value value, const ElementPosition& position) {
  const Node& node = graph_.node(value);
  const bool stored = node.op != Op::kConstant && context_.is_stored(value);
  ElementPosition at = position;
  if (stored) at.linear = linear(position, graph_.shape(value));
  const Key key{value, position_key(at)};
  if (const auto entry = known_.find(key); entry != known_.end()) return entry->second;
  if (stored) {
    if (const std::optional<EmittedValue> variable = context_.variable(value, *at.linear)) {
      if (!captures_.empty() && captures_.front().of_all_lanes && variable->depth >= lane_depth())
        needs_lane_variable_ = true;
      return *variable;
    }
  }
  const EmittedValue result = stored ? load(value, *at.linear) : expand(value, at);
  known_.emplace(key, result);
  if (!captures_.empty()) captures_.back().values.push_back(key);
  return result;
}

EmittedValue ExpressionEmitter::expand(Value value, const ElementPosition& position) {
  const Node& node = graph_.node(value);
  const Shape& shape = node.outputs[0].shape;
  if (is_elementwise(node.op)) {
    std::vector<EmittedValue> inputs;
    for (const Value input : node.inputs) inputs.push_back(emit(input, position));
    return elementwise(node, inputs);
  }
  switch (node.op) {
    case Op::kIota: {
      const Index index = multi(position, shape)[static_cast<size_t>(node.attributes.axes[0])];
      const std::string text =
          fmt::format("static_cast<{}>({})", compute_type(node.attributes.dtype), index_text(index));
      return declare(compute_type(node.attributes.dtype),
                     is_float(node.attributes.dtype) ? rounded(node.attributes.dtype, text) : text, index_depth(index));
    }
    case Op::kRandomBits: {
      const EmittedValue seed = emit(node.inputs[0], {Index::constant(0), {}});
      const EmittedValue step = emit(node.inputs[0], {Index::constant(1), {}});
      const Index at = linear(position, shape);
      return declare(
          "int32_t",
          fmt::format("random_bits({}, {}, {}, {})", seed.name, step.name, node.attributes.stream, index_text(at)),
          std::max({seed.depth, step.depth, index_depth(at)}));
    }
    case Op::kGather:
      return gather(node, position);
    case Op::kConstant:
      return {literal(node.attributes.dtype, node.attributes.value), 0};
    default:
      break;
  }
  CAUSEWAY_CHECK(op_info(node.op).kind == OpKind::kMovement, "{} cannot be expanded in place", op_name(node.op));
  return movement(value, position);
}

EmittedValue ExpressionEmitter::movement(Value value, const ElementPosition& position) {
  const Node& node = graph_.node(value);
  const Attributes& attributes = node.attributes;
  const Value input = node.inputs[0];
  const Shape& from = graph_.shape(input);
  const Shape& shape = node.outputs[0].shape;
  if (node.op == Op::kReshape) return emit(input, {linear(position, shape), {}});
  if (node.op == Op::kBroadcast && std::all_of(from.begin(), from.end(), [](const Dim& d) { return d.is_constant(1); }))
    return emit(input, {Index::constant(0), std::vector<Index>(from.size(), Index::constant(0))});
  // A broadcast needs no index of the axes before the first that it keeps.
  size_t first_axis = 0;
  if (node.op == Op::kBroadcast) {
    first_axis = shape.size();
    for (size_t i = 0; i < from.size(); ++i)
      if (!from[i].is_constant(1)) first_axis = std::min(first_axis, static_cast<size_t>(attributes.axes[i]));
  }
  const std::vector<Index> at = position.multi ? *position.multi : delinearize(*position.linear, shape, first_axis);
  std::vector<Index> source(from.size(), Index::constant(0));
  switch (node.op) {
    case Op::kPermute:
      for (size_t i = 0; i < at.size(); ++i) source[static_cast<size_t>(attributes.axes[i])] = at[i];
      return emit(input, {{}, source});
    case Op::kBroadcast:
      for (size_t i = 0; i < from.size(); ++i)
        if (!from[i].is_constant(1)) source[i] = at[static_cast<size_t>(attributes.axes[i])];
      return emit(input, {{}, source});
    case Op::kSlice:
      for (size_t i = 0; i < at.size(); ++i)
        source[i] = shift(scale(at[i], attributes.strides[i]), attributes.start[i]);
      return emit(input, {{}, source});
    default:
      break;
  }
  const std::string type = compute_type(node.outputs[0].dtype);
  if (node.op == Op::kPad) {
    std::string condition;
    int depth = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      source[i] = shift(at[i], Dim(0) - attributes.start[i]);
      const auto require = [&](const char* comparison, const Dim& bound) {
        const Index index = for_comparison(at[i], bound);
        condition += (condition.empty() ? "" : " && ") +
                     fmt::format("{} {} {}", index_text(index), comparison, symbols_.text(bound));
        depth = std::max(depth, index_depth(index));
      };
      if (!attributes.start[i].is_constant(0)) require(">=", attributes.start[i]);
      if (!attributes.limit[i].is_constant(0)) require("<", attributes.start[i] + from[i]);
    }
    if (condition.empty()) return emit(input, {{}, source});
    const DType dtype = node.outputs[0].dtype;
    return conditional(
        type, condition, depth, [&] { return emit(input, {{}, source}); },
        [&] { return EmittedValue{literal(dtype, attributes.value), 0}; });
  }
  // Concatenation: the input whose range holds the index, by a chain of conditions.
  const size_t axis = static_cast<size_t>(attributes.axes[0]);
  std::function<EmittedValue(size_t, const Dim&)> choose = [&](size_t part, const Dim& begin) -> EmittedValue {
    std::vector<Index> inner = at;
    inner[axis] = shift(inner[axis], Dim(0) - begin);
    const auto element = [&] { return emit(node.inputs[part], {{}, inner}); };
    const Dim end = begin + graph_.shape(node.inputs[part])[axis];
    if (part + 1 == node.inputs.size() || is_within(at[axis], end, variables_)) return element();
    const Index index = for_comparison(at[axis], end);
    return conditional(type, fmt::format("{} < {}", index_text(index), symbols_.text(end)), index_depth(index), element,
                       [&] { return choose(part + 1, end); });
  };
  return choose(0, Dim(0));
}

// index < bound and index >= bound do not depend on the lane when the rest of the index and the bound are multiples of
// the number of lanes.
Index ExpressionEmitter::for_comparison(const Index& index, const Dim& bound) const {
  Index rest{{}, index.offset};
  bool uniform = lane_variable_ >= 0 && bound.divide_exactly(lanes_) && index.offset.divide_exactly(lanes_);
  for (const Index::Term& term : index.terms) {
    if (term.variable == lane_variable_) {
      uniform = uniform && term.coefficient.is_constant(1);
    } else {
      uniform = uniform && term.coefficient.divide_exactly(lanes_);
      rest.terms.push_back(term);
    }
  }
  return uniform ? rest : index;
}

EmittedValue ExpressionEmitter::conditional(const std::string& type, const std::string& condition, int condition_depth,
                                            const std::function<EmittedValue()>& taken,
                                            const std::function<EmittedValue()>& otherwise) {
  if (lane_variable_ >= 0 && condition_depth < lane_depth() && !needs_lane_variable_ &&
      std::all_of(captures_.begin(), captures_.end(), [](const Capture& capture) { return capture.of_all_lanes; })) {
    const std::optional<EmittedValue> result = lanes_conditional(type, condition, taken, otherwise);
    if (result) return *result;
  }
  // Both branches keep their statements inside: an index is only in range where its condition holds.
  const std::string name = fmt::format("t{}", next_name_++);
  int depth = condition_depth;
  std::string branches[2];
  const size_t first_variable = variables_.size();
  for (const int branch : {0, 1}) {
    captures_.emplace_back();
    const EmittedValue value = branch == 0 ? taken() : otherwise();
    branches[branch] = std::move(captures_.back().text);
    end_capture();
    branches[branch] += fmt::format("{} = {};\n", name, value.name);
    depth = std::max(depth, value.depth);
  }
  for (size_t i = first_variable; i < variables_.size(); ++i) depth = std::max(depth, variables_[i].depth);
  place(depth, fmt::format("{} {};\nif ({}) {{\n{}}} else {{\n{}}}", type, name, condition, branches[0], branches[1]));
  return {name, depth};
}

void ExpressionEmitter::end_capture() {
  for (const Key& key : captures_.back().values) known_.erase(key);
  for (const std::string& key : captures_.back().quotients) quotients_.erase(key);
  captures_.pop_back();
}

// One decision for all lanes, before their loop: so the lanes' loads can merge. Nothing when a branch needs a variable
// of that loop.
std::optional<EmittedValue> ExpressionEmitter::lanes_conditional(const std::string& type, const std::string& condition,
                                                                 const std::function<EmittedValue()>& taken,
                                                                 const std::function<EmittedValue()>& otherwise) {
  const std::string name = fmt::format("t{}", next_name_++);
  const std::string& lane = variables_[static_cast<size_t>(lane_variable_)].name;
  const std::string loop =
      fmt::format("#pragma clang loop unroll(full)\nfor (int {0} = 0; {0} < {1}; ++{0}) {{\n", lane, lanes_);
  // What the lanes' loop has computed does not exist yet before it.
  const std::map<Key, EmittedValue> known = known_;
  const std::map<std::string, QuotientRemainder> quotients = quotients_;
  leave_loops(lane_depth());
  std::string branches[2];
  for (const int branch : {0, 1}) {
    captures_.emplace_back();
    captures_.back().of_all_lanes = true;
    const EmittedValue value = branch == 0 ? taken() : otherwise();
    branches[branch] = captures_.back().before + loop + captures_.back().text +
                       fmt::format("{}[{}] = {};\n}}\n", name, lane, value.name);
    end_capture();
  }
  known_ = known;
  quotients_ = quotients;
  if (needs_lane_variable_) return std::nullopt;  // nor can the conditions around this one be decided before the loop
  place(lane_depth() - 1, fmt::format("{} {}[{}];\nif ({}) {{\n{}}} else {{\n{}}}", type, name, lanes_, condition,
                                      branches[0], branches[1]));
  return EmittedValue{fmt::format("{}[{}]", name, lane), lane_depth()};
}

std::optional<Index> ExpressionEmitter::as_index(Value value, const ElementPosition& position) {
  if (const std::optional<Index> index = context_.position_index(value)) return index;
  const Node& node = graph_.node(value);
  if (context_.is_stored(value)) return std::nullopt;
  if (node.op == Op::kIota) return multi(position, node.outputs[0].shape)[static_cast<size_t>(node.attributes.axes[0])];
  if (node.op == Op::kCast && is_integer(node.attributes.dtype) && is_integer(graph_.dtype(node.inputs[0])))
    return as_index(node.inputs[0], position);
  return std::nullopt;
}

EmittedValue ExpressionEmitter::gather(const Node& node, const ElementPosition& position) {
  const Value table = node.inputs[0], indices = node.inputs[1];
  const size_t axis = static_cast<size_t>(node.attributes.axes[0]);
  const size_t index_rank = graph_.shape(indices).size();
  const std::vector<Index> at = multi(position, node.outputs[0].shape);
  const auto part = [&](size_t begin, size_t end) {
    return std::vector<Index>(at.begin() + static_cast<ptrdiff_t>(begin), at.begin() + static_cast<ptrdiff_t>(end));
  };
  const ElementPosition index_position{{}, part(axis, axis + index_rank)};
  const Dim& size = graph_.shape(table)[axis];
  std::optional<Index> index = as_index(indices, index_position);
  if (!index || !is_within(*index, size, variables_)) {
    const EmittedValue raw = emit(indices, index_position);
    index = Index::of(add_variable(fmt::format("clamp_index({}, {})", raw.name, symbols_.text(size)), size, raw.depth));
  }
  std::vector<Index> source = part(0, axis);
  source.push_back(*index);
  const std::vector<Index> trailing = part(axis + index_rank, at.size());
  source.insert(source.end(), trailing.begin(), trailing.end());
  return emit(table, {{}, source});
}

EmittedValue ExpressionEmitter::elementwise(const Node& node, const std::vector<EmittedValue>& inputs) {
  const DType dtype = node.outputs[0].dtype;
  const DType input_dtype = graph_.dtype(node.inputs[0]);
  const auto in = [&](size_t i) -> const std::string& { return inputs[i].name; };
  int depth = 0;
  for (const EmittedValue& input : inputs) depth = std::max(depth, input.depth);
  const bool floating = is_float(dtype);
  const auto call = [&](const char* function) {
    std::string arguments;
    for (const EmittedValue& input : inputs) arguments += (arguments.empty() ? "" : ", ") + input.name;
    return fmt::format("{}({})", function, arguments);
  };
  const auto infix = [&](const char* symbol) { return fmt::format("{} {} {}", in(0), symbol, in(1)); };
  std::string text;
  switch (node.op) {
    case Op::kNeg:
      text = floating ? fmt::format("-{}", in(0)) : call("negate_integer");
      break;
    case Op::kAbs:
      text = call(floating ? "__builtin_fabsf" : "absolute_integer");
      break;
    case Op::kExp2:
      text = call("exp2_f32");
      break;
    case Op::kLog2:
      text = call("log2_f32");
      break;
    case Op::kSin:
      text = call("sin_f32");
      break;
    case Op::kCos:
      text = call("cos_f32");
      break;
    case Op::kSqrt:
      text = call("__builtin_sqrtf");
      break;
    case Op::kRsqrt:
      text = call("rsqrt_f32");
      break;
    case Op::kRecip:
      text = call("reciprocal_f32");
      break;
    case Op::kTanh:
      text = call("tanh_f32");
      break;
    case Op::kErf:
      text = call("erf_f32");
      break;
    case Op::kFloor:
      text = call("__builtin_floorf");
      break;
    case Op::kCast:
      text = convert(input_dtype, dtype, in(0));
      break;
    case Op::kBitcast: {
      const std::string bits =
          fmt::format("__builtin_bit_cast({}, {})", storage_type(dtype), to_storage(input_dtype, in(0)));
      text = from_storage(dtype, bits);
      break;
    }
    case Op::kAdd:
      text = floating ? infix("+") : call("add_integers");
      break;
    case Op::kSub:
      text = floating ? infix("-") : call("subtract_integers");
      break;
    case Op::kMul:
      text = floating ? infix("*") : call("multiply_integers");
      break;
    case Op::kDiv:
      text = floating ? infix("/") : call("divide_integers");
      break;
    case Op::kRem:
      text = call(floating ? "fmod_f32" : "integer_remainder");
      break;
    case Op::kMax:
      text = floating ? call("max_f32") : fmt::format("{0} > {1} ? {0} : {1}", in(0), in(1));
      break;
    case Op::kMin:
      text = floating ? call("min_f32") : fmt::format("{0} < {1} ? {0} : {1}", in(0), in(1));
      break;
    case Op::kPow:
      text = call("pow_f32");
      break;
    case Op::kAnd:
      text = infix("&");
      break;
    case Op::kOr:
      text = infix("|");
      break;
    case Op::kXor:
      text = infix("^");
      break;
    case Op::kShl:
      text = call("shift_left");
      break;
    case Op::kShr:
      text = call("shift_right");
      break;
    case Op::kLt:
      text = infix("<");
      break;
    case Op::kLe:
      text = infix("<=");
      break;
    case Op::kEq:
      text = infix("==");
      break;
    case Op::kSelect:
      text = fmt::format("{} ? {} : {}", in(0), in(1), in(2));
      break;
    case Op::kFma:
      text = floating ? fmt::format("{} * {} + {}", in(0), in(1), in(2))
                      : fmt::format("add_integers(multiply_integers({}, {}), {})", in(0), in(1), in(2));
      break;
    default:
      CAUSEWAY_CHECK(false, "{} is not elementwise", op_name(node.op));
  }
  const bool computed_in_float = floating && node.op != Op::kCast && node.op != Op::kBitcast && node.op != Op::kSelect;
  if (computed_in_float) text = rounded(dtype, "(" + text + ")");
  // Narrow integers wrap as their type does.
  if (dtype == DType::kU8) text = fmt::format("static_cast<uint8_t>({})", text);
  return declare(compute_type(dtype), text, depth);
}

}  // namespace causeway::codegen
