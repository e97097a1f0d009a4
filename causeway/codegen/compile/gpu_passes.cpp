#include "causeway/codegen/compile/gpu_passes.h"

#include <vector>

#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Scalar/InferAddressSpaces.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/Sink.h"
#include "llvm/Transforms/Vectorize/LoadStoreVectorizer.h"

namespace causeway::codegen {
namespace {

// One extension of an index to 64 bits in place of several: LLVM writes "zext nneg" where it sees that an index is not
// negative and "sext" where a constant was added to the same index, and takes them for different addresses.
struct UnifyExtensionsPass : llvm::PassInfoMixin<UnifyExtensionsPass> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& /*analyses*/) {
    std::vector<llvm::Instruction*> indices;
    for (llvm::Instruction& instruction : llvm::instructions(function))
      if (instruction.getType()->isIntegerTy(32)) indices.push_back(&instruction);
    bool changed = false;
    for (llvm::Instruction* index : indices) changed |= unify(*index);
    if (!changed) return llvm::PreservedAnalyses::all();
    llvm::PreservedAnalyses preserved;
    preserved.preserveSet<llvm::CFGAnalyses>();
    return preserved;
  }

 private:
  static bool unify(llvm::Instruction& index) {
    std::vector<llvm::Instruction*> extensions;
    bool differ = false;
    for (llvm::User* user : index.users()) {
      auto* extension = llvm::dyn_cast<llvm::CastInst>(user);
      if (extension == nullptr || !extension->getType()->isIntegerTy(64)) continue;
      if (!llvm::isa<llvm::SExtInst>(extension) && !(llvm::isa<llvm::ZExtInst>(extension) && extension->hasNonNeg()))
        continue;
      differ = differ || (!extensions.empty() && extension->getOpcode() != extensions.front()->getOpcode());
      extensions.push_back(extension);
    }
    const auto place = index.getInsertionPointAfterDef();
    if (!differ || !place.has_value()) return false;
    auto* unified = new llvm::SExtInst(&index, extensions.front()->getType(), "", *place);
    for (llvm::Instruction* extension : extensions) {
      extension->replaceAllUsesWith(unified);
      extension->eraseFromParent();
    }
    return true;
  }
};

// Moves what is computed early to the blocks that use it, in kernels that share out registers by hand: their MMAs leave
// none over, and ptxas, which moves little between blocks, would spill. In others, sums and loads live longer for it.
struct SinkInWarpgroupsPass : llvm::PassInfoMixin<SinkInWarpgroupsPass> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    for (const llvm::Instruction& instruction : llvm::instructions(function)) {
      const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (call == nullptr || !call->isInlineAsm()) continue;
      const auto* text = llvm::cast<llvm::InlineAsm>(call->getCalledOperand());
      if (llvm::StringRef(text->getAsmString()).contains("setmaxnreg"))
        return llvm::SinkingPass().run(function, analyses);
    }
    return llvm::PreservedAnalyses::all();
  }
};

}  // namespace

void add_gpu_passes(llvm::PassBuilder& builder) {
  builder.registerVectorizerStartEPCallback([](llvm::FunctionPassManager& passes, llvm::OptimizationLevel) {
    passes.addPass(UnifyExtensionsPass());
    passes.addPass(llvm::InferAddressSpacesPass());
    passes.addPass(llvm::InferAlignmentPass());
    passes.addPass(llvm::LoadStoreVectorizerPass());
  });
  builder.registerOptimizerLastEPCallback(
      [](llvm::ModulePassManager& passes, llvm::OptimizationLevel, llvm::ThinOrFullLTOPhase) {
        passes.addPass(llvm::createModuleToFunctionPassAdaptor(SinkInWarpgroupsPass()));
      });
}

void choose_back_end_passes(const llvm::TargetMachine& machine, llvm::TargetPassConfig& passes) {
  if (machine.getTargetTriple().isNVPTX()) passes.disablePass(&llvm::EarlyMachineLICMID);
}

}  // namespace causeway::codegen
