#include "causeway/codegen/checks/gcn_wait_states.h"

#include <algorithm>

namespace causeway::codegen {
namespace {

constexpr GcnRegisters kExec{kRegisterExec, 2};
constexpr GcnRegisters kVcc{kRegisterVcc, 2};
constexpr GcnRegisters kM0{kRegisterM0, 1};

bool contains(const GcnInstruction& instruction, std::string_view text) {
  return instruction.text.find(text) != std::string::npos;
}

bool is_double_matrix(const GcnInstruction& instruction) { return instruction.starts_with("v_mfma_f64"); }

// On CDNA 3 matrix instructions of 32-bit floats have a path of their own; on CDNA 2 all but double precision are
// alike.
bool is_xdl(const GcnInstruction& instruction, const GcnRules& rules) {
  if (!instruction.is_matrix() || is_double_matrix(instruction)) return false;
  return !rules.cdna3 || !instruction.mnemonic.ends_with("_f32") || instruction.starts_with("v_smfmac_");
}

bool is_dot(const GcnInstruction& instruction) { return instruction.starts_with("v_dot"); }

// What a dot product adds to, "v3" of "v_dot2_f32_f16 v0, v1, v2, v3": it may be the result of one with the same opcode
// at once. Null where it adds to a constant.
const GcnOperand* dot_sum(const GcnInstruction& instruction) {
  const GcnOperand* last = nullptr;
  const GcnOperand* result = nullptr;
  for (const GcnOperand& operand : instruction.operands) {
    if (operand.position < 0) continue;
    const GcnOperand*& which = operand.written ? result : last;
    if (which == nullptr || which->position < operand.position) which = &operand;
  }
  if (last == nullptr || result == nullptr) return nullptr;
  size_t at = 0;
  for (int comma = 0; comma < 3 && at != std::string::npos; ++comma) at = instruction.text.find(',', at + 1);
  // Written with three operands, it adds to its result.
  if (at == std::string::npos) return last->registers == result->registers ? last : nullptr;
  const size_t name = instruction.text.find_first_not_of(' ', at + 1);
  return name != std::string::npos && std::string_view("vas").find(instruction.text[name]) != std::string_view::npos
             ? last
             : nullptr;
}

bool is_memory(const GcnInstruction& instruction) {
  return instruction.is_vector_memory() || instruction.is_flat() || instruction.is_shared();
}

bool is_lane_access(const GcnInstruction& instruction) {
  return instruction.starts_with("v_readlane") || instruction.starts_with("v_readfirstlane") ||
         instruction.starts_with("v_writelane");
}

bool is_transcendental(const GcnInstruction& instruction) {
  for (const char* name : {"v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_"})
    if (instruction.starts_with(name)) return true;
  return false;
}

// Writes half of a register or a byte of it.
bool writes_a_part(const GcnInstruction& instruction) {
  if (instruction.is_sdwa) return contains(instruction, "dst_sel:") && !contains(instruction, "dst_sel:DWORD");
  const size_t at = instruction.text.find("op_sel:[");
  if (at == std::string::npos || instruction.starts_with("v_pk_") || instruction.starts_with("v_mad_mix") ||
      instruction.starts_with("v_fma_mix") || is_dot(instruction))
    return false;
  const size_t end = instruction.text.find(']', at);
  return end != std::string::npos && instruction.text[end - 1] == '1';
}

// "HW_REG_MODE" of "s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s2".
std::string_view hardware_register(const GcnInstruction& instruction) {
  const std::string_view text = instruction.text;
  const size_t at = text.find("hwreg(");
  if (at == std::string_view::npos) return {};
  const std::string_view name = text.substr(at + 6);
  return name.substr(0, name.find_first_of(",)"));
}

const GcnOperand* operand_at(const GcnInstruction& instruction, int position) {
  for (const GcnOperand& operand : instruction.operands)
    if (operand.position == position) return &operand;
  return nullptr;
}

// What a matrix instruction writes, and what it adds to. A sparse one (v_smfmac) adds to its destination.
GcnRegisters matrix_result(const GcnInstruction& instruction) {
  const GcnOperand* operand = operand_at(instruction, 0);
  return operand == nullptr ? GcnRegisters{} : operand->registers;
}
bool is_matrix_sum(const GcnInstruction& instruction, const GcnOperand& operand) {
  return instruction.starts_with("v_smfmac_") ? operand.registers == matrix_result(instruction) : operand.position == 3;
}
bool reads_as_sum(const GcnInstruction& instruction, const GcnRegisters& registers) {
  for (const GcnOperand& operand : instruction.operands)
    if (!operand.written && is_matrix_sum(instruction, operand) && operand.registers.overlaps(registers)) return true;
  return false;
}

class Distance {
 public:
  void at_least(int wait_states, const char* reason) {
    if (wait_states > most_.wait_states) most_ = {wait_states, reason};
  }
  GcnDistance most() const { return most_; }

