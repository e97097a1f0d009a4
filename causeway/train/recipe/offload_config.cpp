#include "causeway/train/recipe/offload_config.h"

#include "causeway/base/error.h"
#include "causeway/optimizer/optimizer.h"
#include "causeway/train/recipe/recipe.h"
#include "causeway/train/recipe/recipe_field.h"

namespace causeway::train {
namespace {

constexpr char kOffloadOptimizer[] = "offload.optimizer", kOffloadActivations[] = "offload.activations";

void refuse_offload(bool is_there, const char* key, const std::string& what, const std::string& hint) {
  if (is_there) throw Error(ErrorKind::kUnsupported, what, key, hint);
}

}  // namespace

std::vector<Field> offload_fields(OffloadConfig& config) {
  return {choice(kOffloadOptimizer, config.optimizer,
                 "true, false or auto: the optimizer's state lies in the host's memory, and comes and goes while it "
                 "is updated; auto: where the device's memory asks for it"),
          choice(kOffloadActivations, config.activations,
                 "true, false or auto: activations that the backward pass reads lie in the host's memory meanwhile; "
                 "auto: where that takes less time than computing them again")};
}

void check_offload(const Recipe& r) {
  const bool has_stages = r.mesh.pp > 1;
  const char* const stages = "with stages (mesh.pp) all stays on the device: this is not implemented";
  const char* const hint = "Leave it out, or cut over mesh.fsdp, mesh.dp or mesh.tp.";
  refuse_offload(has_stages && r.offload.optimizer != Offload::kFalse, kOffloadOptimizer, stages, hint);
  refuse_offload(has_stages && r.offload.activations != Offload::kFalse, kOffloadActivations, stages, hint);
  const bool is_read_early = find_optimizer(r.optimizer.name).has_gradient_point(r.optimizer);
  refuse_offload(is_read_early && r.offload.optimizer != Offload::kFalse, kOffloadOptimizer,
                 fmt::format("the forward pass reads the state of {}: on the host this is not implemented",
                             r.optimizer.average_decay > 0 ? "an average of weights (optimizer.average_decay)"
                                                           : "optimizer.name=" + r.optimizer.name),
                 "Leave it out, or choose another optimizer.");
}

}  // namespace causeway::train
