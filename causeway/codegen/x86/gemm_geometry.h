// Chooses how a CPU's GEMM is computed: which mainloop it has, its block sizes, and from them the tasks, workspace and
// scratch of its two launches. Pure: the same arguments give the same plan.
//
// What the sizes promise: the blocks of k depend on the operand type and the vector level alone, so that a machine
// gives the same bits whatever its number of threads. Blocks of m and n change no bits.
#pragma once

#include <cstdint>
#include <string>

#include "causeway/codegen/gemm_sizes.h"
#include "causeway/kernels/x86/gemm_layout.h"
#include "causeway/namespaces.h"

namespace causeway::codegen {

// How wide the micro-kernels are, as CAUSEWAY_X86_LEVEL in causeway/kernels/x86/simd.h numbers them; the two must
// agree, which the kernel text checks when it is compiled.
// kAmxBf16: level 3 with the matrix registers of causeway/kernels/x86/matrix_tiles.h.
enum class X86Level { kPortable = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAmxBf16 = 4 };

struct GemmMachine {
  X86Level level = X86Level::kPortable;
  int64_t l2_bytes = 1 << 20;  // of one core
  int threads = 1;             // workers that run tasks at the same moment
};

// C[batch, m, n] = A[batch, m, k] B[batch, k, n]; each size >= 0 or kUnknownSize.
struct GemmProblem {
  bool bf16_operands = false;  // otherwise float
  int64_t batch = 1;
  int64_t m = kUnknownSize;
  int64_t n = kUnknownSize;
  int64_t k = kUnknownSize;
  bool fixed_order = false;  // skinny operands are multiplied as others: see KernelRequest
};

// The skinny paths are chosen only when m (or n) is known and at most this; half of it where operands are packed as
// pairs.
constexpr int64_t kSkinnyRows = 32;

struct GemmMainloop;

struct GemmPlan {
  const GemmMainloop* mainloop = nullptr;
  GemmBlocks blocks = {};
};
// By the first mainloop (gemm_mainloops.h) that serves it.
GemmPlan plan_gemm(const GemmProblem& problem, const GemmMachine& machine);

// Of groups of rows (kernels/x86/gemm_grouped.h), by the first mainloop that multiplies panels. Sizes as of one slab:
// of the problem, batch, and the one that groups cut, are not asked for.
GemmPlan plan_grouped_gemm(const GemmProblem& problem, const GemmMachine& machine);

// The launches of one gemm whose sizes are all known by now. Workspace and scratch are to be 64-byte aligned; the
// workspace is written by phase 1 and read by phase 2 and need not outlive it.
struct GemmLaunch {
  int64_t pack_tasks = 0;  // phase 1; 0: skip it
  int64_t run_tasks = 0;   // phase 2
  int64_t workspace_bytes = 0;
  int64_t scratch_bytes = 0;  // per worker, phase 2 only
};

GemmLaunch gemm_launch(const GemmBlocks& blocks, int64_t batch, int64_t m, int64_t n, int64_t k);

// The blocks as the member that the kernel text wants: "static constexpr GemmBlocks kBlocks = {...};".
std::string gemm_blocks_text(const GemmBlocks& blocks);

}  // namespace causeway::codegen
