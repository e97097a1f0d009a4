// A step in parts that a machine's constants can be tried on again and again.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/plan/time_model.h"
#include "causeway/plan/work.h"

namespace causeway::plan {

// Work of a model with a few layers and with one more: each further layer costs what that one does, so that their
// number costs nothing.
struct LayeredWork {
  std::vector<Work> few, one_more;
  double further_layers = 0;  // beyond the few; where 0, one_more is not looked at
};

struct StepWork {
  LayeredWork micro_batch;          // of the last stage of a pipeline, or of the only one
  std::vector<LayeredWork> others;  // one that stands for the other stages; none without a pipeline
  LayeredWork once;                 // after the last micro-batch
  std::vector<Work> neighbours;     // what a stage waits for from its neighbours for one micro-batch
  double micro_batches = 1;
  double stages = 1;
  double bubble = 0;  // micro-batches for which a stage waits
  int64_t devices = 1;
};

StepTime predict(const LayeredWork& work, const Machine& machine);
// micro-batches * (slowest stage) + bubble * (mean stage) + once, and what ranks waiting for the slowest add.
StepTime predict(const StepWork& step, const Machine& machine);

}  // namespace causeway::plan
