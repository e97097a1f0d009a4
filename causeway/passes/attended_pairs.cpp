#include "causeway/passes/attended_pairs.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "causeway/graph/op.h"
#include "causeway/graph/printer.h"
#include "causeway/graph/rewrite.h"
#include "causeway/passes/constant_folding.h"
#include "causeway/passes/interval_arithmetic.h"

namespace causeway::passes {
namespace {

constexpr size_t kPositions = 4;                      // b, h, i, j
constexpr int64_t kSmallestSide = 4;                  // of a rectangle; smaller ones are evaluated pair by pair
constexpr int64_t kMostPoints = int64_t{1} << 21;     // evaluated one by one before rows are sampled
constexpr int64_t kSampledPoints = int64_t{1} << 20;  // of sampled rows

// A mask of positions alone.
struct PositionMask {
  Graph graph;
  std::array<bool, kPositions> reads{};  // which positions decide
};

// The two masks of positions that enclose a mask of positions and captured tensors.
class MaskEnclosure {
 public:
  explicit MaskEnclosure(const Graph& mask) : mask_(mask), parts_(mask.nodes().size()) {
    for (size_t k = 0; k < kPositions; ++k)
      parts_[static_cast<size_t>(mask.inputs()[k].node)] =
          Part::of(graph_.add_input(mask.node(mask.inputs()[k]).attributes.name, {DType::kI32, {}}));
    const std::vector<bool> needed = needed_nodes(mask);
    for (size_t i = 0; i < parts_.size(); ++i)
      if (needed[i] && mask.nodes()[i].op != Op::kInput) parts_[i] = enclose(mask.nodes()[i]);
  }

  bool known() const { return result().known(); }
  PositionMask where_possible() const { return extract(with_bounds(result()).possible); }
  PositionMask where_certain() const { return extract(with_bounds(result()).certain); }

 private:
  // A value, or nothing where it is not known; of a bool then still what encloses it.
  struct Part {
    Value value;
    Value possible, certain;

    static Part of(Value value) { return {value, value, value}; }
    bool known() const { return value.valid(); }
  };

  const Part& result() const { return parts_[static_cast<size_t>(mask_.outputs[0].node)]; }

  Value constant(double value) const {
    Attributes attributes;
    attributes.dtype = DType::kBool;
    attributes.value = value;
    return graph_.add(Op::kConstant, {}, std::move(attributes));
  }
  Value both(Value a, Value b) const { return graph_.add(Op::kAnd, {a, b}); }
  Value either(Value a, Value b) const { return graph_.add(Op::kOr, {a, b}); }
  Value negation(Value a) const { return graph_.add(Op::kXor, {a, constant(1)}); }

  Part with_bounds(Part part) const {
    if (!part.possible.valid()) part.possible = constant(1);
    if (!part.certain.valid()) part.certain = constant(0);
    return part;
  }

  Part enclose(const Node& node) {
    std::vector<Part> inputs;
    for (const Value input : node.inputs) inputs.push_back(parts_[static_cast<size_t>(input.node)]);
    const bool known = std::all_of(inputs.begin(), inputs.end(), [](const Part& part) { return part.known(); });
    if (known && (is_elementwise(node.op) || node.op == Op::kConstant)) {
      std::vector<Value> values;
      for (const Part& part : inputs) values.push_back(part.value);
      return Part::of(graph_.add(node.op, std::move(values), node.attributes));
    }
    if (node.outputs[0].dtype != DType::kBool || !is_elementwise(node.op)) return {};
    if (inputs.size() < 2 || mask_.dtype(node.inputs.back()) != DType::kBool) return {};
    for (Part& part : inputs) part = with_bounds(part);
    const Part &a = inputs[0], &b = inputs[1];
    switch (node.op) {
      case Op::kAnd:
        return {{}, both(a.possible, b.possible), both(a.certain, b.certain)};
      case Op::kOr:
        return {{}, either(a.possible, b.possible), either(a.certain, b.certain)};
      case Op::kXor:
        return differ(a, b);
      case Op::kEq: {
        const Part different = differ(a, b);
        return {{}, negation(different.certain), negation(different.possible)};
      }
      case Op::kSelect: {
        const Part& c = inputs[2];
        return {{},
                either(both(a.possible, b.possible), both(negation(a.certain), c.possible)),
                either(either(both(a.certain, b.certain), both(negation(a.possible), c.certain)),
                       both(b.certain, c.certain))};
      }
      default:
        return {};
    }
  }

  Part differ(const Part& a, const Part& b) const {
    return {{},
            either(both(a.possible, negation(b.certain)), both(negation(a.certain), b.possible)),
            either(both(a.certain, negation(b.possible)), both(negation(a.possible), b.certain))};
  }

