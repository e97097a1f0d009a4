// A compiled graph: kernels, and for given sizes instructions on the device's queues over buffers at fixed places.
// Nothing is allocated while it runs, once the arena has grown to what memory() states.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/base/hash.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/device/device.h"
#include "causeway/program/arena.h"
#include "causeway/program/executor.h"
#include "causeway/program/fusion.h"
#include "causeway/program/instruction.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/lowering.h"
#include "causeway/program/non_finite_value.h"
#include "causeway/program/program_memory.h"
#include "causeway/program/program_reports.h"
#include "causeway/program/program_trace.h"

namespace causeway::program {

class Program {
 public:
  // `graph` has been through the passes. The device, library, arena, communicators and held memory outlive the program;
  // without communicators, one with collectives does not run. Throws what compiling a kernel throws.
  Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena);
  Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena, const LoweringOptions& lowering,
          MeshCommunicators* communicators = nullptr, HeldMemory* held = nullptr);

  // Runs once. `inputs` are device pointers in the order of graph().inputs(), `outputs` in that of graph().outputs: the
  // caller's buffers, of which none overlaps another. Inputs with an assignment are updated in place. `bindings` gives
  // every symbol's value.
  void run(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings = {});

  // As run(), for buffers that the caller keeps from run to run: the second run on the same ones is recorded, and those
  // after it are replays of that. Other buffers than last time begin anew. A run that writes to held memory is launched
  // one by one, and leaves the recording as it is.
  void run_recorded(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings = {});

  // Runs as run() does, and looks at every float value after each kernel; slow.
  std::optional<NonFiniteValue> run_and_find_non_finite(std::span<void* const> inputs, std::span<void* const> outputs,
                                                        const SymbolBindings& bindings = {});

  // Runs as run() does and returns the seconds each kernel took, in the order of kernel_reports(): between marks in
  // its queue, which add a little to short ones. The time of collectives, waiting for other ranks included, is shared
  // out by bytes where several go in one.
  std::vector<double> run_timed(std::span<void* const> inputs, std::span<void* const> outputs,
                                const SymbolBindings& bindings = {});

  // Runs as run() does, never recorded, and says when each instruction but waits was at work: on a GPU by events around
  // it in its queue, elsewhere by the host's clock. Returns when all has been done.
  std::vector<InstructionTime> run_traced(std::span<void* const> inputs, std::span<void* const> outputs,
                                          const SymbolBindings& bindings = {});
  // What the instructions for these sizes are called in a trace, by position; of waits the label is empty.
  std::vector<InstructionLabel> instruction_labels(const SymbolBindings& bindings = {});

  const Graph& graph() const { return graph_; }
  bool has_fixed_order() const { return lowering_.fixed_order; }  // of its sums: LoweringOptions
  ProgramMemory memory(const SymbolBindings& bindings = {});
  // The instructions for these sizes, verified.
  const LoweredProgram& lowered(const SymbolBindings& bindings = {});

  // One entry for each use of a kernel, in order.
  std::vector<KernelReport> kernel_reports() const;
  // What ranks exchange in one run, in order.
  std::vector<CollectiveReport> collectives(const SymbolBindings& bindings = {});
  // What it sends to other stages of a pipeline and receives from them, in order.
  std::vector<MessageReport> messages(const SymbolBindings& bindings = {});
  // Equal on ranks that run the same graph, with the same collectives in the same order.
  Hash128 hash(const SymbolBindings& bindings = {});
  // The distinct kernels' C++ text.
  const std::vector<std::string>& sources() const { return sources_; }

 private:
  // The program for one set of sizes.
  struct Bound {
    Bound(LoweredProgram lowered, Device& device, MeshCommunicators* communicators, HeldMemory* held)
        : program(std::move(lowered)), executor(program, device, communicators, held) {}

    const LoweredProgram program;
    Executor executor;
    // Of run_recorded(), by buffer: the first run on them was launched one by one, which is as fast when there is no
    // second.
    std::vector<void*> addresses;
    std::shared_ptr<DeviceGraph> recording;
    std::vector<void*> asked;  // addresses of the run at hand
  };

  void compile(KernelLibrary& library);
  Bound& bind(const SymbolBindings& bindings);
  // The program for these sizes, with its addresses for these buffers in `asked`.
  Bound& bind(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings);

  Graph graph_;
  Device& device_;
  Arena& arena_;
  FusionResult fusion_;
  std::vector<GeneratedKernel> kernels_;
  std::vector<std::optional<size_t>> source_of_;  // kernel -> sources_
  std::vector<std::string> sources_;
  std::vector<std::shared_ptr<DeviceModule>> modules_;  // by source
  std::vector<std::vector<DeviceKernel>> entries_;      // kernel, phase
  LoweringOptions lowering_;
  MeshCommunicators* communicators_ = nullptr;
  HeldMemory* held_ = nullptr;
  std::map<std::vector<std::pair<int32_t, int64_t>>, std::unique_ptr<Bound>> bound_;
};

}  // namespace causeway::program
