#include "causeway/model/model_part.h"

#include <algorithm>
#include <limits>

#include "causeway/base/error.h"

namespace causeway::model {
namespace {

int64_t layers_of_last(int64_t layers, int64_t pieces, double output_in_layers) {
  if (pieces == 1) return layers;
  int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t last = layers / pieces; last >= 1; --last) {
    const int64_t longest_other = (layers - last + pieces - 2) / (pieces - 1);
    const double longest = std::max(static_cast<double>(last) + output_in_layers, static_cast<double>(longest_other));
    if (longest >= least) continue;
    best = last;
    least = longest;
  }
  return best;
}

}  // namespace

ModelPart::ModelPart(int64_t layers) : layers_(layers), last_piece_layers_(layers) {}

ModelPart::ModelPart(int64_t layers, int64_t stages, int64_t chunks, int64_t stage, double output_in_layers)
    : layers_(layers),
      last_piece_layers_(layers_of_last(layers, stages * chunks, output_in_layers)),
      stages_(stages),
      chunks_(chunks),
      stage_(stage) {
  CAUSEWAY_CHECK(stages >= 1 && chunks >= 1 && stages * chunks <= layers && stage >= 0 && stage < stages,
                 "stage {} of {} with {} pieces each, of {} layers", stage, stages, chunks, layers);
}

std::vector<int64_t> ModelPart::held() const {
  std::vector<int64_t> held;
  for (int64_t piece = stage_; piece < pieces(); piece += stages_) held.push_back(piece);
  return held;
}

int64_t ModelPart::first_layer(int64_t piece) const {
  if (piece == pieces()) return layers_;
  const int64_t others = std::max<int64_t>(1, pieces() - 1);
  return (piece * (layers_ - last_piece_layers_) + others - 1) / others;
}

}  // namespace causeway::model
