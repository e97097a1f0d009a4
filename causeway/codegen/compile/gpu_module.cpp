#include "causeway/codegen/compile/gpu_module.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Triple.h"

namespace causeway::codegen {
namespace {

constexpr char kAnnotations[] = "llvm.global.annotations";
constexpr int kSimdUnits = 4;  // of one AMD compute unit
constexpr int kWaveWidth = 64;

// LLVM, "User Guide for NVPTX Back-end", Function and Parameter Attributes.
void annotate_nvptx(llvm::Function& kernel, int threads, int blocks_per_unit) {
  kernel.addFnAttr("nvvm.maxntid", std::to_string(threads));
  kernel.addFnAttr("nvvm.minctasm", std::to_string(blocks_per_unit));
  for (llvm::Argument& argument : kernel.args())
    if (argument.hasByValAttr()) argument.addAttr(llvm::Attribute::get(kernel.getContext(), "nvvm.grid_constant"));
}

void annotate_amdgpu(llvm::Function& kernel, int threads, int blocks_per_unit) {
  const std::string count = std::to_string(threads);
  kernel.addFnAttr("amdgpu-flat-work-group-size", count + "," + count);
  const int waves = (threads / kWaveWidth * blocks_per_unit + kSimdUnits - 1) / kSimdUnits;
  kernel.addFnAttr("amdgpu-waves-per-eu", std::to_string(std::max(1, waves)));
  kernel.addFnAttr("uniform-work-group-size", "true");
  kernel.setVisibility(llvm::GlobalValue::ProtectedVisibility);
}

}  // namespace

void apply_launch_bounds(llvm::Module& module) {
  llvm::GlobalVariable* annotations = module.getGlobalVariable(kAnnotations);
  if (annotations == nullptr) return;
  const bool nvptx = llvm::Triple(module.getTargetTriple()).isNVPTX();
  for (const llvm::Use& entry : llvm::cast<llvm::ConstantArray>(annotations->getInitializer())->operands()) {
    const auto* fields = llvm::cast<llvm::ConstantStruct>(entry.get());
    auto* kernel = llvm::dyn_cast<llvm::Function>(fields->getOperand(0)->stripPointerCasts());
    const auto* text = llvm::dyn_cast<llvm::GlobalVariable>(fields->getOperand(1)->stripPointerCasts());
    if (kernel == nullptr || text == nullptr || !text->hasInitializer()) continue;
    const auto* characters = llvm::dyn_cast<llvm::ConstantDataSequential>(text->getInitializer());
    int threads = 0, blocks_per_unit = 0;
    if (characters == nullptr || !characters->isCString() ||
        std::sscanf(characters->getAsCString().str().c_str(), "causeway_launch_bounds %d %d", &threads,
                    &blocks_per_unit) != 2)
      continue;
    (nvptx ? annotate_nvptx : annotate_amdgpu)(*kernel, threads, blocks_per_unit);
  }
  annotations->eraseFromParent();
}

void mark_pure_calls(llvm::Module& module) {
  for (llvm::Function& function : module) {
    if (function.isIntrinsic() && function.getName().starts_with("llvm.nvvm.") && function.doesNotAccessMemory() &&
        function.willReturn() && !function.isConvergent())
      function.setSpeculatable();
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (call == nullptr || !call->isInlineAsm()) continue;
      if (!llvm::cast<llvm::InlineAsm>(call->getCalledOperand())->hasSideEffects())
        call->addFnAttr(llvm::Attribute::WillReturn);
    }
  }
}

std::string missing_function(const llvm::Module& module) {
  const bool nvptx = llvm::Triple(module.getTargetTriple()).isNVPTX();
  for (const llvm::Function& function : module) {
    if (!function.isDeclaration() || function.use_empty()) continue;
    if (function.getIntrinsicID() == llvm::Intrinsic::not_intrinsic) return function.getName().str();
    // What has neither an instruction nor an expansion without a mathematics library.
    const bool partial = nvptx || function.getReturnType()->getScalarType()->isDoubleTy();
    const bool library_call =
        llvm::StringSwitch<bool>(llvm::Intrinsic::getBaseName(function.getIntrinsicID()))
            .Cases({"llvm.pow", "llvm.powi", "llvm.tan"}, true)
            .Cases({"llvm.sinh", "llvm.cosh", "llvm.tanh", "llvm.asin", "llvm.acos", "llvm.atan"}, true)
            .Cases({"llvm.exp", "llvm.exp2", "llvm.exp10", "llvm.log", "llvm.log2", "llvm.log10"}, partial)
            .Cases({"llvm.sin", "llvm.cos"}, partial)
            .Default(false);
    if (library_call) return function.getName().str();
  }
  return {};
}

}  // namespace causeway::codegen
