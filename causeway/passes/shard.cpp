#include "causeway/passes/shard.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/decoded_weights.h"
#include "causeway/passes/local_emitter.h"
#include "causeway/passes/mesh_layout.h"
#include "causeway/passes/sharding_rules.h"

namespace causeway::passes {
namespace {

// Weights of a cost in bytes that a rank moves.
constexpr double kSliceWeight = 1e-9;      // nothing is moved
constexpr double kGatheredWeight = 1e-6;   // a weight where the axis gathers them
constexpr double kStationaryWeight = 1e6;  // a weight where it does not
constexpr double kImpossible = 1e300;

double constant_bytes(const TensorType& type) {
  const Dim count = element_count(type.shape);
  return count.is_constant() ? static_cast<double>(count.constant()) * static_cast<double>(size_bytes(type.dtype)) : 0;
}

// Weights and optimizer state (a batch is of integers), and what follows from them and constants alone element by
// element, by movement or as their largest magnitudes: what they are in fewer bits, with scales. And what is decoded of
// weights that lie in fewer bits.
std::vector<bool> find_weight_like(const Graph& graph) {
  const std::vector<bool> decoded = find_decoded_weights(graph);
  std::set<Value> assigned;
  for (const Assignment& assignment : graph.assignments) assigned.insert(assignment.target);
  std::vector<bool> result(graph.nodes().size()), constant(graph.nodes().size());
  for (size_t i = 0; i < result.size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == Op::kInput) {
      result[i] = is_float(node.outputs[0].dtype) &&
                  (assigned.contains({static_cast<int32_t>(i), 0}) || !node.attributes.sharding.replicated());
      continue;
    }
    const bool carries =
        is_elementwise(node.op) || op_info(node.op).kind == OpKind::kMovement || node.op == Op::kReduceMax;
    const auto every_input = [&](const auto& holds) {
      return std::all_of(node.inputs.begin(), node.inputs.end(),
                         [&](Value input) { return holds(static_cast<size_t>(input.node)); });
    };
    constant[i] = node.op == Op::kConstant ||
                  (carries && !node.inputs.empty() && every_input([&](size_t input) { return constant[input]; }));
    result[i] = carries && !constant[i] && !node.inputs.empty() &&
                every_input([&](size_t input) { return result[input] || constant[input]; });
    result[i] = result[i] || decoded[i];
  }
  return result;
}

// Computed again for a part rather than cut out of the whole.
bool is_cheap(Op op) {
  return is_elementwise(op) || op == Op::kConstant || op == Op::kIota || op_info(op).kind == OpKind::kMovement;
}

// Where a sum over ranks had better lie when it is added up: as the state that it is combined with element by
// element, or as it is said to lie later.
class WishFinder {
 public:
  WishFinder(const Graph& source, const Mesh& mesh) : source_(source), mesh_(mesh) {}

  // By node, for its first output.
  std::vector<Layout> find() {
    wishes_.resize(source_.nodes().size(), whole());
    std::vector<bool> fixed(source_.nodes().size());
    for (size_t i = 0; i < source_.nodes().size(); ++i) {
      const Node& node = source_.nodes()[i];
      if (node.op == Op::kInput || node.op == Op::kConstrainSharding || node.op == Op::kReceive) {
        wishes_[i] = layout_of(node.attributes.sharding, mesh_);
        fixed[i] = true;
      } else if (is_elementwise(node.op)) {
        for (const Value input : node.inputs)
          if (source_.node(input).op == Op::kInput || fixed[static_cast<size_t>(input.node)])
            wish(i, wishes_[static_cast<size_t>(input.node)]);
        fixed[i] = wishes_[i] != whole();
      }
    }
    for (const Assignment& assignment : source_.assignments)
      wish(static_cast<size_t>(assignment.value.node), wishes_[static_cast<size_t>(assignment.target.node)]);
    for (size_t i = source_.nodes().size(); i-- > 0;) {
      const Node& node = source_.nodes()[i];
      if (!is_elementwise(node.op) && op_info(node.op).kind != OpKind::kMovement) continue;
      for (size_t axis = 0; axis < mesh_.axes.size(); ++axis) {
        if (!wishes_[i][axis].is_cut()) continue;
        for (const Way& way : ways_from_output(source_, node, wishes_[i][axis], mesh_.axes[axis].size))
          for (size_t k = 0; k < way.inputs.size(); ++k) {
            Layout layout = whole();
            layout[axis] = way.inputs[k];
            wish(static_cast<size_t>(node.inputs[k].node), layout);
          }
      }
    }
    return std::move(wishes_);
  }

