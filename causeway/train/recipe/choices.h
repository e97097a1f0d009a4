// What a recipe's keys choose among, with the names that they have there. Others stand with what they are for:
// ScheduleKind (schedule.h), Packing (causeway/data/packing.h), RecomputePolicy (causeway/passes/recompute.h).
#pragma once

#include "causeway/base/named_values.h"
#include "causeway/namespaces.h"

namespace causeway::train {

// Of GEMMs: weights and the optimizer are always f32.
enum class Precision { kBf16, kFp8, kFp8Block, kTf32, kF32 };
constexpr auto named_values(Precision) {
  return std::to_array<NamedValue<Precision>>({{Precision::kBf16, "bf16"},
                                               {Precision::kFp8, "fp8"},
                                               {Precision::kFp8Block, "fp8_block"},
                                               {Precision::kTf32, "tf32"},
                                               {Precision::kF32, "f32"}});
}

// What gradients of matrices are kept as until the optimizer's turn.
enum class GradientType { kAuto, kF32 };
constexpr auto named_values(GradientType) {
  return std::to_array<NamedValue<GradientType>>({{GradientType::kAuto, "auto"}, {GradientType::kF32, "f32"}});
}

// In which order stages work through micro-batches (causeway/train/step/stage_schedule.h).
enum class PipelineSchedule { kOneForwardOneBackward, kInterleaved, kZeroBubble };
constexpr auto named_values(PipelineSchedule) {
  return std::to_array<NamedValue<PipelineSchedule>>({{PipelineSchedule::kOneForwardOneBackward, "1f1b"},
                                                      {PipelineSchedule::kInterleaved, "interleaved"},
                                                      {PipelineSchedule::kZeroBubble, "zero_bubble"}});
}

// What a run does about something that is wrong: it ends, or leaves that out.
enum class FaultPolicy { kStop, kSkip };
constexpr auto named_values(FaultPolicy) {
  return std::to_array<NamedValue<FaultPolicy>>({{FaultPolicy::kStop, "stop"}, {FaultPolicy::kSkip, "skip"}});
}

}  // namespace causeway::train
