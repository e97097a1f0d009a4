#include "causeway/codegen/expressions/element_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {

bool ElementWalk::Key::operator<(const Key& other) const {
  return std::tie(value, is_linear, position) < std::tie(other.value, other.is_linear, other.position);
}

bool ElementWalk::Division::operator<(const Division& other) const {
  return std::tie(index, divisor) < std::tie(other.index, other.divisor);
}

WrittenValue ElementWalk::new_variable_name() {
  const int number = next_variable_++;
  return {fmt::format("t{}", number), WrittenVariable{number}};
}

ElementValue ElementWalk::at_depth(WrittenValue written, int depth) {
  return {std::move(written.name), depth, written.variable};
}

void ElementWalk::leave_loops(int depth) {
  std::erase_if(known_, [&](const auto& entry) { return entry.second.depth >= depth; });
  std::erase_if(quotients_, [&](const auto& entry) {
    return index_depth(entry.second.quotient) >= depth || index_depth(entry.second.remainder) >= depth;
  });
}

int ElementWalk::new_variable(Dim extent, int depth) {
  variables_.push_back({fmt::format("i{}", variables_.size()), std::move(extent), depth});
  return static_cast<int>(variables_.size()) - 1;
}

int ElementWalk::index_depth(const Index& index) const {
  int depth = 0;
  for (const Index::Term& term : index.terms)
    depth = std::max(depth, variables_[static_cast<size_t>(term.variable)].depth);
  return depth;
}

QuotientRemainder ElementWalk::divide_at_run_time(const Index& index, const Dim& divisor, const Dim& quotient_extent) {
  // A loop variable whose steps the divisor spans can be cut in two, and the division disappears.
  for (const Index::Term& term : index.terms) {
    const IndexVariable& variable = variables_[static_cast<size_t>(term.variable)];
    const std::optional<Dim> inner = divisor.divide_exactly(term.coefficient);
    if (inner && !inner->is_constant(1) && variable.extent.divide_exactly(*inner) && variable.extent != *inner)
      context_.want_split(term.variable, *inner);
  }
  const Division division{index, divisor};
  if (const auto entry = quotients_.find(division); entry != quotients_.end()) return entry->second;
  const int depth = index_depth(index);
  const int quotient = new_variable(quotient_extent, depth);
  const int remainder = new_variable(divisor, depth);
  write_division(index, divisor, quotient, remainder);
  QuotientRemainder result{Index::of(quotient), Index::of(remainder)};
  quotients_.emplace(division, result);
  if (!branches_.empty()) branches_.back().divisions.push_back(division);
  return result;
}

