// Training steps that others have published, and what the time model says of them: benchmarks/training_points.yaml.
#pragma once

#include <string>
#include <vector>

#include "causeway/plan/step_work.h"

namespace causeway::plan {

struct PublishedPoint {
  std::string machine;
  std::string name;  // "mpt_7b 2048 x 6 x 1, fsdp 8"
  std::string source;
  StepWork step;
  double seconds = 0;     // published, of a step
  bool held_out = false;  // constants are not fitted to it: every second of a machine's
};

// In the order of the file, on nodes of that many devices. Throws Error(kInvalidArgument) with the file and the line.
std::vector<PublishedPoint> parse_published_points(const std::string& yaml, const std::string& where,
                                                   int64_t devices_per_node = 8);
const std::vector<PublishedPoint>& shipped_published_points();

// Predicted over published, less 1.
double relative_error(const PublishedPoint& point, const Machine& machine);

struct ErrorSummary {
  int points = 0;
  double mean = 0;  // of absolute relative errors
  double maximum = 0;
  double median = 0;
};
ErrorSummary summarize_errors(std::vector<double> errors);

// The machine with constants fitted to these points, from the defaults of MachineConstants: a pattern search over their
// logarithms for the least sum of errors, which deviations from the beginning add to a little, so that a constant on
// which nothing depends stays. Deterministic, and independent of the constants that the machine comes with.
Machine fit_constants(const Machine& machine, const std::vector<PublishedPoint>& points);

}  // namespace causeway::plan
