// What block_barrier() promises, in the machine code that AMD's GPUs run: the compiler leaves the wait that a fence
// asks for out at the head of some loops, which no test that runs the text can see.
#include <gtest/gtest.h>

#include <string>

#include "causeway/codegen/checks/code_check.h"
#include "causeway/codegen/compile/compiler.h"
#include "tests/mutation/planted_faults.h"

namespace causeway::codegen {
namespace {

// Slices of two stages: while one is read the next is written, and the barrier at the head of each turn is all there is
// between them. That nothing is under way where the loop is entered makes clang 22 forget the way back.
constexpr char kStages[] = R"(
#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(stages, 256, 1, 2, 1, 1) {
  const uint16_t* x = global_pointer<const uint16_t>(buffers[0]);
  float* y = global_pointer<float>(buffers[1]);
  auto* shared = (__attribute__((address_space(3))) uint16_t*)shared_memory();
  const int at = thread_index(), turns = static_cast<int>(sizes[0]);
  float sum = 0.0f;
  shared[at] = x[at];
  block_barrier();
#pragma clang loop unroll(disable)
  for (int turn = 0; turn < turns; ++turn) {
    block_barrier();
    const bool more = turn + 1 < turns;
    uint16_t next = 0;
    if (more) next = x[turn * 256 + at];
    sum += shared[(turn & 1) * 4096 + (at ^ 77)];
    sum += shared[(turn & 1) * 4096 + (at ^ 177)];
    if (more) shared[(~turn & 1) * 4096 + at] = next + static_cast<uint16_t>(sum);
  }
  y[at] = sum;
}
)";

TEST(AmdBarrier, NoAccessOfSharedMemoryIsUnderWay) {
  for (const char* processor : {"gfx90a", "gfx942"}) {
    const Target target = gpu_target(processor);
    const auto checks = check_code(compile_module(with_planted_fault(kStages), target), target);
    ASSERT_TRUE(checks.has_value());
    ASSERT_EQ(checks->size(), 1u);
    EXPECT_EQ(checks->at(0).barriers, 2);
    for (const CodeFinding& finding : checks->at(0).findings)
      ADD_FAILURE() << processor << " " << finding_text(finding, target);
  }
}

}  // namespace
}  // namespace causeway::codegen
