#include "causeway/codegen/checks/gcn_disassembly.h"

#include <algorithm>
#include <bitset>
#include <memory>
#include <optional>

#include "causeway/base/error.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrDesc.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TargetParser/Triple.h"

extern "C" {
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUDisassembler();
}

namespace causeway::codegen {
namespace {

const llvm::Triple& triple() {
  static const llvm::Triple name("amdgcn-amd-amdhsa");
  return name;
}

const llvm::Target& amdgpu() {
  static const llvm::Target* target = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    std::string error;
    const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple(), error);
    CAUSEWAY_CHECK(found != nullptr);
    return found;
  }();
  return *target;
}

std::optional<uint16_t> number_after(llvm::StringRef name, llvm::StringRef prefix) {
  unsigned number = 0;
  if (!name.consume_front(prefix) || name.empty() || name.getAsInteger(10, number)) return std::nullopt;
  return static_cast<uint16_t>(number);
}

// By the name that LLVM gives a register of 32 bits.
std::optional<uint16_t> number_of(llvm::StringRef name) {
  if (const auto number = number_after(name, "VGPR")) return *number;
  if (const auto number = number_after(name, "AGPR")) return kFirstAccumulation + *number;
  if (const auto number = number_after(name, "SGPR")) return kFirstScalar + *number;
  if (name == "VCC_LO") return kRegisterVcc;
  if (name == "VCC_HI") return kRegisterVcc + 1;
  if (name == "EXEC_LO") return kRegisterExec;
  if (name == "EXEC_HI") return kRegisterExec + 1;
  // One register for each generation of the encoding, and the one that stands for all.
  if (name == "M0" || name.starts_with("M0_")) return kRegisterM0;
  if (name.starts_with("FLAT_SCR_LO")) return kRegisterFlatScratch;
  if (name.starts_with("FLAT_SCR_HI")) return kRegisterFlatScratch + 1;
  return std::nullopt;
}

// LLVM's objects of one processor. Not to be used by several threads at a time.
class Reader {
 public:
  explicit Reader(std::string_view processor)
      : registers_(amdgpu().createMCRegInfo(triple())),
        assembler_(amdgpu().createMCAsmInfo(*registers_, triple(), llvm::MCTargetOptions())),
        processor_(amdgpu().createMCSubtargetInfo(triple(), llvm::StringRef(processor.data(), processor.size()), "")),
        opcodes_(amdgpu().createMCInstrInfo()),
        context_(triple(), assembler_.get(), registers_.get(), processor_.get()),
        disassembler_(amdgpu().createMCDisassembler(*processor_, context_)),
        printer_(amdgpu().createMCInstPrinter(triple(), assembler_->getAssemblerDialect(), *assembler_, *opcodes_,
                                              *registers_)) {
    ranges_.resize(registers_->getNumRegs());
    for (unsigned index = 1; index < registers_->getNumRegs(); ++index) ranges_[index] = range_of(index);
  }

  GcnFunction read(const std::string& name, std::string_view code) {
    GcnFunction function;
    function.name = name;
    const llvm::ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t*>(code.data()), code.size());
    for (uint64_t offset = 0; offset < code.size();) {
      llvm::MCInst instruction;
      uint64_t size = 0;
      if (disassembler_->getInstruction(instruction, size, bytes.slice(offset), offset, llvm::nulls()) !=
              llvm::MCDisassembler::Success ||
          size == 0) {
        function.unreadable.push_back(static_cast<uint32_t>(offset));
        break;
      }
      function.instructions.push_back(describe(instruction, offset, size));
      offset += size;
    }
    return function;
  }

 private:
  GcnRegisters range_of(llvm::MCRegister whole) const {
    std::bitset<1024> seen;
    for (const llvm::MCPhysReg part : registers_->subregs_inclusive(whole))
      if (const auto number = number_of(registers_->getName(part))) seen.set(*number);
    GcnRegisters range;
    for (uint16_t number = 0; number < seen.size(); ++number) {
      if (!seen[number]) continue;
      if (range.count == 0) range.first = number;
      range.count = number - range.first + 1;
    }
    return range;
  }

  GcnInstruction describe(const llvm::MCInst& instruction, uint64_t offset, uint64_t size) {
    GcnInstruction result;
    result.offset = static_cast<uint32_t>(offset);
    result.size = static_cast<uint32_t>(size);
    llvm::raw_string_ostream text(result.text);
    printer_->printInst(&instruction, offset, "", *processor_, text);
    text.flush();
    std::ranges::replace(result.text, '\t', ' ');
    result.text.erase(0, result.text.find_first_not_of(' '));
    result.mnemonic = result.text.substr(0, result.text.find(' '));
    result.is_dpp = remove_suffix(result.mnemonic, "_dpp");
    result.is_sdwa = remove_suffix(result.mnemonic, "_sdwa");
    for (const char* encoding : {"_e32", "_e64"}) remove_suffix(result.mnemonic, encoding);

    const llvm::MCInstrDesc& opcode = opcodes_->get(instruction.getOpcode());
    const auto add = [&](llvm::MCRegister which, int position, bool written) {
      if (const GcnRegisters range = ranges_[which.id()]; range.count > 0)
        result.operands.push_back({range, static_cast<int16_t>(position), written});
    };
    for (unsigned i = 0; i < instruction.getNumOperands(); ++i) {
      const llvm::MCOperand& operand = instruction.getOperand(i);
      if (operand.isReg() && operand.getReg() != 0)
        add(operand.getReg(), static_cast<int>(i), i < opcode.getNumDefs());
      else if (operand.isImm())
        result.immediate = operand.getImm();
    }
    for (const llvm::MCPhysReg which : opcode.implicit_uses()) add(which, -1, false);
    for (const llvm::MCPhysReg which : opcode.implicit_defs()) add(which, -1, true);
    return result;
  }

  static bool remove_suffix(std::string& text, std::string_view suffix) {
    if (!text.ends_with(suffix)) return false;
    text.resize(text.size() - suffix.size());
    return true;
  }

  std::unique_ptr<llvm::MCRegisterInfo> registers_;
  std::unique_ptr<llvm::MCAsmInfo> assembler_;
  std::unique_ptr<llvm::MCSubtargetInfo> processor_;
  std::unique_ptr<llvm::MCInstrInfo> opcodes_;
  llvm::MCContext context_;
  std::unique_ptr<llvm::MCDisassembler> disassembler_;
  std::unique_ptr<llvm::MCInstPrinter> printer_;
  std::vector<GcnRegisters> ranges_;  // by LLVM's number of a register
};

}  // namespace

GcnFunction disassemble_gcn(const std::string& name, std::string_view code, std::string_view processor) {
  // Making a reader takes a few milliseconds: each thread keeps the one it used last.
  static thread_local std::unique_ptr<Reader> reader;
  static thread_local std::string reader_processor;
  if (reader == nullptr || reader_processor != processor) {
    reader = std::make_unique<Reader>(processor);
    reader_processor = processor;
  }
  return reader->read(name, code);
}

}  // namespace causeway::codegen
