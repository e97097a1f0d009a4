#include "causeway/passes/sums_of_gemms.h"

#include <map>
#include <optional>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

class Joiner {
 public:
  explicit Joiner(const Graph& source) : source_(source), uses_(count_uses(source)) {}

  Graph run() {
    return rebuild_graph(source_, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
      const Value old{static_cast<int32_t>(&node - source_.nodes().data()), 0};
      std::vector<Value> outputs = copy_node(target, node, inputs);
      if (node.op == Op::kAdd && node.outputs[0].dtype == DType::kF32) {
        const Builder build(target);
        const std::optional<Rounded> a = unrounded(build, node.inputs[0], inputs[0]),
                                     b = unrounded(build, node.inputs[1], inputs[1]);
        if (a && b && a->dtype == b->dtype) {
          const Value sum = build.add(a->value, b->value);
          sums_[old] = {sum, a->dtype};
          outputs[0] = build.cast(build.cast(sum, a->dtype), DType::kF32);
        }
      }
      return outputs;
    });
  }

 private:
  struct Rounded {
    Value value;  // f32, in the new graph
    DType dtype = DType::kF32;
  };

  bool is_used_once(Value old) const {
    return uses_[static_cast<size_t>(old.node)][static_cast<size_t>(old.output)] == 1;
  }

  // What was rounded to get `old`, a value that nobody else reads: a GEMM, or a sum of such, seen through reshapes.
  // `made`: what `old` became.
  std::optional<Rounded> unrounded(const Builder& build, Value old, Value made) {
    if (!is_used_once(old)) return std::nullopt;
    if (const auto sum = sums_.find(old); sum != sums_.end()) return sum->second;
    const Node& node = source_.node(old);
    const Node in_target = build.graph().node(made);
    if (node.op == Op::kReshape) {
      const std::optional<Rounded> below = unrounded(build, node.inputs[0], in_target.inputs[0]);
      if (!below) return std::nullopt;
      return Rounded{build.reshape(below->value, build.shape(made)), below->dtype};
    }
    if (node.op != Op::kCast || node.outputs[0].dtype != DType::kF32 || !is_used_once(node.inputs[0]))
      return std::nullopt;
    const Node& gemm = source_.node(node.inputs[0]);
    const DType dtype = gemm.outputs[0].dtype;
    if (gemm.op != Op::kDot || dtype == DType::kF32 || in_target.op != Op::kCast) return std::nullopt;
    const Node narrow = build.graph().node(in_target.inputs[0]);
    const Value wide = build.dot(narrow.inputs[0], narrow.inputs[1], narrow.attributes.transpose_a,
                                 narrow.attributes.transpose_b, DType::kF32);
    return Rounded{wide, dtype};
  }

  const Graph& source_;
  std::vector<std::vector<int>> uses_;
  std::map<Value, Rounded> sums_;  // by the old graph's value
};

}  // namespace

Graph sums_of_gemms(const Graph& graph) { return Joiner(graph).run(); }

}  // namespace causeway::passes
