// Where in its arenas a program's buffers lie.
#pragma once

#include "causeway/program/instruction.h"

namespace causeway::program {

// Gives the buffers of both arenas their offsets, and the arenas their sizes, by the order of the instructions
// (memory_plan.h).
void place_buffers(LoweredProgram& program);

}  // namespace causeway::program
