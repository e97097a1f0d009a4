// What holds of a kernel's machine code on gfx90a and gfx942, on every path from its entry:
//
// - At an s_barrier no access of LDS is under way: what a wave wrote is there for the waves that it lets go on, and
//   what it reads was read before they overwrite it. Stores, atomics, loads that write LDS, and loads all count.
// - No register is read, or written by another instruction, while a load into it is under way.
// - Instructions stand as far apart as the hardware needs them to (gcn_wait_states.h).
//
// What is under way (the ISA documents of MI200 and MI300, "Data Dependency Resolution"): s_waitcnt holds a wave until
// at most so many of its accesses are. vmcnt (0 to 63) counts accesses of memory by vector instructions, which end in
// the order of their issue; lgkmcnt (0 to 15) those of LDS, which end in order, and of scalar instructions, which end
// in any. A flat access counts in both, and is over when both are 0. Vector loads may follow one another into the same
// register, as they end in order; so may LDS's. What a store reads it reads in time, but for what gcn_wait_states.h
// says. Scheduling, the cache hierarchy, global memory's visibility and LDS addresses are not looked at: an access of
// LDS counts as one whatever its address.
//
// A path that cannot be followed (a call, a computed jump), code that cannot be read, and a jump out of the function
// are findings too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/checks/gcn_instruction.h"

namespace causeway::codegen {

// `processor`: "gfx90a", "gfx942".
FunctionCheck check_gcn_function(const GcnFunction& function, std::string_view processor);

// Every function that the code object exports.
std::vector<FunctionCheck> check_gcn(const std::string& code_object, std::string_view processor);

}  // namespace causeway::codegen
