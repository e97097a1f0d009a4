// `causeway explain`: a program's kernels, and the times of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "causeway/device/target.h"
#include "causeway/program/program.h"

namespace causeway::cli {

// What is printed beside how many launches of which kinds there are.
struct ProgramDetail {
  bool program = false;   // every launch
  bool kernels = false;   // the kernels' C++ text
  bool assembly = false;  // their assembly
};
void print_program(const Program& program, const Target& target, const ProgramDetail& detail);

// Of each kernel over a few runs, of which the first, which touches memory for the first time, does not count. `run`
// returns the seconds of each.
std::vector<double> median_kernel_seconds(const std::function<std::vector<double>()>& run);

// `what` was run: "one step".
void print_kernel_times(const Program& program, const std::vector<double>& seconds, const std::string& what);

}  // namespace causeway::cli