 private:
  Layout whole() const { return Layout(mesh_.axes.size()); }
  void wish(size_t node, const Layout& layout) {
    for (size_t axis = 0; axis < layout.size(); ++axis)
      if (wishes_[node][axis].is_whole() && layout[axis].is_cut()) wishes_[node][axis] = layout[axis];
  }

  const Graph& source_;
  const Mesh& mesh_;
  std::vector<Layout> wishes_;
};

class Sharder {
 public:
  Sharder(const Graph& source, const Mesh& mesh, bool whole_sums)
      : source_(source),
        mesh_(mesh),
        whole_sums_(whole_sums),
        target_(),
        emit_(target_, mesh),
        weight_like_(find_weight_like(source)) {}

  Graph run() {
    for (const Node& node : source_.nodes()) {
      known_.emplace_back(node.outputs.size());
      chosen_.emplace_back();
    }
    add_inputs();
    wishes_ = WishFinder(source_, mesh_).find();
    const std::vector<bool> needed = needed_nodes(source_);
    for (size_t i = 0; i < source_.nodes().size(); ++i)
      if (needed[i] && source_.nodes()[i].op != Op::kInput) place(static_cast<int32_t>(i));
    target_.set_scope({});
    target_.set_backward(false);
    for (const Value output : source_.outputs) target_.outputs.push_back(get(output, whole()));
    for (const Assignment& assignment : source_.assignments) {
      const Layout layout = known(assignment.target).own;
      target_.assignments.push_back({get(assignment.target, layout), get(assignment.value, layout)});
    }
    return std::move(target_);
  }

 private:
  // A value in the layouts that it has been had in.
  struct Known {
    Layout own;  // the one that others are made from
    std::map<Layout, Value> values;
  };

