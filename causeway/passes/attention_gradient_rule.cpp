#include "causeway/passes/attention_gradient_rule.h"

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/passes/canonicalize.h"
#include "causeway/passes/gradient.h"

namespace causeway::passes {
namespace {

// Inputs of a score graph before the captured tensors: b, h, i, j and the score.
constexpr size_t kScoreInput = 4;
constexpr size_t kFixedInputs = 5;

bool score_depends_on(const Graph& score, size_t captured) {
  const Value input = score.inputs()[kFixedInputs + captured];
  std::vector<bool> reaches(score.nodes().size());
  reaches[static_cast<size_t>(input.node)] = true;
  for (size_t i = 0; i < reaches.size(); ++i) {
    if (gradient_rule(score.nodes()[i].op) == nullptr) continue;
    for (const Value value : score.nodes()[i].inputs)
      if (reaches[static_cast<size_t>(value.node)]) reaches[i] = true;
  }
  return reaches[static_cast<size_t>(score.outputs[0].node)];
}

std::string describe(const Graph& graph, Value value) {
  const Node& node = graph.node(value);
  if (node.op == Op::kInput) return fmt::format("'{}'", node.attributes.name);
  return fmt::format("the {} computed by {}{}", graph.type(value).text(), op_name(node.op),
                     node.scope.empty() ? "" : " in " + node.scope);
}

}  // namespace

std::shared_ptr<const Graph> differentiate_score(const Graph& score) {
  Graph derivative = score;
  const Value wrt = score.inputs()[kScoreInput];
  const std::vector<Value> gradients = add_gradients(derivative, score.outputs[0], std::span(&wrt, 1));
  derivative.outputs = {gradients[0]};
  return std::make_shared<const Graph>(canonicalize(derivative));
}

std::vector<Value> attention_rule(const GradientRequest& r) {
  const Builder& build = r.build;
  const AttentionSpec& spec = *r.node.attributes.attention;
  const size_t first_captured = 3 + (spec.has_block_map ? 1 : 0);
  for (size_t i = first_captured; i < r.node.inputs.size(); ++i) {
    if (!r.needed[i] || spec.score == nullptr || !score_depends_on(*spec.score, i - first_captured)) continue;
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the attention score captures {}, and gradients of captured tensors are not defined",
                            describe(r.graph, r.input(i))),
                r.node.scope, "exclude it from the trained parameters, or add it to the queries or keys instead");
  }

  const Value q = r.input(0), k = r.input(1), v = r.input(2), out = r.values[0], lse = r.values[1];
  const Value dout = r.output_gradients[0].valid() ? r.output_gradients[0] : build.zeros_like(out);
  // delta [B, H, T] = sum_d out * dout - dlse.
  Value delta;
  if (r.output_gradients[0].valid()) {
    const Value product = build.mul(build.cast(out, DType::kF32), build.cast(dout, DType::kF32));
    // In this order, so that no copy of the sums follows.
    delta = build.reduce_sum(build.permute(product, {0, 2, 1, 3}), {3});
    if (r.output_gradients[1].valid()) delta = build.sub(delta, r.output_gradients[1]);
  } else {
    delta = build.neg(r.output_gradients[1]);
  }
  std::vector<Value> inputs = {q, k, v, dout, lse, delta};
  inputs.insert(inputs.end(), r.node.inputs.begin() + 3, r.node.inputs.end());
  Attributes attributes = r.node.attributes;
  auto backward = std::make_shared<AttentionSpec>(spec);
  if (spec.score != nullptr) backward->score_gradient = differentiate_score(*spec.score);
  attributes.attention = std::move(backward);
  const Value first = r.graph.add(Op::kAttentionGradient, std::move(inputs), std::move(attributes));
  std::vector<Value> result(r.node.inputs.size());
  for (int32_t i = 0; i < 3; ++i) result[static_cast<size_t>(i)] = {first.node, i};
  return result;
}

}  // namespace causeway::passes
