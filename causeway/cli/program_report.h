// `causeway explain`: a program's kernels, and the times of them.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "causeway/device/device.h"
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

// What one kernel's launches do together.
struct KernelTotal {
  std::string name;  // "kernel 12", "exchange"
  std::string kind;
  std::string members;  // of one of them
  int launches = 0;
  double seconds = 0;
  double bytes = 0;          // read and written, each tensor once a launch
  double flops = 0;          // of GEMMs and attention
  double floor_seconds = 0;  // what the bytes take to copy, or the GEMMs at the datasheet's peak; 0: not known
};

struct KernelTimes {
  std::vector<KernelTotal> kernels;  // those that take the most time first
  double copy_bytes_per_second = 0;  // what a copy on the device reads and writes; 0: there was no memory for one
};

// Times copies on the program's device, too. `sizes`: what the program's symbols were.
KernelTimes kernel_times(const Program& program, Device& device, const std::vector<double>& seconds,
                         const SymbolBindings& sizes = {});

// `what` was run: "one step".
void print_kernel_times(const KernelTimes& times, const std::string& what);
nlohmann::ordered_json kernel_times_json(const KernelTimes& times);

}  // namespace causeway::cli
