// What one rank computes with: a device, its compiled kernels and programs, its working memory. Nothing of it is
// shared with another context, so that several live side by side in one process: GPUs, emulators, a run beside another.
//
// Tensors and steps belong to a context and keep it alive. What is made from nothing (a constant, a tensor from values,
// a step) belongs to the thread's current one, which a ContextScope sets; there is none until then.
//
//   const ContextScope scope(Context::open("cuda:1"));
//   const Tensor x = Tensor::from_values({1, 2, 3}, {3});
//
// A context is used by one thread at a time. Different contexts may be used by different threads at the same time, and
// may share a KernelCache.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "causeway/device/device.h"
#include "causeway/graph/sharding.h"
#include "causeway/program/program_options.h"

namespace causeway::graph {
class Graph;
}
namespace causeway::passes {
struct PipelineTrace;
}
namespace causeway::codegen {
class KernelCache;
}
namespace causeway::communicator {
class MeshCommunicators;
}

namespace causeway::program {

class Arena;
class HeldMemory;
class KernelLibrary;
class Program;
struct LoweringOptions;
struct ProgramMemory;

struct ContextOptions {
  std::shared_ptr<KernelCache> cache = {};  // null: the user's own, on disk
  // The ranks of its run, each with a context of its own, and which of them this is. Empty: there is one.
  Mesh mesh = {};
  int rank = 0;
  // What this rank exchanges data through. Null: programs over the mesh compile, and those with collectives do not run.
  std::shared_ptr<MeshCommunicators> communicators = {};
};

class Context {
 public:
  explicit Context(std::shared_ptr<Device> device, ContextOptions options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // On the device that open_device() opens for this specification and architecture. Throws as it does.
  static std::shared_ptr<Context> open(const std::string& specification, ContextOptions options = {},
                                       const std::string& architecture = {});
  // That of the thread's innermost ContextScope. Throws Error(kInvalidArgument) outside of any.
  static const std::shared_ptr<Context>& current();

  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  const Mesh& mesh() const { return mesh_; }
  int rank() const { return rank_; }
  // i32 [number of axes] on the device: the rank's coordinates, what graphs take as kMeshCoordinates.
  const DeviceBuffer& mesh_coordinates() const { return mesh_coordinates_; }
  // Null where there are none.
  const std::shared_ptr<MeshCommunicators>& communicators() const { return communicators_; }
  KernelLibrary& library() { return *library_; }
  Arena& arena() { return *arena_; }
  // What its programs write to only after others have read it.
  HeldMemory& held_memory() { return *held_; }

  // The passes, with the sizes that the device prefers and for a rank of the mesh.
  Graph run_passes(const Graph& graph, const PipelineOptions& options, PipelineTrace* trace = nullptr) const;
  // Passes, fusion, code generation, compilation. Programs of equal graphs and options are shared. Throws
  // Error(kInvalidArgument) when the device has no more units than the options leave free.
  std::shared_ptr<Program> compile(const Graph& graph, const ProgramOptions& options, PipelineTrace* trace = nullptr);

  // What that program takes, with no kernel compiled. The graph's sizes are numbers.
  ProgramMemory plan_memory(const Graph& graph, const ProgramOptions& options) const;

  // Forgets the programs that nobody else holds, and gives working memory back to the device's driver: between
  // pieces of work that have nothing in common, and before another process needs it.
  void release_memory();

 private:
  LoweringOptions lowering_of(const ProgramOptions& options) const;

  std::shared_ptr<Device> device_;
  Mesh mesh_;
  int rank_;
  std::shared_ptr<MeshCommunicators> communicators_;
  DeviceBuffer mesh_coordinates_;
  std::unique_ptr<KernelLibrary> library_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<HeldMemory> held_;
  std::map<std::string, std::shared_ptr<Program>> programs_;  // by text of options and graph
};

// Makes a context the thread's current one while it lives; what was current before is so again afterwards. Scopes of a
// thread end in the opposite order of their beginning, on that thread.
class ContextScope {
 public:
  explicit ContextScope(std::shared_ptr<Context> context);
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope();

 private:
  std::shared_ptr<Context> previous_;
};

}  // namespace causeway::program
