#include "causeway/generate/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/graph/philox.h"

namespace causeway::generate {
namespace {

struct Candidate {
  double weight;  // exp((logit - the largest) / temperature)
  int32_t token;
};

// Of equal ones the first token.
bool less_likely(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight < b.weight : a.token > b.token;
}

std::vector<float> penalized(std::span<const float> logits, std::span<const int32_t> before, double penalty) {
  std::vector<float> result(logits.begin(), logits.end());
  for (const int32_t token : std::set<int32_t>(before.begin(), before.end())) {
    if (static_cast<size_t>(token) >= result.size()) continue;
    float& logit = result[static_cast<size_t>(token)];
    logit = static_cast<float>(logit > 0 ? logit / penalty : logit * penalty);
  }
  return result;
}

// Those that top_k and top_p leave, the likeliest first. Most of a vocabulary is never put in order.
std::vector<Candidate> likeliest(std::vector<Candidate> all, const SamplingOptions& options) {
  const auto most = static_cast<size_t>(options.top_k);
  const bool limited = most > 0 && most < all.size();
  double total = 0;
  if (!limited)
    for (const Candidate& candidate : all) total += candidate.weight;
  std::vector<Candidate> chosen;
  std::make_heap(all.begin(), all.end(), less_likely);
  double reached = 0;
  while (!all.empty() && (limited ? chosen.size() < most : chosen.empty() || reached < options.top_p * total)) {
    std::pop_heap(all.begin(), all.end(), less_likely);
    chosen.push_back(all.back());
    all.pop_back();
    reached += chosen.back().weight;
  }
  if (!limited) return chosen;
  // What top_p is a share of is known now.
  double kept = 0;
  size_t count = 0;
  while (count < chosen.size() && (count == 0 || kept < options.top_p * reached)) kept += chosen[count++].weight;
  chosen.resize(count);
  return chosen;
}

void require(bool condition, const char* option, double value, const char* range) {
  if (!condition) throw Error(ErrorKind::kInvalidArgument, fmt::format("{} is not {}", value, range), option);
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  require(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty), "repetition_penalty",
          options.repetition_penalty, "above 0");
  require(options.temperature >= 0 && std::isfinite(options.temperature), "temperature", options.temperature,
          "at least 0");
  require(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "above 0 and at most 1");
  require(options.min_p >= 0 && options.min_p <= 1, "min_p", options.min_p, "between 0 and 1");
}

double uniform_of_token(uint64_t seed, uint64_t place, uint64_t token) {
  const uint32_t bits = philox_4x32_10(
      {static_cast<uint32_t>(token), static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[0];
  return (bits + 0.5) / 4294967296.0;
}

int32_t draw_token(std::span<const float> logits, std::span<const int32_t> before, const SamplingOptions& options,
                   double uniform) {
  std::vector<float> changed;
  if (options.repetition_penalty != 1) logits = changed = penalized(logits, before, options.repetition_penalty);
  const auto best = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return static_cast<int32_t>(best - logits.begin());
  std::vector<Candidate> candidates(logits.size());
  for (size_t i = 0; i < candidates.size(); ++i)
    candidates[i] = {std::exp((static_cast<double>(logits[i]) - *best) / options.temperature), static_cast<int32_t>(i)};
  if (options.top_k > 0 || options.top_p < 1) candidates = likeliest(std::move(candidates), options);
  if (options.min_p > 0) std::erase_if(candidates, [&](const Candidate& each) { return each.weight < options.min_p; });
  double total = 0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  double left = uniform * total;
  for (const Candidate& candidate : candidates) {
    left -= candidate.weight;
    if (left < 0) return candidate.token;
  }
  return candidates.back().token;
}

}  // namespace causeway::generate