std::vector<Index> ElementWalk::delinearize(const Index& linear, const Shape& shape, size_t first_axis) {
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

Index ElementWalk::linear(const ElementPosition& position, const Shape& shape) {
  return position.linear ? *position.linear : linearize(*position.multi, shape);
}

std::vector<Index> ElementWalk::multi(const ElementPosition& position, const Shape& shape) {
  return position.multi ? *position.multi : delinearize(*position.linear, shape);
}

ElementValue ElementWalk::compute(Value value, const ElementPosition& position) {
  const Node& node = graph_.node(value);
  const bool stored = node.op != Op::kConstant && context_.is_stored(value);
  ElementPosition at = position;
  if (stored) at.linear = linear(position, graph_.shape(value));
  const Key key{value, at.linear.has_value(), at.linear ? std::vector<Index>{*at.linear} : *at.multi};
  if (const auto entry = known_.find(key); entry != known_.end()) return entry->second;
  if (stored) {
    if (const std::optional<ElementValue> variable = context_.variable(value, *at.linear)) {
      if (!branches_.empty() && branches_.front().of_all_lanes && variable->depth >= lane_depth())
        needs_lane_variable_ = true;
      return *variable;
    }
    context_.note_load(value, *at.linear);
  }
  ElementValue result;
  if (stored) {
    const int depth = index_depth(*at.linear);
    result = at_depth(write_load(value, *at.linear, depth), depth);
  } else {
    result = expand(value, at);
  }
  known_.emplace(key, result);
  if (!branches_.empty()) branches_.back().values.push_back(key);
  return result;
}

ElementValue ElementWalk::expand(Value value, const ElementPosition& position) {
  const Node& node = graph_.node(value);
  const Shape& shape = node.outputs[0].shape;
  if (is_elementwise(node.op)) {
    std::vector<ElementValue> inputs;
    int depth = 0;
    for (const Value input : node.inputs) {
      inputs.push_back(compute(input, position));
      depth = std::max(depth, inputs.back().depth);
    }
    return at_depth(write_elementwise(node, inputs, depth), depth);
  }
  switch (node.op) {
    case Op::kIota: {
      const Index index = multi(position, shape)[static_cast<size_t>(node.attributes.axes[0])];
      const int depth = index_depth(index);
      return at_depth(write_iota(node, index, depth), depth);
    }
    case Op::kRandomBits: {
      const ElementValue seed = compute(node.inputs[0], {Index::constant(0), {}});
      const ElementValue step = compute(node.inputs[0], {Index::constant(1), {}});
      const Index at = linear(position, shape);
      const int depth = std::max({seed.depth, step.depth, index_depth(at)});
      return at_depth(write_random_bits(node, seed, step, at, depth), depth);
    }
    case Op::kGather:
      return gather(node, position);
    case Op::kConstant:
      return at_depth(write_literal(node.attributes.dtype, node.attributes.value), 0);
    default:
      break;
  }
  CAUSEWAY_CHECK(op_info(node.op).kind == OpKind::kMovement, "{} cannot be expanded in place", op_name(node.op));
  return movement(value, position);
}

ElementValue ElementWalk::movement(Value value, const ElementPosition& position) {
  const Node& node = graph_.node(value);
  const Attributes& attributes = node.attributes;
  const Value input = node.inputs[0];
  const Shape& from = graph_.shape(input);
  const Shape& shape = node.outputs[0].shape;
  if (node.op == Op::kReshape) return compute(input, {linear(position, shape), {}});
  if (node.op == Op::kBroadcast && std::all_of(from.begin(), from.end(), [](const Dim& d) { return d.is_constant(1); }))
    return compute(input, {Index::constant(0), std::vector<Index>(from.size(), Index::constant(0))});
  // A broadcast needs no index of the axes before the first that it keeps.
  size_t first_axis = 0;
  if (node.op == Op::kBroadcast) {
    first_axis = shape.size();
    for (size_t i = 0; i < from.size(); ++i)
      if (!from[i].is_constant(1)) first_axis = std::min(first_axis, static_cast<size_t>(attributes.axes[i]));
  }
  const std::vector<Index> at = position.multi ? *position.multi : delinearize(*position.linear, shape, first_axis);
  if (node.op == Op::kPad) return padded(node, at);
  if (node.op == Op::kConcat) return concatenated(node, at);
  std::vector<Index> source(from.size(), Index::constant(0));
  if (node.op == Op::kPermute) {
    for (size_t i = 0; i < at.size(); ++i) source[static_cast<size_t>(attributes.axes[i])] = at[i];
  } else if (node.op == Op::kBroadcast) {
    for (size_t i = 0; i < from.size(); ++i)
      if (!from[i].is_constant(1)) source[i] = at[static_cast<size_t>(attributes.axes[i])];
  } else {
    CAUSEWAY_CHECK(node.op == Op::kSlice, "no rule for moving through {}", op_name(node.op));
    for (size_t i = 0; i < at.size(); ++i) source[i] = shift(scale(at[i], attributes.strides[i]), attributes.start[i]);
  }
  return compute(input, {{}, source});
}

ElementValue ElementWalk::padded(const Node& node, const std::vector<Index>& at) {
  const Attributes& attributes = node.attributes;
  const Shape& from = graph_.shape(node.inputs[0]);
  const DType dtype = node.outputs[0].dtype;
  std::vector<Index> source(from.size(), Index::constant(0));
  std::vector<Comparison> inside;
  for (size_t i = 0; i < at.size(); ++i) {
    source[i] = shift(at[i], Dim(0) - attributes.start[i]);
    const auto require = [&](bool less, const Dim& bound) {
      inside.push_back({for_comparison(at[i], bound), less, bound});
    };
    if (!attributes.start[i].is_constant(0)) require(false, attributes.start[i]);
    if (!attributes.limit[i].is_constant(0)) require(true, attributes.start[i] + from[i]);
  }
  const auto element = [&] { return compute(node.inputs[0], {{}, source}); };
  if (inside.empty()) return element();
  return conditional(dtype, inside, element, [&] { return at_depth(write_literal(dtype, attributes.value), 0); });
}

// The input whose range holds the index, by a chain of conditions.
ElementValue ElementWalk::concatenated(const Node& node, const std::vector<Index>& at) {
  const size_t axis = static_cast<size_t>(node.attributes.axes[0]);
  std::function<ElementValue(size_t, const Dim&)> choose = [&](size_t part, const Dim& begin) -> ElementValue {
    std::vector<Index> inner = at;
    inner[axis] = shift(inner[axis], Dim(0) - begin);
    const auto element = [&] { return compute(node.inputs[part], {{}, inner}); };
    const Dim end = begin + graph_.shape(node.inputs[part])[axis];
    if (part + 1 == node.inputs.size() || is_within(at[axis], end, variables_)) return element();
    return conditional(node.outputs[0].dtype, {{for_comparison(at[axis], end), true, end}}, element,
                       [&] { return choose(part + 1, end); });
  };
  return choose(0, Dim(0));
}

// index < bound and index >= bound do not depend on the lane when the rest of the index and the bound are multiples of
// the number of lanes.
Index ElementWalk::for_comparison(const Index& index, const Dim& bound) const {
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

ElementValue ElementWalk::conditional(DType dtype, const std::vector<Comparison>& all_of, const Choice& taken,
                                      const Choice& otherwise) {
  const std::string condition = write_condition(all_of);
  int depth = 0;
  for (const Comparison& comparison : all_of) depth = std::max(depth, index_depth(comparison.index));
  if (lane_variable_ >= 0 && depth < lane_depth() && !needs_lane_variable_ &&
      std::all_of(branches_.begin(), branches_.end(), [](const Branch& branch) { return branch.of_all_lanes; })) {
    if (const std::optional<ElementValue> of_lanes = lanes_conditional(dtype, condition, taken, otherwise))
      return *of_lanes;
  }
  // Both branches keep their statements inside: an index is only in range where its condition holds.
  const WrittenValue result = new_variable_name();
  const size_t first_variable = variables_.size();
  for (const Choice* branch : {&taken, &otherwise}) {
    branches_.emplace_back();
    begin_branch(false);
    const ElementValue value = (*branch)();
    end_branch(result.name, value);
    forget_branch();
    depth = std::max(depth, value.depth);
  }
  for (size_t i = first_variable; i < variables_.size(); ++i) depth = std::max(depth, variables_[i].depth);
  write_conditional(dtype, result.name, condition, false, depth);
  return at_depth(result, depth);
}

void ElementWalk::forget_branch() {
  for (const Key& key : branches_.back().values) known_.erase(key);
  for (const Division& division : branches_.back().divisions) quotients_.erase(division);
  branches_.pop_back();
}

// One decision for all lanes, before their loop: so the lanes' loads can merge. Nothing when a branch needs a variable
// of that loop.
std::optional<ElementValue> ElementWalk::lanes_conditional(DType dtype, const std::string& condition,
                                                           const Choice& taken, const Choice& otherwise) {
  const std::string name = new_variable_name().name;  // of an array: an element for each lane
  // What the lanes' loop has computed does not exist yet before it.
  const std::map<Key, ElementValue> known = known_;
  const std::map<Division, QuotientRemainder> quotients = quotients_;
  leave_loops(lane_depth());
  for (const Choice* branch : {&taken, &otherwise}) {
    branches_.push_back({true, {}, {}});
    begin_branch(true);
    const ElementValue value = (*branch)();
    end_branch(fmt::format("{}[{}]", name, lane_name()), value);
    forget_branch();
  }
  known_ = known;
  quotients_ = quotients;
  if (needs_lane_variable_) {  // nor can the conditions around this one be decided before the loop
    discard_branches();
    return std::nullopt;
  }
  write_conditional(dtype, name, condition, true, lane_depth() - 1);
  return ElementValue{fmt::format("{}[{}]", name, lane_name()), lane_depth()};
}

std::optional<Index> ElementWalk::as_index(Value value, const ElementPosition& position) {
  if (const std::optional<Index> index = context_.position_index(value)) return index;
  const Node& node = graph_.node(value);
  if (context_.is_stored(value)) return std::nullopt;
  if (node.op == Op::kIota) return multi(position, node.outputs[0].shape)[static_cast<size_t>(node.attributes.axes[0])];
  if (node.op == Op::kCast && is_integer(node.attributes.dtype) && is_integer(graph_.dtype(node.inputs[0])))
    return as_index(node.inputs[0], position);
  return std::nullopt;
}

ElementValue ElementWalk::gather(const Node& node, const ElementPosition& position) {
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
    const ElementValue raw = compute(indices, index_position);
    const int variable = new_variable(size, raw.depth);
    write_clamped(variable, raw, size);
    index = Index::of(variable);
  }
  std::vector<Index> source = part(0, axis);
  source.push_back(*index);
  const std::vector<Index> trailing = part(axis + index_rank, at.size());
  source.insert(source.end(), trailing.begin(), trailing.end());
  return compute(table, {{}, source});
}

}  // namespace causeway::codegen
