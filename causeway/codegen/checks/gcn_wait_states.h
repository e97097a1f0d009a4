// How far apart two instructions of an AMD GPU must stand, where the hardware does not see to it. The distances were
// taken from LLVM 19's GCNHazardRecognizer, not from the tables of AMD's ISA documents of MI200 and MI300 ("Manually
// Inserted Wait States", "Dependency Resolution: Required Independent Instructions"), which say what they are about.
//
// Included: results of matrix instructions (read as A, B or C, read or overwritten by others, stored), registers that
// one still reads as C, results of dot products; registers written by a vector instruction and then read by a matrix
// instruction, another lane (DPP, v_readlane), memory's scalar operands, v_div_fmas; EXEC written by a vector
// instruction; M0; the mode; the data of a wide store. Left to the hardware, and not reported: two matrix instructions
// that write the same register, scalar results read by scalar instructions, vector results read by plain vector
// instructions. Not included: what only double-precision matrix instructions next to memory accesses ask for (no
// kernel has them), and clauses that are replayed after a page fault (XNACK).
#pragma once

#include <string>

#include "causeway/codegen/checks/gcn_instruction.h"

namespace causeway::codegen {

struct GcnRules {
  bool cdna3 = false;  // of CDNA 3; else of CDNA 2
};

// The furthest that required_distance() looks: instructions further apart never meet.
inline constexpr int kMostWaitStates = 19;

// Wait states an instruction takes: s_nop N is N + 1, all others 1.
int wait_states(const GcnInstruction& instruction);

// Passes (of four cycles) of a matrix instruction; 0 for others and for what is not known.
int matrix_passes(const GcnInstruction& instruction, const GcnRules& rules);

// Whether something after `instruction` may have to stand apart from it, and how far at most.
int reach(const GcnInstruction& instruction, const GcnRules& rules);

struct GcnDistance {
  int wait_states = 0;      // that must lie between the two
  const char* reason = "";  // "a matrix result is read"
};
// Of `second`, issued after `first`.
GcnDistance required_distance(const GcnInstruction& first, const GcnInstruction& second, const GcnRules& rules);

}  // namespace causeway::codegen
