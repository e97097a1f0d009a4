// Model FLOPs utilization (MFU): the FLOPs that a step's model asks for, counted in its graph, over what the device
// could have done in the same time by its maker's datasheet, dense. Recomputation, norms, softmax and the optimizer
// count for nothing. Where a step multiplies operands of several types, each type's FLOPs are set against its own peak.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "causeway/device/target.h"
#include "causeway/passes/count_flops.h"
#include "causeway/train/log/append_log.h"
#include "causeway/train/step/training_step.h"

namespace causeway::train {

// One step, and what takes it.
struct StepFlops {
  FlopCount flops = {};
  std::map<std::string, double> operand_shares = {};  // as TrainingStep::operand_shares() gives them
  Target target;
  std::string product;  // what the maker calls the device: product_name()
  int64_t devices = 1;  // such devices share the step
};

// Of a model: all, and those that a token meets, which are fewer where there are experts.
struct ParameterCounts {
  int64_t all = 0;
  int64_t active = all;
};
ParameterCounts parameter_counts(const ModelConfig& config);

class FlopsUtilization {
 public:
  // What cannot be is told to `warn`.
  explicit FlopsUtilization(StepFlops step, WarningSink warn = warn_in_log);

  // A fraction of the peak, of a step of that many seconds; at_most() says whether it is an upper bound. Nothing where
  // the peak is not known, and nothing above 1: that cannot be, which is told once.
  std::optional<double> of(double step_seconds);
  // Data decides how much attention there is: the FLOPs are the most there can be.
  bool at_most() const { return flops_.at_most; }

  // TFLOP/s; absent where a type that the step multiplies has none on record, and why_absent() then says so.
  std::optional<double> peak_tflops() const { return peak_tflops_; }
  const std::string& why_absent() const { return why_absent_; }

  // Lines without a newline: formula, FLOPs, parameters, density and peak; or why there is no figure.
  std::vector<std::string> explanation(ParameterCounts parameters, double tokens_per_step) const;

  // The same for the metrics: formula, FLOPs of a step, parameters and the active ones, density, peak and its source.
  nlohmann::ordered_json basis(ParameterCounts parameters) const;
  // What a record calls the figure: "mfu", or "mfu_at_most".
  std::string key() const { return at_most() ? "mfu_at_most" : "mfu"; }

  static constexpr const char* kFormula =
      "FLOP of a step / (seconds of a step x peak); FLOP: 2 for each multiply-add of GEMMs and of attended "
      "pairs, forward and backward, recomputation left out";

 private:
  FlopCount flops_;
  std::optional<double> peak_tflops_;
  std::string peak_text_;
  std::string why_absent_;
  WarningSink warn_;
  int64_t devices_;
  bool warned_ = false;
};

// Of the device that the step runs on.
FlopsUtilization make_flops_utilization(TrainingStep& step, WarningSink warn = warn_in_log);

}  // namespace causeway::train
