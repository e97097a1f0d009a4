#include "causeway/data/mixture_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::data {
namespace {

// In 2^-64, below 1.
uint64_t fixed_point(double share) {
  const double scaled = std::ldexp(share, 64);
  return scaled >= std::ldexp(1.0, 64) ? std::numeric_limits<uint64_t>::max() : static_cast<uint64_t>(scaled);
}

SampleOrder order_of_source(const TokenDataset& dataset, size_t source, int64_t sequence_length, uint64_t seed) {
  const TokenDataset::Source& of = dataset.sources()[source];
  try {
    return {of.token_count, sequence_length, seed, source};
  } catch (const Error& error) {
    if (dataset.sources().size() == 1) throw;
    throw Error(error.kind(), error.message(), of.path.string(), error.hint());
  }
}

}  // namespace

SourceShares::SourceShares(std::span<const double> weights) : nodes_(weights.size()) {
  CAUSEWAY_CHECK(!weights.empty());
  std::set<std::pair<double, size_t>> roots;
  for (size_t i = 0; i < weights.size(); ++i) {
    CAUSEWAY_CHECK(weights[i] > 0 && std::isfinite(weights[i]), "weight {}", weights[i]);
    roots.emplace(weights[i], i);
  }
  while (roots.size() > 1) {
    const auto [lighter_weight, lighter] = *roots.begin();
    const auto [heavier_weight, heavier] = *std::next(roots.begin());
    roots.erase(roots.begin(), std::next(roots.begin(), 2));
    const double weight = lighter_weight + heavier_weight;
    roots.emplace(weight, nodes_.size());
    nodes_.push_back({fixed_point(heavier_weight / weight), heavier, lighter});
  }
}

uint64_t SourceShares::of_heavier(const Node& node, uint64_t samples) {
  constexpr auto kHalf = static_cast<unsigned __int128>(1) << 63;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(node.heavier_share) * samples + kHalf) >> 64);
}

SourceShares::Turn SourceShares::turn(uint64_t sample) const {
  size_t place = nodes_.size() - 1;
  while (!is_leaf(place)) {
    const Node& node = nodes_[place];
    const uint64_t before = of_heavier(node, sample);
    const bool is_heavier = of_heavier(node, sample + 1) > before;
    sample = is_heavier ? before : sample - before;
    place = is_heavier ? node.heavier : node.lighter;
  }
  return {place, sample};
}

std::vector<uint64_t> SourceShares::counts(uint64_t samples) const {
  std::vector<uint64_t> counts(nodes_.size());
  counts.back() = samples;
  for (size_t place = nodes_.size() - 1; !is_leaf(place); --place) {
    const Node& node = nodes_[place];
    counts[node.heavier] = of_heavier(node, counts[place]);
    counts[node.lighter] = counts[place] - counts[node.heavier];
  }
  counts.resize(source_count());
  return counts;
}

MixtureOrder::MixtureOrder(const TokenDataset& dataset, std::span<const double> weights, int64_t sequence_length,
                           uint64_t seed, Packing packing, const GroupedSamples& grouped)
    : shares_(weights),
      samples_of_turn_(dataset.holds_pairs()     ? 2
                       : dataset.holds_prompts() ? grouped.completions
                                                 : 1) {
  CAUSEWAY_CHECK(weights.size() == dataset.sources().size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (dataset.holds_pairs()) {
      orders_.emplace_back(PairOrder(dataset, i, sequence_length, seed, grouped.all_are_inputs));
      offsets_.push_back(0);
    } else if (dataset.holds_prompts()) {
      const int64_t longest = sequence_length + 1 - grouped.completion_tokens;
      orders_.emplace_back(PromptOrder(dataset, i, longest, grouped.completions, seed));
      offsets_.push_back(0);
    } else if (packing == Packing::kDocuments) {
      orders_.emplace_back(PackedOrder(dataset, i, sequence_length, seed));
      offsets_.push_back(0);
    } else {
      orders_.emplace_back(order_of_source(dataset, i, sequence_length, seed));
      offsets_.push_back(dataset.sources()[i].offset);
    }
    samples_per_epoch_ += samples_per_epoch(i);
  }
}

uint64_t MixtureOrder::samples_per_epoch(size_t source) const {
  return std::visit([](const auto& order) { return order.samples_per_epoch(); }, orders_[source]);
}

const DocumentPacking* MixtureOrder::packing(size_t source) const {
  const auto* packed = std::get_if<PackedOrder>(&orders_[source]);
  return packed == nullptr ? nullptr : &packed->packing();
}

const DocumentPairs* MixtureOrder::pairs(size_t source) const {
  const auto* order = std::get_if<PairOrder>(&orders_[source]);
  return order == nullptr ? nullptr : &order->pairs();
}

const DocumentPrompts* MixtureOrder::prompts(size_t source) const {
  const auto* order = std::get_if<PromptOrder>(&orders_[source]);
  return order == nullptr ? nullptr : &order->prompts();
}

std::vector<SampleWindow> MixtureOrder::windows(uint64_t sample) const {
  const SourceShares::Turn turn = shares_.turn(sample / samples_of_turn_);
  const uint64_t number = turn.number * samples_of_turn_ + sample % samples_of_turn_;
  std::vector<SampleWindow> windows =
      std::visit([&](const auto& order) { return order.windows(number); }, orders_[turn.source]);
  for (SampleWindow& window : windows) window.offset += offsets_[turn.source];
  return windows;
}

}  // namespace causeway::data