  Layout whole() const { return Layout(mesh_.axes.size()); }
  Known& known(Value value) { return known_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)]; }
  int64_t ranks(size_t axis) const { return mesh_.axes[axis].size; }

  void add_inputs() {
    for (const Value input : source_.inputs()) {
      const Node& node = source_.node(input);
      const Sharding& sharding = node.attributes.sharding;
      check_sharding(sharding, source_.shape(input), mesh_, fmt::format("'{}'", node.attributes.name));
      const Layout layout = layout_of(sharding, mesh_);
      const TensorType type{node.outputs[0].dtype, local_shape(node.outputs[0].shape, sharding, mesh_)};
      known(input) = {layout, {{layout, target_.add_input(node.attributes.name, type)}}};
      if (node.attributes.name == kMeshCoordinates) emit_.set_coordinates(known(input).values.begin()->second);
    }
  }

  void place(int32_t index) {
    const Node& node = source_.node(index);
    target_.set_scope(node.scope);
    target_.set_backward(node.backward);
    if (node.op == Op::kConstrainSharding) {
      check_sharding(node.attributes.sharding, node.outputs[0].shape, mesh_, "a value");
      const Layout layout = layout_of(node.attributes.sharding, mesh_);
      known({index, 0}) = {layout, {{layout, get(node.inputs[0], layout)}}};
      return;
    }
    if (op_info(node.op).kind == OpKind::kMessage) return place_message(index);
    std::vector<Way>& ways = chosen_[static_cast<size_t>(index)];
    for (size_t axis = 0; axis < mesh_.axes.size(); ++axis) ways.push_back(choose(node, axis, ways));
    const std::vector<Value> outputs = build(node, ways);
    for (size_t o = 0; o < outputs.size(); ++o) {
      Layout layout = whole();
      for (size_t axis = 0; axis < layout.size(); ++axis) layout[axis] = ways[axis].outputs[o];
      known({index, static_cast<int32_t>(o)}) = {layout, {{layout, outputs[o]}}};
    }
    if (node.op == Op::kAttentionGradient) add_up_as_operands(index);
  }

  // Gradients of keys and values that were gathered along positions: each rank's terms go at once to who has the part.
  // As terms they would be multiplied by a projection's weight on every rank, for all positions, to be added up in the
  // width of the residual stream.
  void add_up_as_operands(int32_t index) {
    const Node& node = source_.node(index);
    for (int32_t output = 1; output < static_cast<int32_t>(node.outputs.size()); ++output) {
      Layout layout = known({index, output}).own;
      const Layout& operand = known(node.inputs[static_cast<size_t>(output)]).own;
      for (size_t axis = 0; axis < layout.size(); ++axis) {
        if (!layout[axis].is_term() || !operand[axis].is_cut()) continue;
        // Another axis may cut the gradient where this one cuts the operand.
        Layout next = layout;
        next[axis] = operand[axis];
        if (digits_fit(next, node.outputs[static_cast<size_t>(output)].shape, mesh_)) layout = next;
      }
      get({index, output}, layout);
    }
  }

  // Each rank exchanges its part with the rank of the other stage that holds the same one.
  void place_message(int32_t index) {
    const Node& node = source_.node(index);
    const Layout layout = layout_of(node.attributes.sharding, mesh_);
    const TensorType& type = node.op == Op::kSend ? source_.type(node.inputs[0]) : node.outputs[0];
    check_sharding(node.attributes.sharding, type.shape, mesh_, fmt::format("'{}'", node.attributes.name));
    Attributes attributes = node.attributes;
    attributes.sharding = {};
    if (node.op == Op::kReceive) attributes.shape = part_of(type.shape, layout, mesh_);
    std::vector<Value> inputs;
    for (const Value input : node.inputs) inputs.push_back(get(input, layout));
    const Value made = target_.add(node.op, std::move(inputs), std::move(attributes));
    const Layout result = node.op == Op::kSend ? whole() : layout;
    known({index, 0}) = {result, {{result, made}}};
  }

  // The cheapest way along an axis, given those along the axes before it.
  Way choose(const Node& node, size_t axis, const std::vector<Way>& before) {
    std::vector<Way> candidates;
    const auto add = [&](std::vector<Way> ways) {
      for (Way& way : ways)
        if (fits(node, axis, way, before) && !(whole_sums_ && has_terms(way))) candidates.push_back(std::move(way));
    };
    if (repeats_weight(node, axis)) return whole_way(node);
    bool terms = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Placement& placement = known(node.inputs[i]).own[axis];
      const Placement& wished = wishes_[static_cast<size_t>(node.inputs[i].node)][axis];
      if (placement.is_cut()) add(ways_from_input(source_, node, i, placement, ranks(axis)));
      if (placement.is_term() && wished.is_cut()) add(ways_from_input(source_, node, i, wished, ranks(axis)));
      terms = terms || placement.is_term();
    }
    if (terms) add(linear_ways(node));
    // What is rounded is exchanged so: each rank's terms, as GEMMs round theirs.
    if (terms && node.op == Op::kCast && !mesh_.axes[axis].gathers_weights && is_rounding(node))
      add({{{Placement::term()}, {Placement::term()}}});
    // Gradients of an embedding may be had as its weight lies, if updates are exchanged instead; and so may any
    // gradient whose terms are not to be had.
    const Placement& wished = wishes_[static_cast<size_t>(&node - source_.nodes().data())][axis];
    if ((node.op == Op::kScatterAdd || whole_sums_) && wished.is_cut())
      add(ways_from_output(source_, node, wished, ranks(axis)));
    candidates.push_back(whole_way(node));
    const Way* best = nullptr;
    double least = 0;
    for (const Way& way : candidates) {
      const double cost = cost_of(node, axis, way);
      if (best != nullptr && cost >= least) continue;
      best = &way;
      least = cost;
    }
    return *best;
  }

  bool is_rounding(const Node& node) const {
    const DType from = source_.dtype(node.inputs[0]), to = node.outputs[0].dtype;
    // 8 bits are too few to add up terms in.
    return from == DType::kF32 && (to == DType::kBF16 || to == DType::kF16);
  }

  static bool has_terms(const Way& way) {
    const auto is_term = [](const Placement& placement) { return placement.is_term(); };
    return std::any_of(way.inputs.begin(), way.inputs.end(), is_term) ||
           std::any_of(way.outputs.begin(), way.outputs.end(), is_term);
  }

  // A norm's weight, say, of which each rank has a part, before it meets activations: it is gathered while it is small.
  bool repeats_weight(const Node& node, size_t axis) const {
    return node.op == Op::kBroadcast && mesh_.axes[axis].gathers_weights &&
           weight_like_[static_cast<size_t>(node.inputs[0].node)] &&
           !(element_count(node.outputs[0].shape) == element_count(source_.shape(node.inputs[0])));
  }

  // Whether no digit of a dimension is cut twice, and parts begin where they should.
  bool fits(const Node& node, size_t axis, const Way& way, const std::vector<Way>& before) const {
    const auto together = [&](const auto& placements_of, const Shape& shape) {
      Layout layout = whole();
      for (size_t a = 0; a < axis; ++a) layout[a] = placements_of(before[a]);
      layout[axis] = placements_of(way);
      return digits_fit(layout, shape, mesh_) && (!way.starts || parts_are_contiguous(layout, mesh_));
    };
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!together([&](const Way& w) { return w.inputs[i]; }, source_.shape(node.inputs[i]))) return false;
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (!together([&](const Way& w) { return w.outputs[o]; }, node.outputs[o].shape)) return false;
    return true;
  }

  // The base of an embedding's gradient that ranks have terms of, the output layer's gradient: added up beside kernels
  // before there are updates, or together with them at the end.
  bool is_added_up_anyway(const Node& node, size_t input, size_t axis, const Way& way) {
    return node.op == Op::kScatterAdd && input == 0 && mesh_.axes[axis].gathers_weights && way.inputs[0].is_cut() &&
           known(node.inputs[0]).own[axis].is_term();
  }

  double cost_of(const Node& node, size_t axis, const Way& way) {
    double cost = 0;
    std::map<Value, Placement> counted;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto [entry, first] = counted.try_emplace(node.inputs[i], way.inputs[i]);
      if (first && !is_added_up_anyway(node, i, axis, way)) cost += cost_of(node, node.inputs[i], axis, way.inputs[i]);
      // A sum that is added up anyway is not used as terms beside it.
      if (entry->second.is_term() != way.inputs[i].is_term()) return kImpossible;
    }
    // Rows of an embedding, or their gradient, of which ranks have terms are yet to be added up.
    if ((node.op == Op::kGather || node.op == Op::kScatterAdd) && way.outputs[0].is_term())
      cost += constant_bytes(node.outputs[0]);
    // Where it is cut along the other dimension, each rank looks up all ranks' rows, and they are exchanged then.
    if (node.op == Op::kGather && mesh_.axes[axis].gathers_weights && way.inputs[0].is_cut() &&
        way.inputs[1].is_whole() && known(node.inputs[1]).own[axis].is_cut())
      cost += constant_bytes(node.outputs[0]) / static_cast<double>(ranks(axis));
    return cost;
  }

  // Of having `value` so along an axis.
  double cost_of(const Node& user, Value value, size_t axis, Placement wanted) {
    const Placement& own = known(value).own[axis];
    if (own == wanted) return 0;
    for (const auto& [layout, made] : known(value).values)
      if (layout[axis] == wanted && !wanted.is_term()) return 0;
    const double bytes = constant_bytes(source_.type(value));
    if (wanted.is_term()) {
      const Node& node = source_.node(value);
      return own.is_whole() && node.op == Op::kConstant && node.attributes.value == 0 ? 0 : kImpossible;
    }
    if (own.is_whole()) return kSliceWeight * bytes;
    if (own.is_term()) return wanted.is_cut() ? bytes : 2 * bytes;
    // Rows of an embedding are looked up where they are; where axes gather weights, what moves fewer bytes is done.
    const bool gathers = mesh_.axes[axis].gathers_weights;
    const bool reads_weight = weight_like_[static_cast<size_t>(value.node)] &&
                              (op_info(user.op).kind == OpKind::kTemplate || (user.op == Op::kGather && !gathers));
    const double weight = !reads_weight ? 1 : gathers ? kGatheredWeight : kStationaryWeight;
    return weight * (wanted.is_whole() ? bytes : bytes / static_cast<double>(ranks(axis)));
  }

  Value get(Value value, const Layout& layout) {
    Known& state = known(value);
    if (const auto entry = state.values.find(layout); entry != state.values.end()) return entry->second;
    std::optional<Value> found = compute_part(value, layout);
    // Making the parts of others may have made this one.
    if (!found) found = emit_.convert(state.values.at(state.own), source_.type(value), state.own, layout);
    Known& after = known(value);
    after.values[layout] = *found;
    const auto is_term = [](const Placement& placement) { return placement.is_term(); };
    // A sum is added up once, and others are made of the result.
    if (std::any_of(after.own.begin(), after.own.end(), is_term) && std::none_of(layout.begin(), layout.end(), is_term))
      after.own = layout;
    return *found;
  }

  // A part of a whole value that is cheaply computed itself.
  std::optional<Value> compute_part(Value value, const Layout& layout) {
    const Node& node = source_.node(value);
    if (!is_cheap(node.op) || node.op == Op::kConstrainSharding) return std::nullopt;
    const Layout& own = known(value).own;
    std::vector<Way> ways = chosen_[static_cast<size_t>(value.node)];
    if (ways.empty()) return std::nullopt;
    for (size_t axis = 0; axis < layout.size(); ++axis) {
      if (own[axis] == layout[axis]) {
        // Not terms that were added up since.
        if (ways[axis].outputs[0] != layout[axis]) return std::nullopt;
        continue;
      }
      if (layout[axis].is_term() && own[axis].is_whole() && node.op == Op::kConstant && node.attributes.value == 0) {
        ways[axis].outputs[0] = layout[axis];
        continue;
      }
      if (!own[axis].is_whole() || !layout[axis].is_cut() || !chosen_is_whole(ways[axis])) return std::nullopt;
      const std::vector<Way> possible = ways_from_output(source_, node, layout[axis], ranks(axis));
      if (possible.empty() || possible[0].maximum) return std::nullopt;
      ways[axis] = possible[0];
    }
    for (size_t axis = 0; axis < layout.size(); ++axis)
      if (!fits(node, axis, ways[axis], ways)) return std::nullopt;
    return build(node, ways)[0];
  }

  static bool chosen_is_whole(const Way& way) {
    return std::all_of(way.inputs.begin(), way.inputs.end(), [](const Placement& p) { return p.is_whole(); });
  }

  // The node on a rank's parts.
  std::vector<Value> build(const Node& node, const std::vector<Way>& ways) {
    const auto layout = [&](const auto& placement_of) {
      Layout result = whole();
      for (size_t axis = 0; axis < result.size(); ++axis) result[axis] = placement_of(ways[axis]);
      return result;
    };
    LocalNode local{node, {}, {}, {}, {}};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      local.input_layouts.push_back(layout([&](const Way& way) { return way.inputs[i]; }));
      local.inputs.push_back(get(node.inputs[i], local.input_layouts.back()));
      local.input_shapes.push_back(source_.shape(node.inputs[i]));
    }
    for (size_t o = 0; o < node.outputs.size(); ++o)
      local.output_layouts.push_back(layout([&](const Way& way) { return way.outputs[o]; }));
    std::vector<Value> outputs = emit_.build(local);
    for (size_t axis = 0; axis < ways.size(); ++axis)
      if (ways[axis].maximum) outputs[0] = emit_.maximum(outputs[0], axis);
    return outputs;
  }

  const Graph& source_;
  const Mesh& mesh_;
  bool whole_sums_;
  Graph target_;
  LocalEmitter emit_;
  std::vector<bool> weight_like_;
  std::vector<Layout> wishes_;             // by node, for its first output
  std::vector<std::vector<Known>> known_;  // by node and output
  std::vector<std::vector<Way>> chosen_;   // by node and axis
};

}  // namespace

Graph shard(const Graph& graph, const Mesh& mesh, bool whole_sums) { return Sharder(graph, mesh, whole_sums).run(); }

}  // namespace causeway::passes
