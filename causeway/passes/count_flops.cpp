#include "causeway/passes/count_flops.h"

#include <algorithm>
#include <array>
#include <optional>

#include "causeway/graph/interpreter.h"
#include "causeway/graph/rewrite.h"

namespace causeway {
namespace {

constexpr size_t kPositions = 4;  // b, h, i, j
constexpr int64_t kExactPairs = int64_t{1} << 20;
constexpr int64_t kPointsPerCall = int64_t{1} << 16;

// Which of the mask's inputs its result depends on.
std::vector<bool> inputs_in_use(const Graph& mask) {
  std::vector<bool> needed(mask.nodes().size());
  needed[static_cast<size_t>(mask.outputs[0].node)] = true;
  for (size_t i = needed.size(); i-- > 0;)
    if (needed[i])
      for (const Value input : mask.nodes()[i].inputs) needed[static_cast<size_t>(input.node)] = true;
  std::vector<bool> used;
  for (const Value input : mask.inputs()) used.push_back(needed[static_cast<size_t>(input.node)]);
  return used;
}

// The mask as a graph over vectors of `points` positions; nullopt when it holds more than elementwise ops.
std::optional<Graph> vectorize(const Graph& mask, int64_t points) {
  Graph result;
  std::vector<Value> mapped(mask.nodes().size());
  for (size_t k = 0; k < kPositions; ++k)
    mapped[static_cast<size_t>(mask.inputs()[k].node)] =
        result.add_input(mask.node(mask.inputs()[k]).attributes.name, {DType::kI32, {points}});
  const std::vector<bool> needed = needed_nodes(mask);
  for (size_t i = 0; i < mapped.size(); ++i) {
    const Node& node = mask.nodes()[i];
    if (!needed[i] || node.op == Op::kInput) continue;
    if (!is_elementwise(node.op) && node.op != Op::kConstant) return std::nullopt;
    std::vector<Value> inputs;
    for (const Value input : node.inputs) inputs.push_back(mapped[static_cast<size_t>(input.node)]);
    Attributes attributes = node.attributes;
    if (node.op == Op::kConstant) attributes.shape = {points};
    mapped[i] = result.add(node.op, std::move(inputs), std::move(attributes));
  }
  result.outputs = {mapped[static_cast<size_t>(mask.outputs[0].node)]};
  return result;
}

// Counts true results of the mask at positions given one by one, a vector at a time.
class PairCounter {
 public:
  explicit PairCounter(Graph mask) : mask_(std::move(mask)) {
    for (HostTensor& positions : positions_) positions = fill_host_tensor(DType::kI32, {kPointsPerCall}, 0);
  }

  void add(int64_t b, int64_t h, int64_t i, int64_t j) {
    const std::array<int64_t, kPositions> at = {b, h, i, j};
    for (size_t k = 0; k < kPositions; ++k) positions_[k].values[filled_] = static_cast<double>(at[k]);
    if (++filled_ == static_cast<size_t>(kPointsPerCall)) flush();
  }

  double total() {
    flush();
    return total_;
  }

 private:
  void flush() {
    if (filled_ == 0) return;
    const std::vector<HostTensor> result =
        interpret(mask_, std::vector<HostTensor>(positions_.begin(), positions_.end()));
    for (size_t n = 0; n < filled_; ++n) total_ += result[0].values[n] != 0 ? 1 : 0;
    filled_ = 0;
  }

  Graph mask_;
  std::array<HostTensor, kPositions> positions_;
  size_t filled_ = 0;
  double total_ = 0;
};

class FlopCounter {
 public:
  FlopCounter(const Graph& graph, const FlopOptions& options) : graph_(graph), options_(options) {}

  FlopCount count() {
    const std::vector<std::vector<int>> uses = count_uses(graph_);
    const std::vector<bool> needed = needed_nodes(graph_);
    for (size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) count_node(graph_.nodes()[i], uses[i]);
    return result_;
  }

 private:
  struct CountedMask {
    std::shared_ptr<const AttentionSpec> spec;
    std::array<int64_t, 4> sizes;
    double pairs;
  };

  double size(const Dim& dim) const { return static_cast<double>(dim.evaluate(options_.bindings)); }

