// Training steps of whole models on random tokens: tokens per second, and what they come to under the published ways of
// counting FLOPs. On one device, or over a mesh of ranks that are processes of their own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "causeway/bench/clock_probe.h"
#include "causeway/bench/result.h"
#include "causeway/bench/telemetry/telemetry.h"
#include "causeway/device/device.h"
#include "causeway/device/device_peaks.h"
#include "causeway/model/config.h"
#include "causeway/model/language_model.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::bench {

struct TrainCase {
  std::string group;                   // "GPT 1.5B"
  std::string recipe;                  // a shipped one: "gpt2_1.5b"
  std::vector<std::string> overrides;  // of its keys
  int64_t micro_batch = 1;  // of each group of ranks with rows of its own, to begin with; halved until the step fits
  std::string precision = "bf16";
  bool exact_batch = false;  // that micro-batch or none
  Recipe::MeshSizes mesh = {};
};

// A shipped recipe, of random tokens, with other values of keys: "train.precision=f32".
Recipe shipped_benchmark_recipe(const std::string& name, std::vector<std::string> overrides);

// With the published micro-batches of an H200 (SemiAnalysis, November 2024) where there are any. On a processor the
// small ones. fp8 where the device multiplies 8-bit floats.
std::vector<TrainCase> standard_train_cases(const Device& device);

// What to measure of them; what is left empty is as standard.
struct TrainChoice {
  std::vector<std::string> models;      // recipes: "gpt2_1.5b"
  std::vector<std::string> precisions;  // "bf16", "fp8", "fp8_block", "tf32", "f32"
  std::optional<int64_t> micro_batch;   // exactly
  Recipe::MeshSizes mesh = {};
};

// Of texts as "fsdp=4"; without any, `dp` over all `processes`. Throws Error(kInvalidArgument) for an axis that is
// none, or that cuts a model into stages, and for a size under 1.
Recipe::MeshSizes parse_benchmark_mesh(const std::vector<std::string>& axes, int processes);
// Throws Error(kInvalidArgument) with the nearest for a model that is not among the standard cases, for a precision
// that is none, and for a micro-batch under 1. A precision that the device does not multiply in is left out, with a
// sentence in `skipped`.
std::vector<TrainCase> choose_train_cases(const TrainChoice& choice, const Device& device,
                                          std::vector<std::string>& skipped);

// Of one token, forward and backward, by name as in a measurement's details.
struct FlopConventions {
  // 6 N without input embeddings + 12 L H d S density: SemiAnalysis, with half of causal pairs. N counts the parameters
  // that a token meets: of experts, those it goes through.
  double causal = 0;
  double full = 0;  // the same with all pairs: torchtitan
};
FlopConventions flop_conventions(const ModelConfig& config, int64_t sequence_length, double density);

struct TrainOptions {
  int steps = 100;              // measured, of one micro-batch each
  double limit_seconds = 0;     // most time for them, at least ten; 0: none
  ClockProbe* clock = nullptr;  // reads the clock before and after each round
};

// `model` is the model of the case before, or null; it is taken over where its configuration is this case's, whatever
// its weights, and is this case's afterwards. Nothing, with a sentence in `skipped`, when the model does not fit even
// with one sequence. The device is the runtime's. Where the device tells its energy, details have "J per token" and "J
// per step", of the device alone, its idle moments between steps included.
//
// Over a mesh every rank of the current context calls it, with the same case and options; steps are timed by the first
// rank's device, rates are those of all ranks, details have "devices" and "mesh", TFLOP/s are those of one device, and
// the figure is wrong where gradients are not those of all ranks' rows (gradient_agreement.h) or ranks that hold the
// same part of a weight no longer hold the same bits.
std::optional<Measurement> run_train(Device& device, const TrainCase& train_case, const TrainOptions& options,
                                     const std::optional<DevicePeak>& peak, TelemetryReader& telemetry,
                                     std::unique_ptr<LanguageModel>& model, std::vector<std::string>& skipped);

// One line: TFLOP/s and MFU in both conventions, memory and energy.
std::string train_figures(const Measurement& measurement);

}  // namespace causeway::bench
