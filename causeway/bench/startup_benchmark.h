// From the start of a process to its first finished training step, with an empty kernel cache and with a full one: what
// a user waits for before anything happens.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "causeway/bench/result.h"

namespace causeway {

struct StartupOptions {
  std::filesystem::path program;  // that is started
  std::string device = "auto";
  int cold_samples = 3;
  int warm_samples = 5;
  double limit_seconds = 120;  // for one start
};

// Starts `causeway train` on a small Llama and random text, in a temporary directory with a kernel cache of its own,
// and watches for the first line of metrics that has a loss. Two measurements, in seconds: "first step, cold" and
// "first step, warm". Throws Error with the last of what the program said when it ends without a step.
std::vector<Measurement> run_startup(const StartupOptions& options);

}  // namespace causeway
