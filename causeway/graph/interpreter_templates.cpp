// Dot, scaled and grouped, attention and linear cross-entropy.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter_node.h"
#include "causeway/graph/op.h"

namespace causeway::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A score or mask graph as a function of the position. Only the nodes that depend on an argument that has changed
// since the call before are evaluated again, so that what depends on outer loops costs little.
class PositionFunction {
 public:
  PositionFunction(const Graph& graph, std::span<const HostTensor* const> captured, const NodeEvaluation& context)
      : graph_(graph), context_(context), values_(graph.nodes().size()), operands_(graph.nodes().size()) {
    const size_t arguments = graph.inputs().size() - captured.size();
    CAUSEWAY_CHECK(arguments == 4 || arguments == 5);
    depends_.assign(graph.nodes().size(), 0);
    std::vector<const HostTensor*> external(graph.nodes().size(), nullptr);
    for (size_t i = 0; i < graph.inputs().size(); ++i) {
      const auto node = static_cast<size_t>(graph.inputs()[i].node);
      if (i < arguments) {
        depends_[node] = static_cast<uint8_t>(1u << i);
        values_[node] = allocate_outputs(graph.nodes()[node], context.bindings);
        arguments_.push_back(&values_[node][0].values[0]);
      } else {
        external[node] = captured[i - arguments];
      }
    }
    const auto pointer = [&](Value value) -> const HostTensor* {
      const auto node = static_cast<size_t>(value.node);
      return external[node] != nullptr ? external[node] : &values_[node][static_cast<size_t>(value.output)];
    };
    for (size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (node.op == Op::kInput) continue;
      values_[i] = allocate_outputs(node, context.bindings);
      for (const Value input : node.inputs) {
        operands_[i].push_back(pointer(input));
        depends_[i] |= depends_[static_cast<size_t>(input.node)];
      }
    }
    result_ = &pointer(graph.outputs[0])->values[0];
  }

  double operator()(int64_t b, int64_t h, int64_t i, int64_t j, double score = 0) {
    const double next[] = {static_cast<double>(b), static_cast<double>(h), static_cast<double>(i),
                           static_cast<double>(j), score};
    uint8_t changed = 0;
    for (size_t a = 0; a < arguments_.size(); ++a) {
      if (first_ || *arguments_[a] != next[a]) changed |= static_cast<uint8_t>(1u << a);
      *arguments_[a] = next[a];
    }
    for (size_t n = 0; n < values_.size(); ++n)
      if (graph_.nodes()[n].op != Op::kInput && (first_ || (depends_[n] & changed) != 0))
        evaluate_node({graph_.nodes()[n], operands_[n], values_[n], context_.bindings, context_.rounding});
    first_ = false;
    return *result_;
  }

 private:
  const Graph& graph_;
  const NodeEvaluation& context_;
  std::vector<std::vector<HostTensor>> values_;
  std::vector<std::vector<const HostTensor*>> operands_;
  std::vector<uint8_t> depends_;  // bit a: on argument a
  std::vector<double*> arguments_;
  const double* result_ = nullptr;
  bool first_ = true;
};

// What forward and gradient share: the tensors, the sizes and the score of one pair.
class Attention {
 public:
  Attention(const NodeEvaluation& evaluation, size_t tensors)
      : evaluation_(evaluation),
        spec_(*evaluation.node.attributes.attention),
        captured_(evaluation.inputs.subspan(tensors + (spec_.has_block_map ? 1 : 0))),
        batch(evaluation.input(0).shape[0]),
        queries(evaluation.input(0).shape[1]),
        heads(evaluation.input(0).shape[2]),
        dim(evaluation.input(0).shape[3]),
        value_dim(evaluation.input(2).shape[3]),
        keys(evaluation.input(1).shape[1]),
        key_heads(evaluation.input(1).shape[2]) {
    if (spec_.score != nullptr) score_.emplace(*spec_.score, captured_, evaluation);
    if (spec_.score_gradient != nullptr) score_gradient_.emplace(*spec_.score_gradient, captured_, evaluation);
    if (spec_.mask != nullptr) mask_.emplace(*spec_.mask, captured_, evaluation);
  }

  // Where rows begin that are as wide as queries and keys, or as values and outputs.
  int64_t query_row(int64_t b, int64_t i, int64_t h) const { return query_number(b, i, h) * dim; }
  int64_t out_row(int64_t b, int64_t i, int64_t h) const { return query_number(b, i, h) * value_dim; }
  int64_t key_row(int64_t b, int64_t j, int64_t h) const { return key_number(b, j, h) * dim; }
  int64_t value_row(int64_t b, int64_t j, int64_t h) const { return key_number(b, j, h) * value_dim; }
  int64_t statistic(int64_t b, int64_t h, int64_t i) const { return (b * heads + h) * queries + i; }

