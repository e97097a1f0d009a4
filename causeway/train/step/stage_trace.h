// A pipeline stage's share of a step, as it is traced: all micro-batches, in the order of the stage's schedule, with
// what it sends and receives.
#pragma once

#include <span>
#include <vector>

#include "causeway/model/language_model.h"
#include "causeway/train/step/stage_schedule.h"

namespace causeway::train {

struct MicroBatch {
  ForwardInputs inputs;
  Tensor targets;        // i32 [rows, sequence_length]
  // f32, of the same shape: target_weight where there is a target, times what that weighs, and 0 elsewhere.
  Tensor token_weights;
  Tensor target_weight;  // f32 []
  // f32 [rows], or undefined: log p of each row's targets by the model that preference pairs are compared with.
  Tensor reference = {};
};

struct StageResults {
  Tensor loss;                    // f32 [], the sum over micro-batches; 0 on stages without the head
  std::vector<Tensor> gradients;  // of the trained parameters that this stage holds, summed up
};

// Traces `schedule` for a part of a model. Gradients lie as their parameters do. In every micro-batch
// [rows, sequence_length] is the same.
StageResults trace_stage(const LanguageModel& model, std::span<const StageAction> schedule,
                         std::span<const MicroBatch> micro_batches);

}  // namespace causeway::train
