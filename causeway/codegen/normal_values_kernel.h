// The kernel that makes normal numbers (kernels/normal_values.h), which no graph has an op for: they are made where a
// tensor's part lies.
#pragma once

#include <cstdint>
#include <string>

#include "causeway/device/target.h"
#include "causeway/kernels/normal_values_layout.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

inline constexpr char kNormalValuesFunction[] = "fill_normal";

// A kernel of one buffer whose sizes are those of NormalValuesTask.
std::string normal_values_source(const Target& target);

// How many tasks a launch has, on a GPU of kNormalThreads threads.
int64_t normal_values_tasks(const NormalValuesTask& task, const Target& target);

}  // namespace causeway::codegen
