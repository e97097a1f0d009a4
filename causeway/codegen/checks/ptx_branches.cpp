#include "causeway/codegen/checks/ptx_branches.h"

#include <algorithm>

namespace causeway::codegen {

PtxBranches::PtxBranches(const PtxFunction& function, const std::vector<int>& definitions)
    : function_(function),
      definitions_(definitions),
      predicate_definitions_(definitions.size(), -1),
      comparisons_(definitions.size()),
      told_(function.instructions.size()) {
  for (size_t i = 0; i < function_.instructions.size(); ++i) {
    const PtxInstruction& one = function_.instructions[i];
    if (one.predicate >= 0 || one.operands.size() != 3 || one.operands[0].kind != PtxOperand::Kind::kRegister) continue;
    const auto predicate = static_cast<size_t>(one.operands[0].registers[0]);
    if (definitions_[predicate] != 1) continue;
    if (one.is("or.pred") || one.is("and.pred")) predicate_definitions_[predicate] = static_cast<int>(i);
    if (!one.is("setp.") || one.has(".f") || one.operands[1].kind != PtxOperand::Kind::kRegister ||
        one.operands[2].kind != PtxOperand::Kind::kImmediate)
      continue;
    predicate_definitions_[predicate] = static_cast<int>(i);
    const auto reg = static_cast<size_t>(one.operands[1].registers[0]);
    ++comparisons_[reg];
  }
  for (const PtxBlock& block : function_.blocks) {
    const auto last = static_cast<size_t>(block.end - 1);
    if (function_.instructions[last].predicate >= 0)
      find_told(block, function_.instructions[last].predicate, true, true, told_[last]);
  }
}

void PtxBranches::find_told(const PtxBlock& block, int predicate, bool where_true, bool where_false,
                            std::vector<Told>& told) const {
  const int definition = predicate_definitions_[static_cast<size_t>(predicate)];
  if (definition < 0) {
    told.push_back({predicate, -1, where_true, where_false});
    return;
  }
  const PtxInstruction& one = function_.instructions[static_cast<size_t>(definition)];
  if (!one.is("setp.")) {
    told.push_back({predicate, -1, where_true, where_false});
    // Where the definition is elsewhere, its parts may have been written again since.
    if (definition < block.begin || definition >= block.end) return;
    (one.is("or.pred") ? where_true : where_false) = false;
    if (!where_true && !where_false) return;
    for (const size_t part : {size_t{1}, size_t{2}})
      for (const int reg : one.operands[part].registers)
        if (definitions_[static_cast<size_t>(reg)] == 1) find_told(block, reg, where_true, where_false, told);
    return;
  }
  const int reg = one.operands[1].registers[0], last = block.end - 1;
  bool same = definitions_[static_cast<size_t>(reg)] == 1;
  if (definition >= block.begin && definition < last) {
    same = true;
    for (int i = definition + 1; i < last; ++i) {
      const PtxInstruction& between = function_.instructions[static_cast<size_t>(i)];
      if (between.writes_register())
        same &= std::ranges::find(between.operands[0].registers, reg) == between.operands[0].registers.end();
    }
  }
  told.push_back({predicate, same ? definition : -1, where_true, where_false});
}

}  // namespace causeway::codegen
