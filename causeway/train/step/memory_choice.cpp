#include "causeway/train/step/memory_choice.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "causeway/model/experts.h"

namespace causeway::train {
namespace {

constexpr double kShareOfChains = 0.05;
// Copies beside kernels take some of the memory's bandwidth from them.
constexpr double kShareOfCopies = 0.02;

double computed_again(const Recipe& recipe, const Recomputation& recomputation) {
  const double layers = recomputation.blocks == 0
                            ? 1
                            : static_cast<double>(recomputation.blocks) / static_cast<double>(recipe.model.layers);
  switch (recomputation.policy) {
    case RecomputePolicy::kNone:
      return 0;
    case RecomputePolicy::kSelective:
      return kShareOfChains * layers;
    case RecomputePolicy::kBlock:
      return layers + kShareOfChains * (1 - layers);
  }
  return 0;
}

double added_bytes(const Recipe& recipe, const MemoryChoice& choice, const MemoryPrices& prices,
                   const MemoryNeed& need) {
  const double again = computed_again(recipe, choice.recompute) * prices.forward_bytes;
  double added = again;
  if (choice.offloads_optimizer) added += static_cast<double>(prices.state_bytes);
  if (choice.offloads_activations) {
    const double moved = static_cast<double>(need.host_activations * recipe.micro_batches());
    added += std::max(0.0, moved - prices.forward_bytes) + std::max(0.0, moved - 2 * prices.forward_bytes - again) +
             kShareOfCopies * moved;
  }
  return added;
}

std::vector<bool> open_choices(Offload key, bool has_own_memory) {
  if (!has_own_memory || key == Offload::kFalse) return {false};
  return key == Offload::kTrue ? std::vector<bool>{true} : std::vector<bool>{false, true};
}

}  // namespace

MemoryChoice memory_choice_of(const Recipe& recipe, const Target& target) {
  const bool apart = target.has_own_memory();
  return {recomputation_of(recipe), apart && recipe.offload.optimizer == Offload::kTrue,
          apart && recipe.offload.activations == Offload::kTrue};
}

bool has_memory_choice(const Recipe& recipe, const Target& target) {
  const bool is_open = recipe.offload.optimizer == Offload::kAuto || recipe.offload.activations == Offload::kAuto;
  return !recipe.train.recompute || (is_open && target.has_own_memory());
}

Recipe with_memory_choice(const Recipe& recipe, const MemoryChoice& choice) {
  Recipe result = with_recomputation(recipe, choice.recompute);
  result.offload.optimizer = choice.offloads_optimizer ? Offload::kTrue : Offload::kFalse;
  result.offload.activations = choice.offloads_activations ? Offload::kTrue : Offload::kFalse;
  return result;
}

MemoryPrices memory_prices(const Recipe& recipe, const Target& target, int64_t state_bytes) {
  MemoryPrices prices{.forward_bytes = 0, .state_bytes = state_bytes};
  if (!target.has_own_memory()) return prices;
  const double tokens = static_cast<double>(recipe.train.batch_size * recipe.data.sequence_length);
  const double flops =
      2 * static_cast<double>(active_parameter_count(recipe.model)) * tokens / static_cast<double>(recipe.mesh.ranks());
  prices.forward_bytes = flops / target.usual_flops_per_second() * target.host_bytes_per_second();
  return prices;
}

MemoryChoice choose_memory(const Recipe& recipe, const Target& target, const MemoryPrices& prices, int64_t limit,
                           const std::function<MemoryNeed(const MemoryChoice&)>& need_of) {
  std::vector<std::pair<MemoryChoice, MemoryNeed>> known;
  const auto need = [&](const MemoryChoice& choice) -> const MemoryNeed& {
    const auto found = std::ranges::find(known, choice, &std::pair<MemoryChoice, MemoryNeed>::first);
    return found != known.end() ? found->second : known.emplace_back(choice, need_of(choice)).second;
  };
  std::optional<std::pair<double, MemoryChoice>> best;
  std::optional<std::pair<int64_t, MemoryChoice>> smallest;
  const auto weigh = [&](const MemoryChoice& choice) {
    const MemoryNeed found = need(choice);
    if (!smallest || found.device < smallest->first) smallest = {found.device, choice};
    const double added = added_bytes(recipe, choice, prices, found);
    if (found.device <= limit && (!best || added < best->first)) best = {added, choice};
  };
  const bool apart = target.has_own_memory();
  for (const bool activations : open_choices(recipe.offload.activations, apart)) {
    for (const bool optimizer : open_choices(recipe.offload.optimizer, apart)) {
      MemoryChoice choice{recomputation_of(recipe), optimizer, activations};
      // Nothing that is left open could be cheaper.
      if (best && best->first <= (optimizer ? static_cast<double>(prices.state_bytes) : 0)) continue;
      if (!recipe.train.recompute) {
        choice.recompute = choose_recomputation(recipe, limit, [&](const Recomputation& recomputation) {
          return need({recomputation, optimizer, activations}).device;
        });
      }
      weigh(choice);
      if (!recipe.train.recompute && activations)
        weigh({Recomputation{RecomputePolicy::kBlock}, optimizer, activations});
    }
  }
  return best ? best->second : smallest->second;
}

std::string offload_text(const MemoryChoice& choice) {
  if (!choice.offloads_optimizer && !choice.offloads_activations) return "";
  if (!choice.offloads_activations) return "the optimizer's state lies in the host's memory";
  return choice.offloads_optimizer ? "the optimizer's state and activations lie in the host's memory"
                                   : "activations lie in the host's memory between forward and backward";
}

}  // namespace causeway::train
