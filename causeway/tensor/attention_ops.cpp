#include "causeway/tensor/attention_ops.h"

#include <algorithm>
#include <cmath>

#include "causeway/graph/op.h"
#include "causeway/tensor/activation_ops.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/comparison_ops.h"
#include "causeway/tensor/indexing_ops.h"
#include "causeway/tensor/reduction_ops.h"
#include "causeway/tensor/shape_ops.h"
#include "causeway/tensor/trace.h"

namespace causeway::tensor {
namespace {

// A function traced into a graph of its own, and the tensors that it took from outside.
struct TracedFunction {
  std::shared_ptr<Graph> graph;
  std::vector<Tensor> captured;
};

void require_scalar_ops(const Graph& graph, const std::string& name) {
  if (!graph.assignments.empty())
    throw Error(ErrorKind::kUnsupported, fmt::format("attention: the {} assigns to a tensor", name), {},
                "Assign outside of the attention.");
  for (const Node& node : graph.nodes()) {
    const OpKind kind = op_info(node.op).kind;
    if (is_elementwise(node.op) || kind == OpKind::kSource || kind == OpKind::kMovement || node.op == Op::kGather)
      continue;
    throw Error(ErrorKind::kUnsupported,
                fmt::format("attention: the {} uses '{}', which does not compute one element from others", name,
                            op_name(node.op)),
                {}, "Compute it before the attention and read its elements with at().");
  }
}

// `captured` become inputs first, in their order, so that several functions agree on them.
TracedFunction trace_function(const std::string& name, bool has_score, const std::vector<Tensor>& captured,
                              const std::function<Tensor(const AttentionPosition&, const Tensor&)>& function) {
  Trace trace(Trace::Captures::kAnything);
  {
    const TraceScope scope(trace);
    const auto argument = [&](const char* argument_name, DType dtype) {
      return trace.add_argument(argument_name, {dtype, {}});
    };
    const AttentionPosition position = {argument("batch", DType::kI32), argument("head", DType::kI32),
                                        argument("query", DType::kI32), argument("key", DType::kI32)};
    const Tensor score = has_score ? argument("score", DType::kF32) : Tensor();
    for (const Tensor& tensor : captured) trace.use(tensor);
    Tensor result = function(position, score);
    require_argument(result.defined() && result.rank() == 0, "attention",
                     fmt::format("the {} does not give a scalar", name), {result},
                     "Read single elements of tensors with at().");
    require_argument(has_score ? is_float(result.dtype()) : result.dtype() == DType::kBool, "attention",
                     fmt::format("the {} does not give a {}", name, has_score ? "float" : "bool"), {result});
    if (has_score) result = cast(result, DType::kF32);
    trace.graph.outputs = {trace.use(result)};
  }
  if (!trace.stopped().empty())
    throw Error(ErrorKind::kUnsupported, fmt::format("attention: the {} uses stop_gradient", name), {},
                "Stop the gradient of what it captures, outside of the attention.");
  require_scalar_ops(trace.graph, name);
  TracedFunction traced;
  for (const Trace::Captured& each : trace.captured()) traced.captured.push_back(each.tensor);
  traced.graph = std::make_shared<Graph>(std::move(trace.graph));
  return traced;
}

bool known_multiple(const Dim& length, int64_t block) {
  return length.is_constant() || length.divide_exactly(block).has_value();
}

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto require = [&](bool condition, const std::string& what) {
    require_argument(condition, "attention", what, {q, k, v});
  };
  const auto is_beside = [](const Shape& keys, const Shape& values) {
    return std::equal(keys.begin(), keys.begin() + 3, values.begin());
  };
  require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && is_beside(k.shape(), v.shape()),
          "takes q [B, T, H, D], k [B, S, K, D] and v [B, S, K, V]");
  require(is_float(q.dtype()) && is_float(k.dtype()) && is_float(v.dtype()), "takes floats");
  require(q.size(0) == k.size(0), "takes queries and keys of one batch size");
  require(q.size(3) == k.size(3), "takes queries and keys of one head dimension");
  require(q.size(2).is_constant() && k.size(2).is_constant() && q.size(3).is_constant() && v.size(3).is_constant(),
          "takes constant head counts and dimensions");
  require(k.size(2).constant() >= 1 && q.size(2).constant() % k.size(2).constant() == 0,
          fmt::format("takes a number of query heads ({}) that the number of key heads ({}) divides", q.size(2).text(),
                      k.size(2).text()));
}

}  // namespace

