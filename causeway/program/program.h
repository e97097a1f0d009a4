// A compiled graph: kernels, and for given sizes instructions on the device's queues over buffers at fixed places.
// Nothing is allocated while it runs, once the arena has grown to what memory() states.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/program/arena.h"
#include "causeway/program/executor.h"
#include "causeway/program/fusion.h"
#include "causeway/program/instruction.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/lowering.h"
#include "causeway/program/non_finite_value.h"
#include "causeway/program/program_memory.h"

namespace causeway::program {

class Program {
 public:
  // `graph` has been through the passes. The device, library and arena outlive the program.
  // Throws what compiling a kernel throws.
  Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena);
  Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena, const LoweringOptions& lowering);

  // Runs once. `inputs` are device pointers in the order of graph().inputs(), `outputs` in that of graph().outputs: the
  // caller's buffers, of which none overlaps another. Inputs with an assignment are updated in place. `bindings` gives
  // every symbol's value.
  void run(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings = {});

  // As run(), for buffers that the caller keeps from run to run: the second run on the same ones is recorded, and those
  // after it are replays of that. Other buffers than last time begin anew.
  void run_recorded(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings = {});

  // Runs as run() does, and looks at every float value after each kernel; slow.
  std::optional<NonFiniteValue> run_and_find_non_finite(std::span<void* const> inputs, std::span<void* const> outputs,
                                                        const SymbolBindings& bindings = {});

  // Runs as run() does and returns the seconds each kernel took, in the order of kernel_reports().
  std::vector<double> run_timed(std::span<void* const> inputs, std::span<void* const> outputs,
                                const SymbolBindings& bindings = {});

  const Graph& graph() const { return graph_; }
  ProgramMemory memory(const SymbolBindings& bindings = {});
  // The instructions for these sizes, verified.
  const LoweredProgram& lowered(const SymbolBindings& bindings = {});

  struct KernelReport {
    std::string kind;     // "loop", "dot", ...
    std::string members;  // the values it computes
    std::string scope;
    size_t source = 0;  // index into sources()
    std::vector<KernelPhase> phases;
  };
  // One entry for each use of a kernel, in order.
  std::vector<KernelReport> kernel_reports() const;
  // The distinct kernels' C++ text.
  const std::vector<std::string>& sources() const { return sources_; }

 private:
  // The program for one set of sizes.
  struct Bound {
    Bound(LoweredProgram lowered, Device& device) : program(std::move(lowered)), executor(program, device) {}

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
  std::vector<size_t> source_of_;  // kernel -> sources_
  std::vector<std::string> sources_;
  std::vector<std::shared_ptr<DeviceModule>> modules_;  // by source
  std::vector<std::vector<DeviceKernel>> entries_;      // kernel, phase
  LoweringOptions lowering_;
  std::map<std::vector<std::pair<int32_t, int64_t>>, std::unique_ptr<Bound>> bound_;
};

}  // namespace causeway::program