  double dot(size_t left, int64_t left_row, size_t right, int64_t right_row, int64_t width) const {
    const double* a = evaluation_.input(left).values.data() + left_row;
    const double* b = evaluation_.input(right).values.data() + right_row;
    double sum = 0;
    for (int64_t d = 0; d < width; ++d) sum += a[d] * b[d];
    return sum;
  }

  // scale * q . k
  double raw_score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const double raw = spec_.scale * dot(0, query_row(b, i, h), 1, key_row(b, j, h), dim);
    return evaluation_.rounding == Rounding::kRounded ? round_to_dtype(DType::kF32, raw) : raw;
  }
  // The score after the score function and the mask.
  double score(int64_t b, int64_t h, int64_t i, int64_t j, double raw) {
    if (mask_.has_value() && (*mask_)(b, h, i, j) == 0) return -kInfinity;
    return score_.has_value() ? (*score_)(b, h, i, j, raw) : raw;
  }
  double score_gradient(int64_t b, int64_t h, int64_t i, int64_t j, double raw) {
    return score_gradient_.has_value() ? (*score_gradient_)(b, h, i, j, raw) : 1;
  }
  double scale() const { return spec_.scale; }

 private:
  int64_t query_number(int64_t b, int64_t i, int64_t h) const { return (b * queries + i) * heads + h; }
  int64_t key_number(int64_t b, int64_t j, int64_t h) const {
    return (b * keys + j) * key_heads + h / (heads / key_heads);
  }

  const NodeEvaluation& evaluation_;
  const AttentionSpec& spec_;
  std::span<const HostTensor* const> captured_;
  std::optional<PositionFunction> score_, score_gradient_, mask_;

 public:
  const int64_t batch, queries, heads, dim, value_dim, keys, key_heads;
};

void evaluate_forward(const NodeEvaluation& evaluation) {
  Attention attention(evaluation, 3);
  HostTensor &out = evaluation.output(0), &lse = evaluation.output(1);
  std::fill(out.values.begin(), out.values.end(), 0);
  std::vector<double> scores(static_cast<size_t>(attention.keys));
  for (int64_t b = 0; b < attention.batch; ++b)
    for (int64_t h = 0; h < attention.heads; ++h)
      for (int64_t i = 0; i < attention.queries; ++i) {
        double largest = -kInfinity;
        for (int64_t j = 0; j < attention.keys; ++j) {
          scores[static_cast<size_t>(j)] = attention.score(b, h, i, j, attention.raw_score(b, h, i, j));
          largest = max_or_nan(largest, scores[static_cast<size_t>(j)]);
        }
        double& row_lse = lse.values[static_cast<size_t>(attention.statistic(b, h, i))];
        row_lse = -kInfinity;
        if (largest == -kInfinity) continue;
        double total = 0;
        for (const double score : scores) total += std::exp(score - largest);
        row_lse = largest + std::log(total);
        double* row = out.values.data() + attention.out_row(b, i, h);
        for (int64_t j = 0; j < attention.keys; ++j) {
          const double weight = std::exp(scores[static_cast<size_t>(j)] - largest) / total;
          const double* v = evaluation.input(2).values.data() + attention.value_row(b, j, h);
          if (weight == 0) continue;
          for (int64_t d = 0; d < attention.value_dim; ++d) row[d] += weight * v[d];
        }
      }
}

void evaluate_gradient(const NodeEvaluation& evaluation) {
  Attention attention(evaluation, 6);
  for (HostTensor& output : evaluation.outputs) std::fill(output.values.begin(), output.values.end(), 0);
  const double* q = evaluation.input(0).values.data();
  const double* k = evaluation.input(1).values.data();
  const double* dout = evaluation.input(3).values.data();
  double* dq = evaluation.output(0).values.data();
  double* dk = evaluation.output(1).values.data();
  double* dv = evaluation.output(2).values.data();
  for (int64_t b = 0; b < attention.batch; ++b)
    for (int64_t h = 0; h < attention.heads; ++h)
      for (int64_t i = 0; i < attention.queries; ++i) {
        const auto statistic = static_cast<size_t>(attention.statistic(b, h, i));
        const double lse = evaluation.input(4).values[statistic], delta = evaluation.input(5).values[statistic];
        const int64_t query = attention.query_row(b, i, h), out = attention.out_row(b, i, h);
        for (int64_t j = 0; j < attention.keys; ++j) {
          const double raw = attention.raw_score(b, h, i, j);
          const double score = attention.score(b, h, i, j, raw);
          if (score == -kInfinity) continue;
          const int64_t key = attention.key_row(b, j, h), value = attention.value_row(b, j, h);
          const double weight = std::exp(score - lse);
          const double dscore = weight * (attention.dot(3, out, 2, value, attention.value_dim) - delta);
          const double draw = attention.scale() * dscore * attention.score_gradient(b, h, i, j, raw);
          for (int64_t d = 0; d < attention.value_dim; ++d) dv[value + d] += weight * dout[out + d];
          for (int64_t d = 0; d < attention.dim; ++d) {
            dq[query + d] += draw * k[key + d];
            dk[key + d] += draw * q[query + d];
          }
        }
      }
}