 private:
  GcnDistance most_;
};

// CDNA 2's numbers are given for 2, 8 and 16 passes, CDNA 3's for 2, 4, 8 and 16.
int sum_after_overlapping_sum(const GcnInstruction& first, const GcnInstruction& second, int passes,
                              const GcnRules& rules) {
  if (is_double_matrix(first)) {
    if (is_xdl(second, rules)) return 0;
    return passes == 4 ? 4 : 9;
  }
  if (rules.cdna3) {
    if (is_xdl(second, rules) && !is_xdl(first, rules)) return 0;
    return is_xdl(first, rules) ? passes + 1 : passes;
  }
  return is_double_matrix(second) ? passes + 1 : passes;
}

int matrix_result_read(const GcnInstruction& first, int passes, const GcnRules& rules) {
  return rules.cdna3 && !is_xdl(first, rules) ? passes + 2 : passes + 3;
}

void after_matrix(Distance& distance, const GcnInstruction& first, const GcnInstruction& second,
                  const GcnRules& rules) {
  const GcnRegisters result = matrix_result(first);
  const int passes = matrix_passes(first, rules);
  const bool double_first = is_double_matrix(first);
  if (second.is_matrix()) {
    for (const GcnOperand& operand : second.operands) {
      if (operand.written || !operand.registers.overlaps(result)) continue;
      if (!is_matrix_sum(second, operand)) {
        distance.at_least(double_first ? (passes == 4 ? 6 : 11) : matrix_result_read(first, passes, rules),
                          "a matrix result is read as A or B");
      } else if (!rules.cdna3 && double_first && !is_double_matrix(second)) {
        continue;
      } else if (operand.registers == result) {
        if (double_first && is_double_matrix(second) && passes == 4 && matrix_passes(second, rules) == 4)
          distance.at_least(4, "a matrix result is added to");
        else if (rules.cdna3 && passes == 2)
          distance.at_least(2, "a matrix result is added to");
      } else {
        distance.at_least(sum_after_overlapping_sum(first, second, passes, rules),
                          "a part of a matrix result, or more than it, is added to");
      }
    }
    return;
  }
  const bool memory = is_memory(second);
  if (!memory && !second.is_valu()) return;
  for (const GcnOperand& operand : second.operands) {
    const bool overlaps = operand.registers.overlaps(result);
    if (overlaps && !operand.written) {
      if (double_first)
        distance.at_least(passes == 4 ? (memory ? 9 : 6) : (memory ? 18 : 11), "a matrix result is read");
      else
        distance.at_least(matrix_result_read(first, passes, rules), "a matrix result is read");
    }
    if (overlaps && operand.written)
      distance.at_least(double_first ? (passes == 4 ? 6 : 11) : matrix_result_read(first, passes, rules),
                        "a matrix result is overwritten");
    if (operand.written && !double_first && (!rules.cdna3 || is_xdl(first, rules)) &&
        reads_as_sum(first, operand.registers))
      distance.at_least(passes - 1, "what a matrix instruction adds to is overwritten");
  }
  if (double_first && (second.starts_with("v_fma_f64") || second.starts_with("v_fmac_f64")))
    distance.at_least(2, "a double-precision multiplication follows a matrix instruction");
}

void after_valu(Distance& distance, const GcnInstruction& first, const GcnInstruction& second, const GcnRules& rules) {
  for (const GcnOperand& written : first.operands) {
    if (!written.written) continue;
    const GcnRegisters registers = written.registers;
    if (registers.overlaps(kExec)) {
      if (second.is_matrix()) distance.at_least(4, "EXEC, written by a vector instruction, masks a matrix instruction");
      if (second.is_dpp) distance.at_least(5, "EXEC, written by a vector instruction, masks a DPP instruction");
      if (rules.cdna3 && is_lane_access(second))
        distance.at_least(4, "EXEC, written by a vector instruction, masks a lane's access");
      continue;
    }
    if (!second.reads(registers)) continue;
    if (registers.is_vector()) {
      if (second.is_matrix() && !is_dot(first)) distance.at_least(2, "a vector result is read by a matrix instruction");
      if (is_dot(first) && second.mnemonic == first.mnemonic) {
        const GcnOperand* sum = dot_sum(second);
        for (const GcnOperand& operand : second.operands)
          if (!operand.written && &operand != sum && operand.registers.overlaps(registers))
            distance.at_least(3, "a dot product is read");
      } else if (is_dot(first)) {
        distance.at_least(3, "a dot product is read");
      }
      if (!rules.cdna3 || !second.is_valu()) continue;
      if (second.starts_with("v_readlane") || second.starts_with("v_readfirstlane"))
        distance.at_least(1, "a vector result is read by a lane's access");
      if (is_transcendental(first) && !is_transcendental(second))
        distance.at_least(1, "a transcendental result is read");
      if (writes_a_part(first)) distance.at_least(1, "a register written in part is read");
      continue;
    }
    if (second.is_vector_memory() || second.is_flat())
      distance.at_least(5, "a scalar register, written by a vector instruction, is read by a memory instruction");
    if (is_lane_access(second)) {
      const GcnOperand* lane = operand_at(second, 2);
      if (lane != nullptr && lane->registers.overlaps(registers))
        distance.at_least(4, "a scalar register, written by a vector instruction, names a lane");
    }
    if (second.starts_with("v_div_fmas") && registers.overlaps(kVcc))
      distance.at_least(4, "VCC, written by a vector instruction, is read by v_div_fmas");
    if (rules.cdna3 && second.is_valu())
      distance.at_least(2, "a scalar register, written by a vector instruction, is read by another");
  }
  if (is_dot(first) && second.mnemonic != first.mnemonic && (second.is_valu() || is_memory(second)))
    for (const GcnOperand& written : first.operands)
      if (written.written && written.registers.is_vector() && second.writes(written.registers))
        distance.at_least(3, "a dot product is overwritten");
}

// A store of more than two registers whose data are still being read.
const GcnOperand* slowly_read_data(const GcnInstruction& instruction) {
  if (!instruction.is_vector_memory() && !instruction.is_flat()) return nullptr;
  if (instruction.mnemonic.find("_store_") == std::string::npos) return nullptr;
  const GcnOperand* data = nullptr;
  for (const GcnOperand& operand : instruction.operands) {
    if (operand.registers.is_vector() && operand.registers.count > 2) data = &operand;
    // With an offset in a register, a buffer's store reads in time.
    if ((instruction.starts_with("buffer_") || instruction.starts_with("tbuffer_")) && operand.position >= 0 &&
        !operand.registers.is_vector() && operand.registers.count == 1)
      return nullptr;
  }
  return data;
}

bool reads_m0_early(const GcnInstruction& instruction) {
  return instruction.starts_with("s_movrel") || instruction.starts_with("s_sendmsg") ||
         instruction.starts_with("s_ttracedata") || contains(instruction, " gds") ||
         (instruction.is_shared() && contains(instruction, "_addtid_")) ||
         (instruction.is_vector_memory() && contains(instruction, "lds"));
}

}  // namespace

int wait_states(const GcnInstruction& instruction) {
  return instruction.mnemonic == "s_nop" ? static_cast<int>(instruction.immediate & 15) + 1 : 1;
}

int matrix_passes(const GcnInstruction& instruction, const GcnRules& rules) {
  if (!instruction.is_matrix()) return 0;
  // "v_mfma_f32_16x16x16_bf16": the shape is rows x columns x depth, where several blocks are told by "_4b".
  const std::string_view name = instruction.mnemonic;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (is_double_matrix(instruction)) return has("_4x4x4") ? 4 : 8;
  if (has("_4x4x")) return 2;
  if (!rules.cdna3) return has("_16x16x") ? 8 : has("_32x32x") ? 16 : 0;
  // One block of a type narrower than 32 bits, and the two of xf32, take half of CDNA 2's time.
  const bool wide = !is_xdl(instruction, rules);
  const bool several_blocks = has("_2b_") || has("_4b_");
  const int halves = wide || several_blocks ? 1 : 2;
  return has("_16x16x") ? 8 / halves : has("_32x32x") ? 16 / halves : 0;
}

int reach(const GcnInstruction& instruction, const GcnRules& rules) {
  if (instruction.is_matrix()) return kMostWaitStates;
  if (instruction.is_valu()) return 5;
  if (slowly_read_data(instruction) != nullptr) return 2;
  if (instruction.starts_with("s_setreg")) return 2;
  if (instruction.starts_with("s_") && instruction.writes(kM0)) return 1;
  return 0;
}

GcnDistance required_distance(const GcnInstruction& first, const GcnInstruction& second, const GcnRules& rules) {
  Distance distance;
  if (first.is_matrix()) {
    after_matrix(distance, first, second, rules);
  } else if (first.is_valu()) {
    after_valu(distance, first, second, rules);
  } else if (first.starts_with("s_setreg")) {
    if ((second.starts_with("s_setreg") || second.starts_with("s_getreg")) &&
        hardware_register(first) == hardware_register(second))
      distance.at_least(2, "a hardware register is read or written again");
  } else if (const GcnOperand* data = slowly_read_data(first)) {
    if (second.is_valu() && second.writes(data->registers))
      distance.at_least(rules.cdna3 ? 2 : 1, "the data of a wide store are overwritten");
  } else if (first.starts_with("s_") && first.writes(kM0) && reads_m0_early(second)) {
    distance.at_least(1, "M0 is read");
  }
  // Any instruction's vector result, before another lane reads it.
  if (second.is_dpp)
    for (const GcnOperand& operand : second.operands)
      if (!operand.written && operand.registers.is_vector() && first.is_valu() && first.writes(operand.registers))
        distance.at_least(2, "a vector result is read by another lane");
  return distance.most();
}

}  // namespace causeway::codegen
