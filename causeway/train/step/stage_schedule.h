// In which order a stage of a pipeline works through micro-batches: lists, one a stage, which its step is traced by.
//
//   1f1b         one forward, one backward (PipeDream-Flush: Narayanan et al., arXiv 2006.09503)
//   interleaved  the same with several pieces of the model on each stage (Narayanan et al., 2104.04473)
//   zero_bubble  the gradients of weights fill what stages would wait (ZB-H1: Qi et al., 2401.10241)
//
// Where a forward pass takes as long as each half of a backward pass, a stage of p waits in a step of m micro-batches
// for 3 (p - 1) such times, for 3 (p - 1) / v with v pieces, for p - 1.
#pragma once

#include <cstdint>
#include <vector>

#include "causeway/namespaces.h"
#include "causeway/train/recipe/choices.h"

namespace causeway::train {

enum class StageWork {
  kReceiveStream,
  kForward,
  kSendStream,
  kReceiveGradient,
  kBackward,        // both of the next two
  kInputGradient,   // what the stage before waits for
  kWeightGradient,  // later than the input gradient of the same micro-batch
  kSendGradient,
};

struct StageAction {
  StageWork work = StageWork::kForward;
  int64_t piece = 0;  // of the model: piece p is on stage p % stages
  int64_t micro_batch = 0;
  bool operator==(const StageAction&) const = default;
};

struct PipelineShape {
  int64_t stages = 1;
  int64_t chunks = 1;  // pieces of each stage: several with kInterleaved, whose micro-batches the stages divide
  int64_t micro_batches = 1;
};

// What `stage` does in a step. Messages between two stages are sent and received in the same order. A forward's
// activations are kept until the weight gradient of that micro-batch: with one piece a stage, of at most `stages`
// micro-batches, and with kOneForwardOneBackward of at most stages - stage.
std::vector<StageAction> stage_schedule(PipelineSchedule schedule, const PipelineShape& shape, int64_t stage);

// A stage by how many there are before it and after it.
struct StagePlace {
  int64_t before = 0, after = 0;
  bool operator==(const StagePlace&) const = default;
};

// The schedule of a stage at this place, of as many stages as that makes; pieces are numbered as those of `stage` of
// shape.stages. It is that of a pipeline which may be shorter: what a stage of a long one does is continued from it
// (plan/pipeline_plan.h).
std::vector<StageAction> stage_schedule_at(PipelineSchedule schedule, const PipelineShape& shape, int64_t stage,
                                           const StagePlace& place);

// The share of its time that a stage waits, where every forward pass, input gradient and weight gradient of a piece
// takes the same time and messages take none.
double bubble_share(PipelineSchedule schedule, const PipelineShape& shape);

}  // namespace causeway::train
