// `causeway explain --resources`: what the kernels take of a GPU's multiprocessors, and what the
// static checks of their code find.
#pragma once

#include <nlohmann/json.hpp>

#include "causeway/program/kernel_library.h"
#include "causeway/program/program.h"

namespace causeway::cli {

// Prints a table of the program's kernels, or a sentence where the target has no such limits.
void print_resources(const Program& program, KernelLibrary& library);

// The same as JSON: "resources", a list (of NVIDIA's kernels without registers where ptxas is not installed), and
// "resources_note", the sentence, where there is one.
void add_resources(const Program& program, KernelLibrary& library, nlohmann::ordered_json& json);

}  // namespace causeway::cli
