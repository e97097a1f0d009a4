// A compiled graph: a list of launches over buffers at fixed offsets. Nothing is allocated while it runs, once the
// arena has grown to what memory() states.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causeway/device/device.h"
#include "causeway/program/arena.h"
#include "causeway/program/fusion.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/non_finite_value.h"

namespace causeway::program {

// What a program needs beside its inputs and outputs, for given sizes.
struct ProgramMemory {
  int64_t arena_bytes = 0;  // values and workspaces at fixed offsets
  int64_t input_bytes = 0;  // all inputs: data, parameters, state
  int64_t output_bytes = 0;
  struct Item {
    std::string name;  // what the buffer holds: "dot bf16[4096, 3072] (layers.0.mlp)"
    int64_t bytes = 0;
  };
  std::vector<Item> largest;  // of the arena, at most 10
};

class Program {
 public:
  // `graph` has been through the passes. The device, library and arena outlive the program.
  // Throws what compiling a kernel throws.
  Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena);

  // Runs once. `inputs` are device pointers in the order of graph().inputs(), `outputs` in that of graph().outputs.
  // Inputs with an assignment are updated in place. `bindings` gives every symbol's value.
  void run(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings = {});

  // Runs as run() does, and looks at every float value after each kernel; slow.
  std::optional<NonFiniteValue> run_and_find_non_finite(std::span<void* const> inputs, std::span<void* const> outputs,
                                                        const SymbolBindings& bindings = {});

  // Runs as run() does and returns the seconds each kernel took, in the order of kernel_reports().
  std::vector<double> run_timed(std::span<void* const> inputs, std::span<void* const> outputs,
                                const SymbolBindings& bindings = {});

  const Graph& graph() const { return graph_; }
  ProgramMemory memory(const SymbolBindings& bindings = {});

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
  enum class Place { kArena, kInput, kOutput };
  struct Reference {
    Place place = Place::kArena;
    int64_t index = 0;  // arena: offset in bytes; otherwise position
  };
  struct Launch {
    size_t kernel = 0;
    DeviceKernel entry = nullptr;
    std::vector<Reference> buffers;
    std::vector<int64_t> sizes;
    int64_t tasks = 0;
    int64_t scratch_bytes = 0;
    const KernelPhase* phase = nullptr;
    std::vector<TensorMap> tensor_maps;
  };
  struct Copy {
    Reference from, to;
    int64_t bytes = 0;
  };
  // The program for one set of sizes.
  struct Bound {
    std::vector<Launch> launches;
    std::vector<Copy> copies;  // after the launches
    int64_t arena_bytes = 0;
    ProgramMemory memory;
    // The whole run, recorded for these addresses (arena, inputs, outputs). The first run at an address is launched one
    // by one, which is as fast when there is no second.
    std::vector<void*> addresses;
    std::shared_ptr<DeviceGraph> recording;
  };

  void compile(KernelLibrary& library);
  void find_donations();
  // Whether the kernel reads each element of `input` only to compute the same element of its results.
  bool may_overwrite(size_t kernel, Value input) const;
  bool reads_only_at_own_position(Value member, Value input) const;
  Bound& bind(const SymbolBindings& bindings);
  Bound make_bound(const SymbolBindings& bindings) const;
  void launch_all(const Bound& bound, std::byte* arena, std::span<void* const> inputs, std::span<void* const> outputs);
  void run_launch(const Launch& launch, std::byte* arena, std::span<void* const> inputs,
                  std::span<void* const> outputs);
  void run_copies(const Bound& bound, std::byte* arena, std::span<void* const> inputs, std::span<void* const> outputs);

  Graph graph_;
  Device& device_;
  Arena& arena_;
  FusionResult fusion_;
  std::vector<GeneratedKernel> kernels_;
  std::vector<size_t> source_of_;  // kernel -> sources_
  std::vector<std::string> sources_;
  std::vector<std::shared_ptr<DeviceModule>> modules_;  // by source
  std::vector<std::vector<DeviceKernel>> entries_;      // kernel, phase
  std::map<Value, int64_t> donated_;                    // value -> the input it overwrites
  std::map<std::vector<std::pair<int32_t, int64_t>>, Bound> bound_;
};

}  // namespace causeway::program
