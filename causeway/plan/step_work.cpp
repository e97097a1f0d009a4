#include "causeway/plan/step_work.h"

namespace causeway::plan {

StepTime predict(const LayeredWork& work, const Machine& machine) {
  const StepTime few = run_queues(work.few, machine);
  if (work.further_layers == 0) return few;
  const StepTime more = run_queues(work.one_more, machine);
  const auto at = [&](double StepTime::* member) {
    return few.*member + work.further_layers * (more.*member - few.*member);
  };
  return {at(&StepTime::seconds), at(&StepTime::compute_seconds), at(&StepTime::collective_seconds),
          at(&StepTime::host_seconds)};
}

StepTime predict(const StepWork& step, const Machine& machine) {
  const StepTime last = predict(step.micro_batch, machine), once = predict(step.once, machine);
  const double sending = run_queues(step.neighbours, machine).seconds;
  double mean = last.seconds;
  if (!step.others.empty())
    mean = (predict(step.others.front(), machine).seconds * (step.stages - 1) + last.seconds) / step.stages;
  StepTime time;
  time.seconds = step.micro_batches * (last.seconds + sending) + step.bubble * (mean + sending) + once.seconds;
  time.seconds *= straggle_factor(machine, step.devices);
  time.compute_seconds = step.micro_batches * last.compute_seconds + once.compute_seconds;
  time.collective_seconds = step.micro_batches * (last.collective_seconds + sending) + once.collective_seconds;
  time.host_seconds = step.micro_batches * last.host_seconds + once.host_seconds;
  return time;
}

}  // namespace causeway::plan