void evaluate_block_map(const NodeEvaluation& evaluation) {
  const AttentionSpec& spec = *evaluation.node.attributes.attention;
  const std::vector<int64_t> sizes = evaluate(evaluation.node.attributes.shape, evaluation.bindings);
  HostTensor& out = evaluation.output();
  PositionFunction mask(*spec.mask, evaluation.inputs, evaluation);
  double* next = out.values.data();
  for (int64_t b = 0; b < out.shape[0]; ++b)
    for (int64_t h = 0; h < out.shape[1]; ++h)
      for (int64_t i = 0; i < out.shape[2]; ++i)
        for (int64_t j = 0; j < out.shape[3]; ++j) {
          bool any = false, all = true;
          for (int64_t t = i * spec.block_q; t < std::min(sizes[2], (i + 1) * spec.block_q); ++t)
            for (int64_t s = j * spec.block_k; s < std::min(sizes[3], (j + 1) * spec.block_k); ++s) {
              const bool attends = mask(b, h, t, s) != 0;
              any |= attends;
              all &= attends;
            }
          *next++ = !any ? 0 : all ? 2 : 1;
        }
}

}  // namespace

void evaluate_dot(const NodeEvaluation& evaluation) {
  const HostTensor &a = evaluation.input(0), &b = evaluation.input(1);
  HostTensor& out = evaluation.output();
  const Attributes& attributes = evaluation.node.attributes;
  const size_t rank = out.shape.size();
  const int64_t m = out.shape[rank - 2], n = out.shape[rank - 1];
  const int64_t k = a.shape[attributes.transpose_a ? rank - 2 : rank - 1];
  int64_t batch = 1;
  for (size_t i = 0; i + 2 < rank; ++i) batch *= out.shape[i];
  const int64_t a_row = attributes.transpose_a ? 1 : k, a_column = attributes.transpose_a ? m : 1;
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t index = 0; index < batch; ++index) {
    const double* left = a.values.data() + index * m * k;
    const double* right = b.values.data() + index * k * n;
    for (int64_t i = 0; i < m; ++i) {
      double* row = out.values.data() + (index * m + i) * n;
      if (attributes.transpose_b) {
        for (int64_t j = 0; j < n; ++j)
          for (int64_t l = 0; l < k; ++l) row[j] += left[i * a_row + l * a_column] * right[j * k + l];
      } else {
        for (int64_t l = 0; l < k; ++l) {
          const double scale = left[i * a_row + l * a_column];
          for (int64_t j = 0; j < n; ++j) row[j] += scale * right[l * n + j];
        }
      }
    }
  }
}

void evaluate_scaled_dot(const NodeEvaluation& evaluation) {
  const HostTensor &a = evaluation.input(0), &b = evaluation.input(1);
  const HostTensor &a_scales = evaluation.input(2), &b_scales = evaluation.input(3);
  HostTensor& out = evaluation.output();
  const int64_t m = out.shape[0], n = out.shape[1], k = a.shape[1];
  const auto scale = [](const HostTensor& scales, int64_t line, int64_t lines, int64_t block) {
    const int64_t in_block = scales.shape[1];
    return scales.values[static_cast<size_t>(block * in_block + line / (lines / in_block))];
  };
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t block = 0; block < k / kScaledBlock; ++block) {
        double products = 0;
        for (int64_t l = block * kScaledBlock; l < (block + 1) * kScaledBlock; ++l)
          products += a.values[static_cast<size_t>(i * k + l)] * b.values[static_cast<size_t>(j * k + l)];
        sum += products * scale(a_scales, i, m, block) * scale(b_scales, j, n, block);
      }
      out.values[static_cast<size_t>(i * n + j)] = sum;
    }
}

