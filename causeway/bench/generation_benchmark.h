// Tokens one after another, of several sequences side by side, by a model with random weights: what `causeway generate`
// does between two tokens, its host's part included.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "causeway/bench/clock_probe.h"
#include "causeway/bench/result.h"
#include "causeway/device/device.h"
#include "causeway/device/device_peaks.h"

namespace causeway::bench {

struct GenerationCase {
  std::string group;   // "GPT 1.5B"
  std::string recipe;  // a shipped one: "gpt2_1.5b"
  std::string precision = "bf16";
  int64_t sequences = 1;
  int64_t length = 128;  // tokens of each that are there before the first one that is timed
};

// What to measure; what is left empty is as standard: GPT-2 124M, on a GPU GPT 1.5B too, of 1 and 16 sequences.
struct GenerationChoice {
  std::vector<std::string> models;      // recipes of `causeway bench train`
  std::vector<std::string> precisions;  // "bf16", "f32"; as standard: bf16 on a GPU, f32 on a processor
  std::vector<int64_t> sequences;
  std::optional<int64_t> length;
};
// Throws Error(kInvalidArgument) with the nearest for a name that is none, and for numbers under 1.
std::vector<GenerationCase> choose_generation_cases(const GenerationChoice& choice, const Device& device);

struct GenerationOptions {
  int tokens = 100;             // of each sequence that are timed
  ClockProbe* clock = nullptr;  // reads the clock before and after each round
};

// One sample is one token of every sequence: the forward pass and the likeliest token of each, on the host.
// Details say how many bytes it has to read at least, weights in the type of GEMMs and what is cached, and the share
// of the memory's bandwidth that this comes to. Nothing, with a sentence in `skipped`, when memory cannot hold it, or
// the model's longest sequence is shorter than what is asked for. The device is the runtime's.
std::optional<Measurement> run_generation(Device& device, const GenerationCase& one, const GenerationOptions& options,
                                          const std::optional<DevicePeak>& peak, std::vector<std::string>& skipped);

}  // namespace causeway::bench
