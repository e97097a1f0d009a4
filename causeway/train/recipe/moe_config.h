// moe.*: what is minimized beside the loss so that the experts of a model are used evenly (docs/experts.md).
#pragma once

#include <vector>

#include "causeway/namespaces.h"

namespace causeway::train {

struct Recipe;
struct Field;

struct MoeConfig {
  double balance_loss = 0;   // times Switch's load-balancing loss of a micro-batch; 0: nothing
  double router_z_loss = 0;  // times the mean of log(sum(exp(router logits)))^2; 0: nothing

  bool is_used() const { return balance_loss > 0 || router_z_loss > 0; }
};

std::vector<Field> moe_fields(MoeConfig& config);

// Throws Error(kInvalidArgument, kUnsupported) naming the key: what a model with experts, or these keys, do not go
// together with.
void check_moe(const Recipe& recipe);
// Throws Error(kInvalidArgument) for these keys where the model has no experts.
void refuse_moe_without_effect(const Recipe& recipe);

// Whether figures of routers are taken in training: of a language model with experts that has no stages.
bool takes_router_figures(const Recipe& recipe);

}  // namespace causeway::train
