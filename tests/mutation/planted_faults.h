// Faults that tests plant into the text of kernels, to prove that tests find them.
//
// A fault is a change of one place in the kernel text: in a header under causeway/kernels/ or in what code generation
// writes. A test program that is given --planted_fault=NAME (test_main.cpp) compiles every kernel with it, through
// ProgramRunner or with_planted_fault(), and is expected to fail. The program that users run has nothing of this.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace causeway {

struct PlantedFault {
  std::string_view name;
  std::string_view what;      // a line for people
  std::string_view file;      // the header; empty for text that code generation writes
  std::string_view original;  // occurs once in the header, or at most once in a kernel that code generation writes
  std::string_view planted;   // what takes its place
  std::string_view program;   // the test program
  std::string_view test;      // the test that must fail, by its whole name
};

std::span<const PlantedFault> planted_faults();

// nullptr when there is none of this name.
const PlantedFault* find_planted_fault(std::string_view name);

// How often the fault's original occurs in its header; 1 for text that code generation writes.
int occurrences_in_header(const PlantedFault& fault);

// From now on with_planted_fault() plants it; for this process, before kernels are compiled.
void plant(const PlantedFault& fault);
bool a_fault_is_planted();
// Kernels that were compiled with it.
int kernels_with_planted_fault();

// The text of a kernel as it is to be compiled: with the fault where it includes the header or holds the place, and
// unchanged where it does not or no fault is planted. Throws Error where the place occurs several times.
std::string with_planted_fault(const std::string& source);

}  // namespace causeway
