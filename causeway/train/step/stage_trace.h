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
  Tensor targets;  // i32 [rows, sequence_length]
  // f32, of the same shape: target_weight where there is a target, times what that weighs, and 0 elsewhere.
  Tensor token_weights;
  Tensor target_weight;  // f32 []
  // What else the objective reads, in the order of Objective::numbers(): f32 [rows] or [rows, sequence_length].
  std::vector<Tensor> numbers = {};
};

struct StageResults {
  // f32 [], sums over micro-batches; 0 on stages without the head. The z-loss is undefined where there is none.
  Tensor loss, z_loss;
  std::vector<Tensor> gradients;  // of the trained parameters that this stage holds, summed up
};

// Traces `schedule` for a part of a model. `z_loss`: the coefficient of what is minimized beside the loss. Gradients
// lie as their parameters do. In every micro-batch [rows, sequence_length] is the same.
StageResults trace_stage(const LanguageModel& model, std::span<const StageAction> schedule,
                         std::span<const MicroBatch> micro_batches, double z_loss);

}  // namespace causeway::train
