#include "causeway/train/step/recomputation.h"

#include <fmt/format.h>

#include <algorithm>

#include "causeway/passes/recompute.h"

namespace causeway::train {

Recomputation recomputation_of(const Recipe& recipe) {
  if (!recipe.train.recompute) return {};
  return {*recipe.train.recompute, recipe.train.recompute_layers};
}

Recipe with_recomputation(const Recipe& recipe, const Recomputation& recomputation) {
  Recipe result = recipe;
  result.train.recompute = recomputation.policy;
  result.train.recompute_layers = recomputation.blocks;
  return result;
}

Recomputation choose_recomputation(const Recipe& recipe, int64_t limit,
                                   const std::function<int64_t(const Recomputation&)>& bytes_of) {
  const Recomputation none, selective{RecomputePolicy::kSelective}, all{RecomputePolicy::kBlock};
  if (bytes_of(none) <= limit) return none;
  const int64_t of_chains = bytes_of(selective);
  if (of_chains <= limit) return selective;
  const int64_t of_blocks = bytes_of(all);
  if (of_blocks > limit || of_blocks >= of_chains || recipe.mesh.pp > 1) return all;
  // Each layer saves about the same.
  const auto share = static_cast<double>(of_chains - limit) / static_cast<double>(of_chains - of_blocks);
  const int64_t layers = recipe.model.layers;
  auto blocks = static_cast<int64_t>(share * static_cast<double>(layers)) + 1;
  for (; blocks < layers; blocks += std::max<int64_t>(1, layers / 16))
    if (bytes_of({RecomputePolicy::kBlock, blocks}) <= limit) return {RecomputePolicy::kBlock, blocks};
  return all;
}

std::string recomputation_text(const Recomputation& recomputation, const Recipe& recipe) {
  if (recomputation.blocks == 0) return std::string(recompute_policy_name(recomputation.policy));
  return fmt::format("{} of the first {} of {} layers{}", recompute_policy_name(recomputation.policy),
                     recomputation.blocks, recipe.model.layers,
                     recomputation.policy == RecomputePolicy::kBlock ? ", selective of the others" : "");
}

}  // namespace causeway::train
