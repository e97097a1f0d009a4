// The device that tensors live on, with its compiled kernels and working memory. One for each process and device.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "causeway/device/device.h"
#include "causeway/passes/pipeline.h"

namespace causeway::codegen {
class KernelCache;
}
namespace causeway::program {
class Arena;
class KernelLibrary;
class Program;
}  // namespace causeway::program

namespace causeway::tensor {

class Runtime {
 public:
  // Without a cache: the user's own, on disk.
  explicit Runtime(std::shared_ptr<Device> device, std::shared_ptr<KernelCache> cache = nullptr);
  ~Runtime();

  // The runtime that tensors use: the CPU unless use() set another.
  static Runtime& current();
  // Before the first tensor is made.
  static void use(std::shared_ptr<Runtime> runtime);
  // Opens the device (open_device()) and uses it, unless it is in use already. Throws as open_device() does.
  static void use_device(const std::string& specification);

  Device& device() { return *device_; }
  KernelLibrary& library() { return *library_; }
  Arena& arena() { return *arena_; }

  // Passes, fusion, code generation, compilation. Programs of equal graphs and options are shared.
  std::shared_ptr<Program> compile(const Graph& graph, const PipelineOptions& options, PipelineTrace* trace = nullptr);

  // Forgets the programs that nobody else holds, and gives working memory back to the device's driver: between
  // pieces of work that have nothing in common, and before another process needs it.
  void release_memory();

 private:
  std::shared_ptr<Device> device_;
  std::unique_ptr<KernelLibrary> library_;
  std::unique_ptr<Arena> arena_;
  std::map<std::string, std::shared_ptr<Program>> programs_;  // by graph text and options
};

}  // namespace causeway::tensor
