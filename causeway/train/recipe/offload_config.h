// offload.*: what of a step is kept in the host's memory, and comes to the device and goes while it computes
// (docs/memory.md).
#pragma once

#include <vector>

#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"

namespace causeway::train {

struct Recipe;
struct Field;

// kAuto: where the device has no memory for it, or computing again would take longer.
enum class Offload { kFalse, kTrue, kAuto };
constexpr auto named_values(Offload) {
  return std::to_array<NamedValue<Offload>>(
      {{Offload::kFalse, "false"}, {Offload::kTrue, "true"}, {Offload::kAuto, "auto"}});
}

struct OffloadConfig {
  Offload optimizer = Offload::kFalse;    // its state
  Offload activations = Offload::kFalse;  // those that the backward pass reads, and that are not computed again

  bool is_used() const { return optimizer != Offload::kFalse || activations != Offload::kFalse; }
};

std::vector<Field> offload_fields(OffloadConfig& config);

// Throws Error(kUnsupported) naming the key: what does not go together yet.
void check_offload(const Recipe& recipe);

}  // namespace causeway::train
