#include "causeway/train/adapter_combination.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "causeway/base/error.h"

namespace causeway::train {
namespace {

constexpr char kOption[] = "--adapter";
constexpr int64_t kMostRank = 1 << 16;

bool is_one_alone(std::span<const WeightedAdapter> adapters) {
  return adapters.size() == 1 && adapters.front().weight == 1;
}

// What A and B of an adapter are multiplied by.
std::pair<float, float> factors_of(const WeightedAdapter& one, AdapterCombination combination) {
  const double product = one.weight * one.adapter->config().scale();
  if (combination == AdapterCombination::kCat) return {static_cast<float>(product), 1.0f};
  const auto root = static_cast<float>(std::sqrt(std::abs(product)));
  return {product < 0 ? -root : root, root};
}

void write_values(Tensor tensor, const std::vector<float>& values) {
  tensor.write_bytes(std::as_bytes(std::span(values)));
}

// The adapter of one matrix, out of those that have one of it.
void combine(const Matrix& matrix, std::span<const WeightedAdapter* const> adapters, AdapterCombination combination) {
  const int64_t rank = matrix.a.size(0).constant(), in = matrix.a.size(1).constant(), out = matrix.b.size(0).constant();
  std::vector<float> a(static_cast<size_t>(rank * in)), b(static_cast<size_t>(out * rank));
  int64_t first = 0;
  for (const WeightedAdapter* const one : adapters) {
    const int64_t own = one->adapter->config().rank;
    const auto [of_a, of_b] = factors_of(*one, combination);
    const std::vector<float> own_a = one->adapter->read(matrix.name + ".lora_A.weight", {own, in});
    const std::vector<float> own_b = one->adapter->read(matrix.name + ".lora_B.weight", {out, own});
    for (int64_t i = 0; i < own * in; ++i)
      a[static_cast<size_t>(first * in + i)] += own_a[static_cast<size_t>(i)] * of_a;
    for (int64_t row = 0; row < out; ++row)
      for (int64_t i = 0; i < own; ++i)
        b[static_cast<size_t>(row * rank + first + i)] += own_b[static_cast<size_t>(row * own + i)] * of_b;
    if (combination == AdapterCombination::kCat) first += own;
  }
  write_values(matrix.a, a);
  write_values(matrix.b, b);
}

}  // namespace

WeightedAdapter parse_weighted_adapter(const std::string& text) {
  const size_t equals = text.rfind('=');
  std::error_code code;
  if (equals == std::string::npos || std::filesystem::exists(text, code)) return {StoredAdapter::open(text), 1};
  const std::string number = text.substr(equals + 1);
  char* end = nullptr;
  const double weight = std::strtod(number.c_str(), &end);
  if (number.empty() || end != number.c_str() + number.size() || !std::isfinite(weight))
    throw Error(ErrorKind::kInvalidArgument, fmt::format("'{}' is no weight of an adapter", number), kOption,
                "Give a number behind the directory: --adapter runs/lora=0.5");
  return {StoredAdapter::open(text.substr(0, equals)), weight};
}

AdapterConfig combined_adapter(std::span<const WeightedAdapter> adapters, AdapterCombination combination) {
  CAUSEWAY_CHECK(!adapters.empty());
  const AdapterConfig& first = adapters.front().adapter->config();
  if (is_one_alone(adapters)) return first;
  AdapterConfig combined{
      .rank = combination == AdapterCombination::kCat ? 0 : first.rank, .targets = "", .base = first.base};
  std::set<std::string> patterns;
  for (const auto& [adapter, weight] : adapters) {
    const AdapterConfig& own = adapter->config();
    const std::string where = adapter->directory().string();
    if (own.kind == AdapterKind::kDora)
      throw Error(ErrorKind::kUnsupported, "DoRA brings the rows of the sum to lengths of its own, and cannot be added",
                  where,
                  "Use it alone and without a weight, or export the model with it (--merged) as another's base.");
    if (own.base != first.base)
      throw Error(
          ErrorKind::kInvalidArgument,
          fmt::format("the adapter was trained on a base of lora.base={}, and that of {} on one of {}: one base "
                      "cannot lie in both ways",
                      name_of(own.base), adapters.front().adapter->directory().string(), name_of(first.base)),
          where, "Combine adapters that were trained with one lora.base.");
    if (combination == AdapterCombination::kCat) {
      combined.rank += own.rank;
    } else if (own.rank != first.rank) {
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the adapter has rank {}, and that of {} {}: sums of factors need one rank", own.rank,
                              adapters.front().adapter->directory().string(), first.rank),
                  where, "Leave out --adapter-combination linear: what adapters add is then added up.");
    }
    for (const std::string& pattern : target_patterns(own.targets)) patterns.insert(pattern);
  }
  if (combined.rank > kMostRank)
    throw Error(ErrorKind::kUnsupported, fmt::format("the adapters together have rank {}", combined.rank), kOption,
                fmt::format("At most {} can be combined.", kMostRank));
  combined.alpha = static_cast<double>(combined.rank);
  for (const std::string& pattern : patterns) combined.targets += (combined.targets.empty() ? "" : ",") + pattern;
  return combined;
}

void load_combined(std::span<const WeightedAdapter> adapters, AdapterCombination combination, LanguageModel& model) {
  if (is_one_alone(adapters)) return adapters.front().adapter->load(model);
  std::vector<std::set<std::string>> of_adapters;
  for (const auto& [adapter, weight] : adapters) {
    const std::vector<std::string> names = adapter->matrices();
    of_adapters.emplace_back(names.begin(), names.end());
    for (const std::string& name : names)
      if (std::ranges::find(model.matrices(), name, &Matrix::name) == model.matrices().end())
        throw Error(ErrorKind::kInvalidArgument, "is no matrix of the model",
                    fmt::format("{}: {}", adapter->directory().string(), name), "The adapter is of another model.");
  }
  for (const Matrix& matrix : model.matrices()) {
    if (!matrix.has_adapter()) continue;
    std::vector<const WeightedAdapter*> own;
    for (size_t i = 0; i < adapters.size(); ++i)
      if (of_adapters[i].contains(matrix.name)) own.push_back(&adapters[i]);
    combine(matrix, own, combination);
  }
}

}  // namespace causeway::train
