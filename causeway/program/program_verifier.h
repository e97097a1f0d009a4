// What must hold of a lowered program whatever the speed of its queues, checked after everything that makes one.
#pragma once

#include <string>
#include <vector>

#include "causeway/program/instruction.h"

namespace causeway::program {

// What is wrong, one sentence each; empty when nothing is:
// - every wait is for a signal that exactly one earlier instruction sets, or for the program's begin;
// - every queue begins after the program's begin and has ended at its end;
// - what an instruction reads from a buffer, one earlier instruction has written there, or the caller;
// - no bytes are written over that somebody has yet to read, nor by two at the same time;
// - the results are there at the end;
// - buffers lie within the arena and hold what is copied;
// - collectives of one instruction are of one kind, independent, and of buffers of their size.
std::vector<std::string> find_faults(const LoweredProgram& program);

// Throws InternalError with the first of them.
void verify(const LoweredProgram& program);

}  // namespace causeway::program
