// What a run says of itself before its first step.
#pragma once

#include "causeway/train/checkpoint/run_saver.h"
#include "causeway/train/observation/run_observer.h"
#include "causeway/train/step/flops_utilization.h"
#include "causeway/train/training_run.h"

namespace causeway::train {

// Prints parameters, tokens and FLOPs; the device; memory; how MFU is counted, or why it is not; when checkpoints are
// written; after a resume where it goes on from and every key that differs from the checkpoint's recipe; what the mesh
// leaves uncut; the data; and what is watched while the run goes.
void announce_run(const TrainingRun& run, const FlopsUtilization& utilization, const RunSaver& saver,
                  const RunObserver& observer);

}  // namespace causeway::train
