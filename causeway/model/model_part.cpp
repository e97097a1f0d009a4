#include "causeway/model/model_part.h"

#include "causeway/base/error.h"

namespace causeway::model {

ModelPart::ModelPart(int64_t layers) : layers_(layers) {}

ModelPart::ModelPart(int64_t layers, int64_t stages, int64_t chunks, int64_t stage)
    : layers_(layers), stages_(stages), chunks_(chunks), stage_(stage) {
  CAUSEWAY_CHECK(stages >= 1 && chunks >= 1 && stages * chunks <= layers && stage >= 0 && stage < stages,
                 "stage {} of {} with {} pieces each, of {} layers", stage, stages, chunks, layers);
}

std::vector<int64_t> ModelPart::held() const {
  std::vector<int64_t> held;
  for (int64_t piece = stage_; piece < pieces(); piece += stages_) held.push_back(piece);
  return held;
}

int64_t ModelPart::first_layer(int64_t piece) const { return (piece * layers_ + pieces() - 1) / pieces(); }

}  // namespace causeway::model