void evaluate_grouped_dot(const NodeEvaluation& evaluation) {
  const HostTensor &a = evaluation.input(0), &b = evaluation.input(1), &offsets = evaluation.input(2);
  HostTensor& out = evaluation.output();
  const auto [transpose_a, transpose_b] =
      std::pair(evaluation.node.attributes.transpose_a, evaluation.node.attributes.transpose_b);
  const int64_t slabs = a.shape[0], rows = a.shape[1], width = a.shape[2], groups = offsets.shape[1] - 1;
  const int64_t n = out.shape[2];
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t slab = 0; slab < slabs; ++slab) {
    int64_t begin = 0;
    for (int64_t group = 0; group <= groups; ++group) {
      const int64_t end = to_int64(offsets.values[static_cast<size_t>(slab * (groups + 1) + group)]);
      if (end < begin || end > rows || (group == 0 && end != 0))
        throw_evaluation_error(
            evaluation, fmt::format("takes offsets that begin with 0, never fall and end at {} at most, but offset {} "
                                    "of slab {} is {}",
                                    rows, group, slab, end));
      for (int64_t row = begin; row < end; ++row) {
        const double* left = a.values.data() + (slab * rows + row) * width;
        if (transpose_a) {
          const double* right = b.values.data() + (slab * rows + row) * n;
          double* matrix = out.values.data() + (group - 1) * width * n;
          for (int64_t i = 0; i < width; ++i)
            for (int64_t j = 0; j < n; ++j) matrix[i * n + j] += left[i] * right[j];
        } else {
          const double* matrix = b.values.data() + (group - 1) * width * n;
          double* to = out.values.data() + (slab * rows + row) * n;
          for (int64_t j = 0; j < n; ++j)
            for (int64_t l = 0; l < width; ++l) to[j] += left[l] * matrix[transpose_b ? j * width + l : l * n + j];
        }
      }
      begin = end;
    }
  }
}

void evaluate_cross_entropy(const NodeEvaluation& evaluation) {
  const HostTensor &x = evaluation.input(0), &weight = evaluation.input(1), &targets = evaluation.input(2);
  const int64_t tokens = x.shape[0], channels = x.shape[1], vocabulary = weight.shape[0];
  double& loss = evaluation.output(0).values[0];
  HostTensor &dx = evaluation.output(1), &dw = evaluation.output(2), &terms = evaluation.output(3);
  const double z_loss = evaluation.node.attributes.z_loss;  // 0: none
  double squares = 0;
  loss = 0;
  std::fill(dx.values.begin(), dx.values.end(), 0);
  std::fill(dw.values.begin(), dw.values.end(), 0);
  std::fill(terms.values.begin(), terms.values.end(), 0);
  std::vector<double> logits(static_cast<size_t>(vocabulary));
  const double cap = evaluation.node.attributes.value;  // 0: none
  for (int64_t i = 0; i < tokens; ++i) {
    const int64_t target = to_int64(targets.values[static_cast<size_t>(i)]);
    if (target >= vocabulary)
      throw_evaluation_error(evaluation,
                             fmt::format("was given target {} at token {} but {} classes", target, i, vocabulary));
    if (target < 0) continue;
    const double* row = x.values.data() + i * channels;
    double largest = -kInfinity;
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double* column = weight.values.data() + v * channels;
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) sum += row[c] * column[c];
      const double logit = cap == 0 ? sum : cap * std::tanh(sum / cap);
      logits[static_cast<size_t>(v)] = logit;
      largest = max_or_nan(largest, logit);
    }
    double total = 0;
    for (const double logit : logits) total += std::exp(logit - largest);
    const double token_weight = evaluation.input(3).values[static_cast<size_t>(i)];
    const double log_z = largest + std::log(total);
    const double term = token_weight * (log_z - logits[static_cast<size_t>(target)]);
    squares += token_weight * log_z * log_z;
    terms.values[static_cast<size_t>(i)] = term;
    loss += term;
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double logit = logits[static_cast<size_t>(v)];
      const double probability = std::exp(logit - largest) / total;
      const double slope = cap == 0 ? 1 : 1 - (logit / cap) * (logit / cap);
      const double dlogit = token_weight * (probability * (1 + 2 * z_loss * log_z) - (v == target ? 1 : 0)) * slope;
      for (int64_t c = 0; c < channels; ++c) {
        dx.values[static_cast<size_t>(i * channels + c)] +=
            dlogit * weight.values[static_cast<size_t>(v * channels + c)];
        dw.values[static_cast<size_t>(v * channels + c)] += dlogit * row[c];
      }
    }
  }
  if (z_loss > 0) evaluation.output(4).values[0] = z_loss * squares;
}

void evaluate_attention(const NodeEvaluation& evaluation) {
  switch (evaluation.node.op) {
    case Op::kAttention:
      return evaluate_forward(evaluation);
    case Op::kAttentionGradient:
      return evaluate_gradient(evaluation);
    default:
      return evaluate_block_map(evaluation);
  }
}

}  // namespace causeway::graph
