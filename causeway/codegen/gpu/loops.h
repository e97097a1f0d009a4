// Decisions that the writers of GPU loops share: the type of indices, how many elements a thread computes side by side,
// and the variables of cut axes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "causeway/codegen/expressions/statements.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

constexpr int kLoopThreads = 256;  // of a block
// Depths of loop variables: those of a thread, of the elements that it walks, and of neighbours side by side.
constexpr int kThreadDepth = 1, kElementDepth = 2, kLaneDepth = 3;

// The type of indices: i32 when no tensor that the request reads, writes or passes through has 2^31 elements or more
// (64-bit division is slow on GPUs); i64 otherwise, or when sizes are not known.
DType gpu_index_type(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request);

// How many neighbouring elements a thread computes so that the narrowest, or the widest, of the large tensors is
// accessed 16 bytes at a time: 8, 4 or 2, or 1 where `extent`, the contiguous range to cut, is no multiple. `count` is
// the number of elements of a large tensor.
enum class LanesBy { kNarrowest, kWidest };
int gpu_lanes(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
              const Dim& count, const Dim& extent, LanesBy by = LanesBy::kNarrowest);

// `const T name = ...;` for each axis of a running number, the last axis fastest. Axes are names and extents' text.
std::string gpu_axis_variables(const std::string& type, const std::string& running,
                               const std::vector<std::pair<std::string, std::string>>& axes);

// A sum or maximum under way, in kernel text.
class GpuAccumulator {
 public:
  GpuAccumulator(Op op, DType dtype) : op_(op), dtype_(dtype) {}

  std::string type() const;       // of the variable
  std::string initial() const;    // its value before the first element
  std::string operation() const;  // SumOf or LargerOf (kernels/gpu/reduce.h)
  // A statement that takes in an element of the reduction's input, or another accumulator's value.
  std::string take(const std::string& name, const std::string& value) const;
  // The reduction's result, rounded to its dtype, in the type it is computed with.
  std::string result(const std::string& value) const;

 private:
  Op op_;
  DType dtype_;
};

// A sum or maximum whose parts blocks have left in a workspace.
struct GpuPartsOfSum {
  Op op;
  DType dtype;
  std::string result;  // the pointer to where it goes
};
// How a second launch adds them up: a block takes `neighbours` results, and each of its rows of as many threads a share
// of the parts of every sum, all together up to `most_together` and else `unrolled` at a time.
struct GpuPartsLaunch {
  int neighbours = 32;
  int most_together = 16;
  int unrolled = 4;
};
// The body of that launch, of kLoopThreads threads a block, which needs kLoopThreads accumulators in shared memory:
// adds up, in order, `partials`, which holds for each of the sums `parts` times `count` results.
std::string gpu_add_parts(const GpuPartsLaunch& launch, const std::string& index_type, const std::string& count,
                          int64_t parts, const std::vector<GpuPartsOfSum>& sums);

// A loop with sums over its columns as a function of a kernel's blocks: `compute_rows(buffers, sizes)`, which all of
// `threads` threads call.
struct GpuRowFunction {
  std::string text;
  int threads = 0;
  // What its buffers and sizes are.
  std::vector<KernelArgument> arguments;
  std::vector<Dim> sizes;
};
// Nothing where blocks cannot do that. `result`, the only member that is stored, goes to shared memory from the byte
// `shared_offset` on, and the function uses the bytes before that, of which there are at least 256.
std::optional<GpuRowFunction> write_gpu_row_function(const KernelInputs& inputs, Value result, int shared_offset);

// A launch of blocks of `threads` threads.
KernelPhase gpu_phase(const std::string& name, int threads, int shared_bytes, SizeFunction tasks);

}  // namespace causeway::codegen
