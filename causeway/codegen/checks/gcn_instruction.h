// An instruction of an AMD GPU (CDNA 2 and 3), as its checks see it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::codegen {

// Registers are numbered through: the vector registers of a lane, its accumulation registers, then what a wave has
// once. What is not here (SCC, the mode, the program counter) is neither loaded nor a cause of wait states.
inline constexpr uint16_t kFirstAccumulation = 256, kFirstScalar = 512, kRegisterVcc = 640, kRegisterExec = 642,
                          kRegisterM0 = 644, kRegisterFlatScratch = 645;

struct GcnRegisters {
  uint16_t first = 0;
  uint16_t count = 0;

  bool overlaps(const GcnRegisters& other) const {
    return first < other.first + other.count && other.first < first + count;
  }
  bool is_vector() const { return first < kFirstScalar; }
  bool operator==(const GcnRegisters&) const = default;
};

struct GcnOperand {
  GcnRegisters registers;
  int16_t position = -1;  // among the instruction's operands, the destinations first; -1: implied by the opcode
  bool written = false;   // else read
};

struct GcnInstruction {
  uint32_t offset = 0;   // bytes, from the function's beginning
  uint32_t size = 0;     // bytes
  std::string text;      // "ds_write_b32 v0, v1 offset:16"
  std::string mnemonic;  // without the suffix of an encoding (_e32, _e64, _sdwa, _dpp)
  std::vector<GcnOperand> operands;
  int64_t immediate = 0;  // the last operand that is one; of s_waitcnt and s_nop the only one
  bool is_dpp = false;    // reads other lanes' registers
  bool is_sdwa = false;   // reads or writes parts of registers

  bool starts_with(std::string_view prefix) const { return mnemonic.starts_with(prefix); }
  bool is_valu() const { return starts_with("v_"); }
  bool is_matrix() const { return starts_with("v_mfma_") || starts_with("v_smfmac_"); }
  bool is_shared() const { return starts_with("ds_"); }
  bool is_flat() const { return starts_with("flat_"); }
  // Counted by vmcnt alone. Instructions that write back or invalidate caches have no registers and are not counted
  // here: whoever waits for one more than there are waits for longer.
  bool is_vector_memory() const {
    return starts_with("global_") || starts_with("scratch_") || starts_with("tbuffer_") ||
           (starts_with("buffer_") && !starts_with("buffer_inv") && !starts_with("buffer_wb"));
  }
  bool is_scalar_memory() const {
    return starts_with("s_load_") || starts_with("s_buffer_load_") || starts_with("s_scratch_load_") ||
           starts_with("s_memtime") || starts_with("s_memrealtime") || starts_with("s_atomic_") ||
           starts_with("s_buffer_atomic_");
  }

  bool reads(const GcnRegisters& registers) const {
    for (const GcnOperand& operand : operands)
      if (!operand.written && operand.registers.overlaps(registers)) return true;
    return false;
  }
  bool writes(const GcnRegisters& registers) const {
    for (const GcnOperand& operand : operands)
      if (operand.written && operand.registers.overlaps(registers)) return true;
    return false;
  }
};

struct GcnFunction {
  std::string name;
  std::vector<GcnInstruction> instructions;
  // Bytes from the function's beginning of what is no instruction of this processor; the function is read up to there.
  std::vector<uint32_t> unreadable;
};

}  // namespace causeway::codegen