  void count_node(const Node& node, const std::vector<int>& uses) {
    double& here = node.backward ? result_.backward : result_.forward;
    switch (node.op) {
      case Op::kDot: {
        const Shape& a = graph_.shape(node.inputs[0]);
        const Dim& k = a[node.attributes.transpose_a ? a.size() - 2 : a.size() - 1];
        here += 2 * size(element_count(node.outputs[0].shape)) * size(k);
        break;
      }
      case Op::kAttention:
      case Op::kAttentionGradient: {
        const double pairs = attended(node);
        const double head_dim = size(graph_.shape(node.inputs[0])[3]);
        here += (node.op == Op::kAttention ? 4 : 10) * pairs * head_dim;
        break;
      }
      case Op::kLinearCrossEntropy: {
        const double product =
            2 * size(element_count(graph_.shape(node.inputs[0]))) * size(graph_.shape(node.inputs[1])[0]);
        here += product;
        result_.backward += product * ((uses[1] > 0 ? 1 : 0) + (uses[2] > 0 ? 1 : 0));
        break;
      }
      default:
        break;
    }
  }

  double attended(const Node& node) {
    const std::vector<int64_t> q = evaluate(graph_.shape(node.inputs[0]), options_.bindings);
    const std::vector<int64_t> k = evaluate(graph_.shape(node.inputs[1]), options_.bindings);
    const std::array<int64_t, 4> sizes = {q[0], q[2], q[1], k[1]};
    const double all = static_cast<double>(sizes[0] * sizes[1]) * static_cast<double>(sizes[2] * sizes[3]);
    double pairs = count_once(node.attributes.attention, sizes);
    if (pairs < 0) {
      result_.density_assumed = true;
      pairs = all * options_.captured_mask_density;
    }
    if (node.op == Op::kAttention && !node.backward) {
      result_.attended_pairs += pairs;
      result_.attention_pairs += all;
    }
    return pairs;
  }

  double count_once(const std::shared_ptr<const AttentionSpec>& spec, const std::array<int64_t, 4>& sizes) {
    for (const CountedMask& entry : counted_) {
      if (entry.sizes != sizes) continue;
      const auto &a = entry.spec->mask, &b = spec->mask;
      if (a == b || (a != nullptr && b != nullptr && structurally_equal(*a, *b))) return entry.pairs;
    }
    counted_.push_back({spec, sizes, count_attended_pairs(*spec, sizes[0], sizes[1], sizes[2], sizes[3])});
    return counted_.back().pairs;
  }

  const Graph& graph_;
  const FlopOptions& options_;
  FlopCount result_;
  std::vector<CountedMask> counted_;
};

}  // namespace

double count_attended_pairs(const AttentionSpec& spec, int64_t batch, int64_t heads, int64_t queries, int64_t keys) {
  const double all = static_cast<double>(batch * heads) * static_cast<double>(queries * keys);
  if (spec.mask == nullptr || all == 0) return all;
  const std::vector<bool> used = inputs_in_use(*spec.mask);
  if (std::find(used.begin() + kPositions, used.end(), true) != used.end()) return -1;
  std::optional<Graph> mask = vectorize(*spec.mask, kPointsPerCall);
  if (!mask) return -1;

  const int64_t batches_seen = used[0] ? batch : 1, heads_seen = used[1] ? heads : 1;
  const int64_t pairs = batches_seen * heads_seen * queries * keys;
  // Rows in the middle of strides of equal length: exact on the average for masks whose rows grow evenly.
  const int64_t stride = std::clamp<int64_t>((pairs + kExactPairs - 1) / kExactPairs, 1, queries);
  PairCounter counter(std::move(*mask));
  int64_t rows = 0;
  for (int64_t i = (stride - 1) / 2; i < queries; i += stride, ++rows)
    for (int64_t b = 0; b < batches_seen; ++b)
      for (int64_t h = 0; h < heads_seen; ++h)
        for (int64_t j = 0; j < keys; ++j) counter.add(b, h, i, j);
  return counter.total() * static_cast<double>(queries) / static_cast<double>(rows) *
         static_cast<double>(batch / batches_seen) * static_cast<double>(heads / heads_seen);
}

FlopCount count_flops(const Graph& graph, const FlopOptions& options) { return FlopCounter(graph, options).count(); }

}  // namespace causeway