AttentionResult attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  check_operands(q, k, v);
  require_argument(options.block_q >= 1 && options.block_k >= 1, "attention", "takes blocks of at least 1", {q, k, v});
  require_argument(!options.sink.defined() || options.sink.shape() == Shape{q.size(2)}, "attention", "takes a sink [H]",
                   {q, options.sink});
  const DType dtype = promote_dtypes(promote_dtypes(q.dtype(), k.dtype()), v.dtype());
  std::vector<Tensor> inputs = {cast(q, dtype), cast(k, dtype), cast(v, dtype)};

  AttentionSpec spec;
  spec.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3).constant())));
  spec.block_q = options.block_q;
  spec.block_k = options.block_k;
  TracedFunction mask, score;
  if (options.mask)
    mask = trace_function("mask", false, {},
                          [&](const AttentionPosition& position, const Tensor&) { return options.mask(position); });
  if (options.mask && options.block_map && known_multiple(q.size(1), spec.block_q) &&
      known_multiple(k.size(1), spec.block_k)) {
    // A node of its own, with what the mask alone captures, so that layers with one mask share one map.
    AttentionSpec map = spec;
    map.scale = 1;
    map.mask = std::make_shared<const Graph>(*mask.graph);
    Attributes attributes;
    attributes.shape = {q.size(0), q.size(2), q.size(1), k.size(1)};
    attributes.attention = std::make_shared<const AttentionSpec>(std::move(map));
    inputs.push_back(tensor::apply(Op::kAttentionBlockMap, mask.captured, std::move(attributes)));
    spec.has_block_map = true;
  }
  std::vector<Tensor> captured = mask.captured;
  if (options.score) {
    score = trace_function("score", true, captured, options.score);
    // Both functions declare all captured tensors; the mask does not read those that only the score uses.
    for (size_t i = captured.size(); i < score.captured.size(); ++i) {
      if (mask.graph != nullptr) mask.graph->add_input(fmt::format("captured{}", i), score.captured[i].type());
      captured.push_back(score.captured[i]);
    }
  }
  spec.mask = mask.graph;
  spec.score = score.graph;
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  Attributes attributes;
  attributes.attention = std::make_shared<const AttentionSpec>(std::move(spec));
  const std::vector<Tensor> outputs = apply_all(Op::kAttention, inputs, std::move(attributes));
  AttentionResult result = {outputs[0], outputs[1]};
  if (options.sink.defined()) {
    // The sink adds exp(sink) to the denominator: a factor exp(lse) / (exp(lse) + exp(sink)).
    const Tensor sinks = reshape(cast(options.sink, DType::kF32), {q.size(2), 1});
    const Tensor share = unsqueeze(transpose(sigmoid(result.lse - sinks), 1, 2), -1);
    result.out = compute_in_f32(result.out, [&](const Tensor& out) { return out * share; });
  }
  return result;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return attention_with_lse(q, k, v, options).out;
}

MaskFunction causal_mask() {
  return [](const AttentionPosition& p) { return p.key <= p.query; };
}

MaskFunction sliding_window_mask(int64_t window) {
  require_argument(window >= 1, "sliding_window_mask", fmt::format("a window of {}", window));
  return [window](const AttentionPosition& p) { return logical_and(p.key <= p.query, p.query - p.key < window); };
}

MaskFunction prefix_mask(const Tensor& prefix_lengths) {
  require_argument(prefix_lengths.rank() == 1, "prefix_mask", "takes lengths [B]", {prefix_lengths});
  return [prefix_lengths](const AttentionPosition& p) {
    return logical_or(p.key <= p.query, p.key < at(prefix_lengths, {p.batch}));
  };
}

MaskFunction padding_mask(const Tensor& lengths) {
  require_argument(lengths.rank() == 1, "padding_mask", "takes lengths [B]", {lengths});
  return [lengths](const AttentionPosition& p) { return p.key < at(lengths, {p.batch}); };
}

MaskFunction document_mask(const Tensor& document_ids) {
  require_argument(document_ids.rank() == 2, "document_mask", "takes ids [B, T]", {document_ids});
  return [document_ids](const AttentionPosition& p) {
    return eq(at(document_ids, {p.batch, p.query}), at(document_ids, {p.batch, p.key}));
  };
}

MaskFunction and_masks(std::vector<MaskFunction> masks) {
  return [masks = std::move(masks)](const AttentionPosition& p) {
    Tensor attends = constant_tensor(DType::kBool, {}, 1);
    for (size_t i = 0; i < masks.size(); ++i) attends = i == 0 ? masks[0](p) : logical_and(attends, masks[i](p));
    return attends;
  };
}

MaskFunction or_masks(std::vector<MaskFunction> masks) {
  return [masks = std::move(masks)](const AttentionPosition& p) {
    Tensor attends = constant_tensor(DType::kBool, {}, 0);
    for (size_t i = 0; i < masks.size(); ++i) attends = i == 0 ? masks[0](p) : logical_or(attends, masks[i](p));
    return attends;
  };
}

MaskFunction not_mask(MaskFunction mask) {
  return [mask = std::move(mask)](const AttentionPosition& p) { return logical_not(mask(p)); };
}

ScoreFunction alibi_score(const Tensor& slopes) {
  require_argument(slopes.rank() == 1, "alibi_score", "takes slopes [H]", {slopes});
  return [slopes](const AttentionPosition& p, const Tensor& score) {
    return score + at(slopes, {p.head}) * cast(p.key - p.query, DType::kF32);
  };
}

ScoreFunction softcap_score(double cap) {
  require_argument(cap > 0, "softcap_score", fmt::format("takes a positive cap, not {}", cap));
  return [cap](const AttentionPosition&, const Tensor& score) { return softcap(score, cap); };
}

ScoreFunction bias_score(const Tensor& bias) {
  require_argument(bias.rank() == 3, "bias_score", "takes a bias [H, T, S]", {bias});
  return [bias](const AttentionPosition& p, const Tensor& score) {
    // Axes of size 1 are read at their only index.
    const Tensor zero = constant_tensor(DType::kI32, {}, 0);
    const auto index = [&](int64_t axis, const Tensor& position) {
      return bias.size(axis).is_constant(1) ? zero : position;
    };
    return score + at(bias, {index(0, p.head), index(1, p.query), index(2, p.key)});
  };
}

ScoreFunction compose_scores(std::vector<ScoreFunction> scores) {
  return [scores = std::move(scores)](const AttentionPosition& p, const Tensor& score) {
    Tensor result = score;
    for (const ScoreFunction& function : scores) result = function(p, result);
    return result;
  };
}

}  // namespace causeway::tensor