  PositionMask extract(Value output) const {
    PositionMask mask{graph_, {}};
    mask.graph.outputs = {output};
    std::vector<bool> decides(mask.graph.nodes().size());
    decides[static_cast<size_t>(output.node)] = true;
    for (size_t i = decides.size(); i-- > 0;)
      if (decides[i])
        for (const Value input : mask.graph.nodes()[i].inputs) decides[static_cast<size_t>(input.node)] = true;
    for (size_t k = 0; k < kPositions; ++k) mask.reads[k] = decides[static_cast<size_t>(mask.graph.inputs()[k].node)];
    return mask;
  }

  const Graph& mask_;
  mutable Graph graph_;
  std::vector<Part> parts_;
};

// A mask at one position after another.
class PointEvaluator {
 public:
  explicit PointEvaluator(const Graph& mask) : mask_(mask), needed_(needed_nodes(mask)), values_(mask.nodes().size()) {}

  // Nothing where an integer on the way is beyond what a double holds.
  std::optional<bool> attends(const std::array<int64_t, kPositions>& at) {
    for (size_t k = 0; k < kPositions; ++k)
      values_[static_cast<size_t>(mask_.inputs()[k].node)] = static_cast<double>(at[k]);
    for (size_t i = 0; i < values_.size(); ++i) {
      const Node& node = mask_.nodes()[i];
      if (needed_[i] && node.op != Op::kInput) values_[i] = evaluate(node);
    }
    const std::optional<double>& result = values_[static_cast<size_t>(mask_.outputs[0].node)];
    if (!result) return std::nullopt;
    return *result != 0;
  }

 private:
  std::optional<double> evaluate(const Node& node) const {
    const DType result = node.outputs[0].dtype;
    if (node.op == Op::kConstant) return round_to_dtype(result, node.attributes.value);
    std::array<double, 3> inputs{};
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const std::optional<double>& input = values_[static_cast<size_t>(node.inputs[k].node)];
      if (!input) return std::nullopt;
      inputs[k] = *input;
    }
    return evaluate_elementwise(node.op, inputs, mask_.dtype(node.inputs.back()), result);
  }

  const Graph& mask_;
  std::vector<bool> needed_;
  std::vector<std::optional<double>> values_;
};

class PairCounter {
 public:
  // `count_unknown`: whether a pair counts of which the mask's value cannot be computed.
  PairCounter(const PositionMask& mask, bool count_unknown, int64_t batch, int64_t heads, int64_t queries, int64_t keys)
      : mask_(mask),
        points_(mask.graph),
        needed_(needed_nodes(mask.graph)),
        bounds_(mask.graph.nodes().size()),
        batches_(mask.reads[0] ? batch : 1),
        heads_(mask.reads[1] ? heads : 1),
        queries_(queries),
        keys_(keys),
        repeats_(static_cast<double>(batch * heads) / static_cast<double>(batches_ * heads_)),
        count_unknown_(count_unknown) {}

  // Whether some pair was counted of which the mask's value could not be computed.
  bool met_unknown() const { return met_unknown_; }

  // Nothing when too many pairs would have to be looked at one by one.
  std::optional<double> count_exactly() {
    attended_ = 0;
    points_left_ = kMostPoints;
    for (int64_t b = 0; b < batches_; ++b)
      for (int64_t h = 0; h < heads_; ++h)
        if (!divide(b, h, {0, queries_, 0, keys_})) return std::nullopt;
    return attended_ * repeats_;
  }

  // From rows in the middle of strides of equal length: near for masks whose rows grow evenly.
  double estimate() {
    attended_ = 0;
    const int64_t pairs = batches_ * heads_ * queries_ * keys_;
    const int64_t stride = std::clamp<int64_t>((pairs + kSampledPoints - 1) / kSampledPoints, 1, queries_);
    int64_t rows = 0;
    for (int64_t i = (stride - 1) / 2; i < queries_; i += stride, ++rows)
      for (int64_t b = 0; b < batches_; ++b)
        for (int64_t h = 0; h < heads_; ++h)
          for (int64_t j = 0; j < keys_; ++j) count_point(b, h, i, j);
    return attended_ * static_cast<double>(queries_) / static_cast<double>(rows) * repeats_;
  }

 private:
  struct Rectangle {
    int64_t first_query, end_query, first_key, end_key;
    int64_t rows() const { return end_query - first_query; }
    int64_t columns() const { return end_key - first_key; }
  };

  void count_point(int64_t b, int64_t h, int64_t i, int64_t j) {
    const std::optional<bool> attends = points_.attends({b, h, i, j});
    if (!attends) met_unknown_ = true;
    if (attends.value_or(count_unknown_)) ++attended_;
  }

  bool divide(int64_t b, int64_t h, const Rectangle& r) {
    const Bounds attends = bound(b, h, r);
    if (attends.is_point()) {
      if (attends.low != 0) attended_ += static_cast<double>(r.rows()) * static_cast<double>(r.columns());
      return true;
    }
    if (std::max(r.rows(), r.columns()) <= kSmallestSide) {
      points_left_ -= r.rows() * r.columns();
      if (points_left_ < 0) return false;
      for (int64_t i = r.first_query; i < r.end_query; ++i)
        for (int64_t j = r.first_key; j < r.end_key; ++j) count_point(b, h, i, j);
      return true;
    }
    Rectangle first = r, second = r;
    if (r.rows() >= r.columns()) {
      first.end_query = second.first_query = r.first_query + r.rows() / 2;
    } else {
      first.end_key = second.first_key = r.first_key + r.columns() / 2;
    }
    return divide(b, h, first) && divide(b, h, second);
  }

