#include "causeway/train/recipe/moe_config.h"

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/model/experts.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/recipe/recipe_field.h"

namespace causeway::train {
namespace {

constexpr char kBalanceLoss[] = "moe.balance_loss", kRouterZLoss[] = "moe.router_z_loss";

void require_moe(bool condition, const std::string& key, const std::string& what, const std::string& hint = {},
                 ErrorKind kind = ErrorKind::kInvalidArgument) {
  if (!condition) throw Error(kind, what, key, hint);
}

// The first of the keys that is set.
const char* used_key(const MoeConfig& moe) { return moe.balance_loss > 0 ? kBalanceLoss : kRouterZLoss; }

}  // namespace

std::vector<Field> moe_fields(MoeConfig& config) {
  return {field(kBalanceLoss, config.balance_loss,
                "times Switch's load-balancing loss, of all layers and tokens of a micro-batch, is minimized beside "
                "the loss; 0: nothing"),
          field(kRouterZLoss, config.router_z_loss,
                "times the mean of log(Z)^2 over tokens and layers is minimized beside the loss, Z the sum of a "
                "router's exponentiated logits; 0: nothing")};
}

void check_moe(const Recipe& r) {
  require_moe(r.moe.balance_loss >= 0 && std::isfinite(r.moe.balance_loss), kBalanceLoss, "must not be negative",
              "0.01 is usual; 0 is none.");
  require_moe(r.moe.router_z_loss >= 0 && std::isfinite(r.moe.router_z_loss), kRouterZLoss, "must not be negative",
              "0.001 is usual; 0 is none.");
  const std::optional<ExpertShape> shape = expert_shape(r.model);
  if (!shape) return;
  const auto unsupported = [&](bool is_there, const std::string& key, const std::string& what,
                               const std::string& hint) {
    require_moe(!is_there, key, what, hint, ErrorKind::kUnsupported);
  };
  unsupported(r.train.precision == Precision::kFp8 || r.train.precision == Precision::kFp8Block, "train.precision",
              "GEMMs of experts are not yet in 8 bits", "Set train.precision=bf16.");
  unsupported(r.adapter.has_quantized_base(), "lora.base", "the weights of experts are not yet quantized",
              "Set lora.base=unquantized.");
  unsupported(r.model.score_head, "preference.loss", "reward models with experts are not yet trained",
              "Choose a family without experts.");
  unsupported(r.train.mesh_independent && r.mesh.row_groups() * r.mesh.cp > 1, "train.mesh_independent",
              "ranks with tokens of their own add up the gradients of experts in another order than one device",
              "Leave it out, or cut over mesh.tp or mesh.pp alone.");
  for (const auto& [key, width] :
       {std::pair{kExpertWidth, shape->width}, std::pair{kSharedExpertWidth, shape->shared_width}})
    require_moe(width % r.mesh.tp == 0, fmt::format("model.{}", key),
                fmt::format("{} is not divisible by mesh.tp = {}", width, r.mesh.tp));
  if (!r.moe.is_used()) return;
  const std::string key = used_key(r.moe);
  unsupported(r.mesh.pp > 1, key, "is a loss of all layers together, and stages (mesh.pp) do not yet exchange it",
              "Cut over mesh.fsdp, mesh.dp or mesh.tp, or leave it out.");
  unsupported(r.preference.is_used(), key,
              fmt::format("preference.loss={} has no such loss", name_of(r.preference.loss)), "Leave it out.");
  unsupported(r.grpo.is_used(), key, fmt::format("grpo.reward={} has no such loss", name_of(r.grpo.reward)),
              "Leave it out.");
}

void refuse_moe_without_effect(const Recipe& r) {
  require_moe(!r.moe.is_used() || expert_shape(r.model).has_value(), used_key(r.moe),
              fmt::format("has no effect on {}, which has no experts", r.model.family),
              "Delete the key, or choose a family with experts.");
}

bool takes_router_figures(const Recipe& r) {
  return expert_shape(r.model).has_value() && r.mesh.pp == 1 && !r.preference.is_used() && !r.grpo.is_used();
}

}  // namespace causeway::train
