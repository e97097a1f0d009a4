// The machines that plans can be made for: benchmarks/machines.yaml.
#pragma once

#include <string>
#include <vector>

#include "causeway/plan/time_model.h"

namespace causeway::plan {

// Peaks come from causeway/device/device_peaks.h by the product's name. Throws Error(kInvalidArgument) with the file
// and the line.
std::vector<Machine> parse_machines(const std::string& yaml, const std::string& where);
const std::vector<Machine>& shipped_machines();

// Throws Error(kNotFound) with the nearest name and all there are.
const Machine& find_machine(const std::string& name);

}  // namespace causeway::plan
