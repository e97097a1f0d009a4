#include "causeway/train/step/trained_stages.h"

#include <algorithm>
#include <memory>

#include "causeway/base/error.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/model/language_model.h"
#include "causeway/program/context.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

void require_trained_first_piece(const Recipe& recipe) {
  if (recipe.mesh.pp == 1) return;
  const ContextScope scope(std::make_shared<Context>(std::make_shared<OfflineDevice>(Target())));
  const NewWeights weights = new_weights(recipe);
  if (!weights.is_trained) return;
  const auto model = LanguageModel::create(recipe.model, part_of_stage(recipe, 0), weights);
  if (std::ranges::any_of(model->parameters(), [](const Parameter& one) { return one.is_trained && one.piece == 0; }))
    return;
  throw Error(
      ErrorKind::kUnsupported,
      fmt::format("nothing is trained of what the first stage begins with, the embedding and the layers before layer "
                  "{}: such a pipeline is not implemented",
                  model->part().first_layer(1)),
      "mesh.pp", "Set mesh.pp to 1, or train something of the first layers.");
}

}  // namespace causeway::train
