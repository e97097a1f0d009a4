#include "causeway/passes/expand_linear_cross_entropy.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "causeway/graph/op.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/builder.h"

namespace causeway::passes {
namespace {

struct Needs {
  bool loss = false, dx = false, dweight = false, terms = false, z_loss = false;
};

struct Chunk {
  Value loss;     // f32 []
  Value dx;       // [n, C], dtype of x
  Value dweight;  // f32 [V, C]
  Value terms;    // f32 [n]
  Value z_loss;   // f32 []
};

// Rows of x in one chunk, for constant sizes.
int64_t rows_per_chunk(int64_t tokens, int64_t vocabulary, int64_t element_bytes,
                       const ExpandLinearCrossEntropyOptions& options) {
  const int64_t row_bytes = std::max<int64_t>(1, vocabulary * element_bytes);
  int64_t rows =
      std::max(options.logits_bytes / row_bytes, std::min(options.most_logits_bytes / row_bytes, options.logits_rows));
  if (rows >= 64) rows -= rows % 64;
  return std::clamp<int64_t>(rows, 1, std::max<int64_t>(1, tokens));
}

Chunk expand_chunk(const Builder& build, Value x, Value weight, Value targets, Value token_weights, const Needs& needs,
                   DType logits_type, const Dim& vocabulary, const Attributes& attributes) {
  const double cap = attributes.value, z_loss = attributes.z_loss;
  Value logits = build.cast(build.dot(x, weight, false, true, logits_type), DType::kF32);
  const Shape shape = build.shape(logits);
  Value bent;  // tanh(logits / cap)
  if (cap > 0) {
    bent = build.tanh(build.scale(logits, 1 / cap));
    logits = build.scale(bent, cap);
  }
  if (!(shape[1] == vocabulary)) {
    const Value exists = build.less(build.iota(DType::kI32, shape, 1),
                                    build.constant(DType::kI32, shape, static_cast<double>(vocabulary.constant())));
    logits = build.select(exists, logits, build.constant_like(logits, -std::numeric_limits<double>::infinity()));
  }
  const auto over_vocabulary = [&](Value value) { return build.broadcast_over(value, shape, {1}); };

  const Value row_max = build.reduce_max(logits, {1});
  const Value shifted = build.sub(logits, over_vocabulary(row_max));
  const Value exponentials = build.exp2(build.scale(shifted, std::numbers::log2e));
  const Value sum = build.reduce_sum(exponentials, {1});
  const Value is_target = build.equal(build.iota(build.dtype(targets), shape, 1), over_vocabulary(targets));
  const Value counted = build.less_equal(build.zeros_like(targets), targets);

  // ln of the sum of exponentials of what is shifted; log Z has the shift.
  Value log_sum;
  const auto log_of_sum = [&] {
    if (!log_sum.valid()) log_sum = build.scale(build.log2(sum), std::numbers::ln2);
    return log_sum;
  };
  const auto log_z = [&] { return build.add(log_of_sum(), row_max); };

  Chunk chunk;
  if (needs.loss || needs.terms) {
    const Value target_logit = build.reduce_sum(build.select(is_target, shifted, build.zeros_like(shifted)), {1});
    const Value nll = build.sub(log_of_sum(), target_logit);
    const Value weighted = build.mul(token_weights, nll);
    chunk.terms = build.select(counted, weighted, build.zeros_like(weighted));
    if (needs.loss) chunk.loss = build.reduce_sum(chunk.terms, {0});
  }
  if (needs.z_loss) {
    const Value z = log_z();
    const Value weighted = build.mul(token_weights, build.scale(build.mul(z, z), z_loss));
    chunk.z_loss = build.reduce_sum(build.select(counted, weighted, build.zeros_like(weighted)), {0});
  }
  if (needs.dx || needs.dweight) {
    const bool backward = build.graph().backward();
    build.graph().set_backward(true);
    Value share = build.recip(sum);
    if (z_loss > 0) {
      const Value twice = build.scale(log_z(), 2 * z_loss);
      share = build.mul(share, build.add(twice, build.constant_like(twice, 1)));
    }
    const Value softmax = build.mul(exponentials, over_vocabulary(share));
    const Value one_hot = build.cast(is_target, DType::kF32);
    const Value factor = build.select(counted, token_weights, build.zeros_like(token_weights));
    Value wide = build.mul(build.sub(softmax, one_hot), over_vocabulary(factor));
    if (bent.valid()) wide = build.mul(wide, build.sub(build.constant_like(bent, 1), build.mul(bent, bent)));
    const Value dlogits = build.cast(wide, build.dtype(x));
    if (needs.dx) chunk.dx = build.dot(dlogits, weight, false, false, build.dtype(x));
    if (needs.dweight) chunk.dweight = build.dot(dlogits, x, true, false, DType::kF32);
    build.graph().set_backward(backward);
  }
  return chunk;
}

std::vector<Value> expand(Graph& target, const std::vector<Value>& inputs, const Attributes& attributes,
                          const Needs& needs, const ExpandLinearCrossEntropyOptions& options) {
  const Builder build(target);
  const Value x = inputs[0];
  // The dots need operands of one type: that of x.
  Value weight = build.cast(inputs[1], build.dtype(x));
  const DType logits_type = options.narrow_logits ? build.dtype(x) : DType::kF32;
  const Dim tokens = build.shape(x)[0], vocabulary = build.shape(weight)[0];
  if (vocabulary.is_constant() && vocabulary.constant() % options.vocabulary_multiple != 0) {
    const int64_t more = options.vocabulary_multiple - vocabulary.constant() % options.vocabulary_multiple;
    weight = build.pad(weight, {0, 0}, {more, 0}, 0);
  }
  const auto without_padding = [&](Value dweight) {
    return dweight.valid() ? build.slice_axis(dweight, 0, 0, vocabulary) : dweight;
  };
  const auto outputs = [&](const Chunk& chunk) {
    std::vector<Value> all = {chunk.loss, chunk.dx, without_padding(chunk.dweight), chunk.terms};
    if (attributes.z_loss > 0) all.push_back(chunk.z_loss);
    return all;
  };
  const bool chunked = tokens.is_constant() && vocabulary.is_constant() && tokens.constant() > 0;
  if (!chunked) {
    return outputs(expand_chunk(build, x, weight, inputs[2], inputs[3], needs, logits_type, vocabulary, attributes));
  }

  const int64_t count = tokens.constant();
  const int64_t rows =
      rows_per_chunk(count, vocabulary.constant(), static_cast<int64_t>(size_bytes(logits_type)), options);
  Chunk total;
  std::vector<Value> dx, terms;
  const auto accumulate = [&](Value& sum, Value part) { sum = sum.valid() ? build.add(sum, part) : part; };
  for (int64_t start = 0; start < count; start += rows) {
    const int64_t limit = std::min(count, start + rows);
    const auto part = [&](Value value) { return build.slice_axis(value, 0, start, limit); };
    const Chunk chunk = expand_chunk(build, part(x), weight, part(inputs[2]), part(inputs[3]), needs, logits_type,
                                     vocabulary, attributes);
    if (needs.loss) accumulate(total.loss, chunk.loss);
    if (needs.z_loss) accumulate(total.z_loss, chunk.z_loss);
    if (needs.dx) dx.push_back(chunk.dx);
    if (needs.terms) terms.push_back(chunk.terms);
    if (needs.dweight) accumulate(total.dweight, chunk.dweight);
  }
  if (needs.dx) total.dx = build.concat(std::move(dx), 0);
  if (needs.terms) total.terms = build.concat(std::move(terms), 0);
  return outputs(total);
}

}  // namespace

Graph expand_linear_cross_entropy(const Graph& graph, const ExpandLinearCrossEntropyOptions& options) {
  const std::vector<std::vector<int>> uses = count_uses(graph);
  const Node* first = graph.nodes().data();
  return rebuild_graph(graph, [&](Graph& target, const Node& node, const std::vector<Value>& inputs) {
    if (node.op != Op::kLinearCrossEntropy) return copy_node(target, node, inputs);
    const std::vector<int>& used = uses[static_cast<size_t>(&node - first)];
    const Needs needs = {.loss = used[0] > 0,
                         .dx = used[1] > 0,
                         .dweight = used[2] > 0,
                         .terms = used[3] > 0,
                         .z_loss = used.size() > 4 && used[4] > 0};
    return expand(target, inputs, node.attributes, needs, options);
  });
}

}  // namespace causeway::passes