  Bounds bound(int64_t b, int64_t h, const Rectangle& r) {
    const std::array<std::pair<int64_t, int64_t>, kPositions> positions = {
        {{b, b}, {h, h}, {r.first_query, r.end_query - 1}, {r.first_key, r.end_key - 1}}};
    const Graph& graph = mask_.graph;
    for (size_t k = 0; k < kPositions; ++k)
      bounds_[static_cast<size_t>(graph.inputs()[k].node)] = {static_cast<double>(positions[k].first),
                                                              static_cast<double>(positions[k].second)};
    for (size_t i = 0; i < bounds_.size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!needed_[i] || node.op == Op::kInput) continue;
      if (node.op == Op::kConstant) {
        const double value = round_to_dtype(node.outputs[0].dtype, node.attributes.value);
        bounds_[i] = {value, value};
        continue;
      }
      input_bounds_.clear();
      input_types_.clear();
      for (const Value input : node.inputs) {
        input_bounds_.push_back(bounds_[static_cast<size_t>(input.node)]);
        input_types_.push_back(graph.dtype(input));
      }
      bounds_[i] = bound_elementwise(node, input_bounds_, input_types_);
    }
    return bounds_[static_cast<size_t>(graph.outputs[0].node)];
  }

  const PositionMask& mask_;
  PointEvaluator points_;
  std::vector<bool> needed_;
  std::vector<Bounds> bounds_;
  std::vector<Bounds> input_bounds_;
  std::vector<DType> input_types_;
  int64_t batches_, heads_, queries_, keys_;
  double repeats_;
  bool count_unknown_, met_unknown_ = false;
  double attended_ = 0;
  int64_t points_left_ = 0;
};

// The two masks of a mask, and what is counted by them.
class EnclosingMasks {
 public:
  explicit EnclosingMasks(const Graph& mask) {
    const MaskEnclosure enclosure(mask);
    known_ = enclosure.known();
    possible_ = enclosure.where_possible();
    certain_ = enclosure.where_certain();
  }

  // Position `k` of b, h, i, j decides.
  bool reads(size_t k) const { return possible_.reads[k] || certain_.reads[k]; }

  AttendedPairs count(int64_t batch, int64_t heads, int64_t queries, int64_t keys) const {
    AttendedPairs result;
    bool known = known_;
    const auto count = [&](const PositionMask& mask, bool count_unknown) {
      PairCounter counter(mask, count_unknown, batch, heads, queries, keys);
      std::optional<double> pairs = counter.count_exactly();
      if (!pairs) {
        result.sampled = true;
        pairs = counter.estimate();
      }
      if (counter.met_unknown()) known = false;
      return *pairs;
    };
    result.at_most = count(possible_, true);
    result.at_least = known ? result.at_most : count(certain_, false);
    return result;
  }

 private:
  bool known_;
  PositionMask possible_, certain_;
};

// Counting takes milliseconds; layers have equal masks, and so have the layouts that a plan compares. A mask over ranks
// that share a sequence is as many masks. Several threads may use it at once.
class CountedMasks {
 public:
  using Key = std::pair<std::string, std::array<int64_t, kPositions>>;  // the mask's text; sizes

  template <class Count>
  AttendedPairs find_or_count(const Key& key, Count&& count) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = counted_.find(key); found != counted_.end()) return found->second;
    }
    const AttendedPairs pairs = count();
    const std::lock_guard lock(mutex_);
    if (counted_.size() == kMost) counted_.clear();
    counted_.emplace(key, pairs);
    return pairs;
  }

 private:
  static constexpr size_t kMost = 1 << 14;
  std::mutex mutex_;
  std::map<Key, AttendedPairs> counted_;
};

}  // namespace

AttendedPairs count_attended_pairs(const AttentionSpec& spec, int64_t batch, int64_t heads, int64_t queries,
                                   int64_t keys) {
  const double all = static_cast<double>(batch * heads) * static_cast<double>(queries) * static_cast<double>(keys);
  if (spec.mask == nullptr || all == 0) return {all, all, false};
  const EnclosingMasks masks(*spec.mask);
  const int64_t own_batch = masks.reads(0) ? batch : 1, own_heads = masks.reads(1) ? heads : 1;
  static CountedMasks counted;
  AttendedPairs pairs = counted.find_or_count({print_graph(*spec.mask), {own_batch, own_heads, queries, keys}},
                                              [&] { return masks.count(own_batch, own_heads, queries, keys); });
  const double repeats = static_cast<double>(batch * heads) / static_cast<double>(own_batch * own_heads);
  pairs.at_least *= repeats;
  pairs.at_most *= repeats;
  return pairs;
}

}  // namespace causeway::passes
