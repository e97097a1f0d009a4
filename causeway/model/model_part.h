// Which part of a model a rank holds: all of it, or where a mesh has stages the runs of layers that are its stage's.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/graph/sharding.h"
#include "causeway/namespaces.h"

namespace causeway::model {

// The layers are cut into pieces of neighbouring ones. The embedding goes with the first piece, the last norm and the
// output layer with the last one, which has so many layers less that the longest piece, with it, is as short as can be;
// the others are as equal as can be, longer ones first.
class ModelPart {
 public:
  // All of it, in one piece.
  explicit ModelPart(int64_t layers);
  // What `stage` of `stages` holds, where each has `chunks` pieces: piece p is stage p % stages's. No more pieces than
  // layers. The output layer takes as long as `output_in_layers` layers; 0: all pieces are as equal as can be.
  ModelPart(int64_t layers, int64_t stages, int64_t chunks, int64_t stage, double output_in_layers = 0);

  int64_t pieces() const { return stages_ * chunks_; }
  int64_t stages() const { return stages_; }
  int64_t stage_of(int64_t piece) const { return piece % stages_; }
  // The pieces that are here, in order.
  std::vector<int64_t> held() const;
  bool is_whole() const { return stages_ == 1; }

  // The layers of a piece: [first_layer(p), first_layer(p + 1)).
  int64_t first_layer(int64_t piece) const;
  bool holds_piece(int64_t piece) const { return stage_of(piece) == stage_; }
  bool holds_embedding() const { return holds_piece(0); }
  bool holds_head() const { return holds_piece(pieces() - 1); }

  bool operator==(const ModelPart&) const = default;

 private:
  int64_t layers_;
  int64_t last_piece_layers_;
  int64_t stages_ = 1;
  int64_t chunks_ = 1;
  int64_t stage_ = 0;
};

}  // namespace causeway::model
