// What a program's kernels take of a multiprocessor and what the static checks say of their machine code, function by
// function.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/program.h"

namespace causeway::program {

struct FunctionResources {
  size_t source = 0;  // index into Program::sources()
  std::string kind;   // "loop", "dot", ...
  std::string function;
  int launches = 0;  // in one run of the program
  int threads = 0;   // of a block
  // Shared memory a launch asks for, beyond the function's own.
  int dynamic_shared_bytes = 0;
  // As kernel_resources() gives them: nothing where it knows nothing.
  std::optional<KernelResources> resources;
  // As check_code() gives it: nothing where there is no check.
  std::optional<FunctionCheck> code;

  int shared_bytes() const { return dynamic_shared_bytes + (resources ? resources->shared_bytes : 0); }
};

// One entry for each function of each distinct kernel, in the order of sources() and, within one, of launches.
// `library` is of the device the program was made for, which must be a GPU (Target::is_gpu). Throws as
// kernel_resources() and check_code() do.
std::vector<FunctionResources> program_resources(const Program& program, KernelLibrary& library);

// Of functions whose code was checked.
struct CodeCheckTotals {
  int functions = 0, functions_with_barriers = 0, waits = 0, findings = 0;
  int64_t instructions = 0;
};
CodeCheckTotals code_check_totals(const std::vector<FunctionResources>& functions);

}  // namespace causeway::program
