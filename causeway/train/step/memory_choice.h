// What a step does to fit its device's memory: what it computes again, and what it keeps in the host's memory. As the
// recipe says, or where that is auto by what it takes in time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "causeway/device/target.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/step/recomputation.h"

namespace causeway::train {

struct MemoryChoice {
  Recomputation recompute;
  bool offloads_optimizer = false;
  bool offloads_activations = false;
  bool operator==(const MemoryChoice&) const = default;
};

// Of the recipe's keys; of auto nothing. On a device that shares the host's memory nothing is moved.
MemoryChoice memory_choice_of(const Recipe& recipe, const Target& target);
// Whether a key is auto and the device one on which it makes a difference.
bool has_memory_choice(const Recipe& recipe, const Target& target);
// The recipe with these choices in place of its own.
Recipe with_memory_choice(const Recipe& recipe, const MemoryChoice& choice);

// What a step takes with a choice, bytes of a rank.
struct MemoryNeed {
  int64_t device = 0;
  int64_t host_activations = 0;  // that go to the host and come back, of a micro-batch
};

// What choices cost in time, in bytes that the link to the host carries meanwhile.
struct MemoryPrices {
  double forward_bytes = 0;  // while the forward passes of a step are computed
  int64_t state_bytes = 0;   // the optimizer's state, of a rank
};
MemoryPrices memory_prices(const Recipe& recipe, const Target& target, int64_t state_bytes);

// Of the choices that the recipe leaves open, with which a step takes at most `limit` bytes of the device, the one that
// adds least to a step's time, and of equals the first of: everything stays on the device, the optimizer's state goes,
// activations go, both go. With each, as little is computed again as fits (choose_recomputation()); where activations
// go, all layers are tried too, which move the least. Where nothing fits, what takes least of the device.
//
// Added time, in bytes of the link (MemoryPrices): state moves in and out at once, beside nothing; activations go
// beside the forward pass and come beside the backward pass, which takes twice as long, and cost what is left over;
// layers that are computed again cost their share of the forward pass, elementwise chains a twentieth of it. `need_of`
// is asked for a handful, once each.
MemoryChoice choose_memory(const Recipe& recipe, const Target& target, const MemoryPrices& prices, int64_t limit,
                           const std::function<MemoryNeed(const MemoryChoice&)>& need_of);

// "the optimizer's state and activations lie in the host's memory"; empty where nothing does.
std::string offload_text(const MemoryChoice& choice);

}  // namespace causeway::train
