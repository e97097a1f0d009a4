// PTX as its checks see it: functions of instructions, with registers numbered through and branches resolved. Enough of
// the language for what LLVM and the kernels' inline assembler text write (PTX ISA 8.0): declarations are read for
// their names alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::codegen {

struct PtxOperand {
  enum class Kind {
    kRegister,   // registers[0]
    kImmediate,  // value
    kVector,     // registers
    kAddress,    // [registers[0] + value], [symbol + value] or [value]; of a tensor, its coordinates are in `more`
    kName,       // symbol: of shared memory, of a special register, of a parameter
    kNothing     // "_"
  };
  Kind kind = Kind::kNothing;
  std::vector<int> registers;
  std::vector<int> more;
  int64_t value = 0;
  std::string symbol;
};

struct PtxInstruction {
  int line = 0;
  std::string text;    // "@%p1 ld.shared.u32 %r1, [%r2+4]", in one line
  std::string opcode;  // "ld.shared.u32"
  int predicate = -1;  // the register that it is executed by, or not
  bool negated = false;
  int target = -1;            // of a branch: the instruction that it goes to
  bool writes_first = false;  // the first operand is what it writes
  std::vector<PtxOperand> operands;

  bool is(std::string_view prefix) const { return opcode.starts_with(prefix); }
  bool has(std::string_view part) const { return opcode.find(part) != std::string::npos; }
  bool is_unsigned() const { return has(".u"); }
  // What follows the first dot of the opcode: "lt.s32" of setp.
  std::string_view after_dot() const { return std::string_view(opcode).substr(opcode.find('.') + 1); }
  bool branches() const { return target >= 0; }
  bool writes_register() const {
    return writes_first && !operands.empty() && !operands[0].registers.empty() &&
           operands[0].kind != PtxOperand::Kind::kAddress;
  }
  // Does not go on with the next instruction, or need not.
  bool ends_block() const;
  // Whether it may go on with the next one.
  bool falls_through() const;
  // Reads or writes shared memory by an address, as a thread itself.
  bool is_shared_access() const;
  // Of all threads of the block: a barrier with a number of threads is one of some of them.
  bool is_block_barrier() const;
};

// Instructions [begin, end); what comes next.
struct PtxBlock {
  int begin = 0, end = 0;
  std::vector<int> successors;
};

struct PtxFunction {
  std::string name;
  int threads = 0;  // of a block, as .maxntid says; 0 where it does not
  int registers = 0;
  std::vector<std::string> register_names;
  std::vector<PtxInstruction> instructions;
  std::vector<PtxBlock> blocks;  // the first is the entry
};

struct PtxModule {
  std::vector<PtxFunction> functions;
  std::vector<std::pair<std::string, int64_t>>
      shared;  // names in shared memory and their sizes; 0: asked for at launch
};

// Throws Error(kCorrupt) for what is no such text.
PtxModule parse_ptx(std::string_view text);

}  // namespace causeway::codegen
