// What is wrong with the machine code of compiled kernels, found without running it: what no emulator of the text can
// see, because the compiler put it there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "causeway/device/target.h"

namespace causeway::codegen {

struct CodeFinding {
  uint64_t place = 0;       // AMD: bytes from the function's beginning; NVIDIA: the line of the PTX
  std::string instruction;  // as the disassembler writes it
  std::string fault;        // a sentence without its full stop: what is under way, and where it was issued
};

struct FunctionCheck {
  std::string function;
  int instructions = 0;
  int barriers = 0;
  int waits = 0;                      // NVIDIA: for asynchronous copies, mbarriers and warpgroup MMAs
  std::vector<CodeFinding> findings;  // by place
};

// Every function of an image that compile_module() returned, by name; what is checked is in the header of each
// architecture's check (gcn_check.h). Nothing where the target has no check. Throws Error(kCorrupt) for an image that
// is damaged.
std::optional<std::vector<FunctionCheck>> check_code(const std::string& image, const Target& target);

// "+0x478 s_barrier: a write of LDS is under way: ds_write_b128 v4, v[0:3] at +0x638". The place is written as the
// family's readers count: bytes in hexadecimal for AMD, "line N" for NVIDIA.
std::string finding_text(const CodeFinding& finding, const Target& target);

}  // namespace causeway::codegen
