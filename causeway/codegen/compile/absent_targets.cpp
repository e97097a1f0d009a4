// The distribution's lld initialises every LLVM target that the distribution ships, though it links x86 and AMDGPU
// objects here. The targets that no kernel is compiled for stay out of the program (hundreds of megabytes): their
// initialisers are defined here and do nothing.

#define CAUSEWAY_ABSENT_TARGET(name)         \
  void LLVMInitialize##name##TargetInfo() {} \
  void LLVMInitialize##name##Target() {}     \
  void LLVMInitialize##name##TargetMC() {}   \
  void LLVMInitialize##name##AsmPrinter() {} \
  void LLVMInitialize##name##AsmParser() {}

extern "C" {
CAUSEWAY_ABSENT_TARGET(AArch64)
CAUSEWAY_ABSENT_TARGET(ARM)
CAUSEWAY_ABSENT_TARGET(AVR)
CAUSEWAY_ABSENT_TARGET(BPF)
CAUSEWAY_ABSENT_TARGET(Hexagon)
CAUSEWAY_ABSENT_TARGET(Lanai)
CAUSEWAY_ABSENT_TARGET(LoongArch)
CAUSEWAY_ABSENT_TARGET(M68k)
CAUSEWAY_ABSENT_TARGET(Mips)
CAUSEWAY_ABSENT_TARGET(MSP430)
CAUSEWAY_ABSENT_TARGET(PowerPC)
CAUSEWAY_ABSENT_TARGET(RISCV)
CAUSEWAY_ABSENT_TARGET(Sparc)
CAUSEWAY_ABSENT_TARGET(SPIRV)
CAUSEWAY_ABSENT_TARGET(SystemZ)
CAUSEWAY_ABSENT_TARGET(VE)
CAUSEWAY_ABSENT_TARGET(WebAssembly)
CAUSEWAY_ABSENT_TARGET(XCore)
CAUSEWAY_ABSENT_TARGET(Xtensa)
}
