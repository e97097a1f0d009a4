// From the start of a process to its first finished training step, with an empty kernel cache and with a full one: what
// a user waits for before anything happens; and what comes before that, building the program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "causeway/bench/result.h"
#include "causeway/device/device.h"

namespace causeway::bench {

struct StartupModel {
  std::string prefix;                  // of the workload: "GPT 1.5B, "; empty for the one that runs everywhere
  std::string description;             // "Llama, 4 layers of 256, 4 x 128 tokens"
  std::string recipe;                  // its YAML; data lie in "data", tokens are bytes
  std::vector<std::string> overrides;  // of its keys: "train.batch_size=4"
};

// A small Llama.
StartupModel small_startup_model();
// GPT 1.5B by its shipped recipe, with a micro-batch of 4.
StartupModel gpt_startup_model();
// The small one, and on a GPU with 48 GiB or more GPT 1.5B.
std::vector<StartupModel> standard_startup_models(const Device& device);

struct StartupOptions {
  std::filesystem::path program;  // that is started
  std::string device = "auto";
  int cold_samples = 3;
  int warm_samples = 5;
  double limit_seconds = 120;  // for one start
};

// Starts `causeway train` on the model and random text, in a temporary directory with a kernel cache of its own, and
// watches for the first line of metrics that has a loss. Two measurements, in seconds: "first step, cold" and
// "first step, warm". Throws Error with the last of what the program said when it ends without a step.
std::vector<Measurement> run_startup(const StartupOptions& options, const StartupModel& model = small_startup_model());

// "131 MiB, one file".
std::string program_size(const std::filesystem::path& program);

// Throws Error(kNotFound) where the directory has no sources to build.
void check_sources(const std::filesystem::path& sources);

// Builds the program from the sources of this repository in a new temporary directory, as `make build` does (cmake,
// ninja; all processors), without the help of a compiler cache, and measures that: one sample of "build from
// nothing", in seconds. Throws Error with the last of what was said when a command fails or is not there.
Measurement run_build(const std::filesystem::path& sources);

}  // namespace causeway::bench
