#include "causeway/passes/joined_gradients.h"

#include <algorithm>

#include "causeway/graph/op.h"

namespace causeway::passes {
namespace {

constexpr size_t kGradients = 3;

class JoinSearch {
 public:
  JoinSearch(const Graph& graph, Value value) : graph_(graph), value_(value) {}

  std::optional<JoinedGradients> run() {
    if (graph_.shape(value_).size() != 3 || !visit_sum(value_) || found_.parts.size() != kGradients)
      return std::nullopt;
    std::sort(found_.parts.begin(), found_.parts.end(),
              [](const JoinedGradient& a, const JoinedGradient& b) { return a.gradient < b.gradient; });
    std::erase(found_.between, value_);
    if (!cover_every_column()) return std::nullopt;
    return std::move(found_);
  }

 private:
  // Down to padded parts.
  bool visit_sum(Value value) {
    found_.between.push_back(value);
    const Node& node = graph_.node(value);
    if (node.op == Op::kCast) return keeps_elements(value) && visit_sum(node.inputs[0]);
    if (node.op == Op::kAdd) return visit_sum(node.inputs[0]) && visit_sum(node.inputs[1]);
    if (node.op != Op::kPad || node.attributes.value != 0) return false;
    for (size_t axis = 0; axis < 2; ++axis)
      if (!node.attributes.start[axis].is_constant(0) || !node.attributes.limit[axis].is_constant(0)) return false;
    return visit_part(node.inputs[0], node.attributes.start[2]);
  }

  bool visit_part(Value value, const Dim& first_column) {
    while (graph_.node(value).op == Op::kCast || graph_.node(value).op == Op::kReshape) {
      if (graph_.node(value).op == Op::kCast && !keeps_elements(value)) return false;
      found_.between.push_back(value);
      value = graph_.node(value).inputs[0];
    }
    if (graph_.node(value).op != Op::kAttentionGradient || graph_.dtype(value) != graph_.dtype(value_)) return false;
    const Shape &whole = graph_.shape(value_), &part = graph_.shape(value);
    found_.parts.push_back({value, first_column});
    return part[0] == whole[0] && part[1] == whole[1];
  }

  bool keeps_elements(Value cast) const {
    const DType dtype = graph_.dtype(cast);
    return dtype == DType::kF32 || dtype == graph_.dtype(value_);
  }

  bool cover_every_column() const {
    std::vector<JoinedGradient> parts = found_.parts;
    Dim next(0);
    for (size_t i = 0; i < kGradients; ++i) {
      const auto part = std::find_if(parts.begin(), parts.end(),
                                     [&](const JoinedGradient& candidate) { return candidate.first_column == next; });
      if (part == parts.end() || part->gradient.node != parts.front().gradient.node ||
          found_.parts[i].gradient.output != static_cast<int32_t>(i))
        return false;
      const Shape& shape = graph_.shape(part->gradient);
      next += shape[2] * shape[3];
    }
    return next == graph_.shape(value_)[2];
  }

  const Graph& graph_;
  const Value value_;
  JoinedGradients found_;
};

}  // namespace

std::optional<JoinedGradients> find_joined_gradients(const Graph& graph, Value value) {
  return JoinSearch(graph, value).run();
}

}  // namespace causeway::passes
