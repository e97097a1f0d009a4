#include <fmt/format.h>

#include "causeway/base/error.h"
#include "causeway/bench/providers/matmul_provider.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/passes/builder.h"
#include "causeway/program/arena.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/program.h"

namespace causeway::bench {
namespace {

class CausewayMatmul : public PreparedMatmul {
 public:
  CausewayMatmul(Device& device, KernelLibrary& library, const Graph& graph, void* a, void* b, void* c)
      : arena_(device), program_(graph, device, library, arena_), inputs_{a, b}, outputs_{c} {}
  void run() override { program_.run(inputs_, outputs_); }

 private:
  Arena arena_;
  Program program_;
  std::vector<void*> inputs_, outputs_;
};

class CausewayMatmuls : public MatmulProvider {
 public:
  explicit CausewayMatmuls(Device& device) : device_(device), library_(device, std::make_shared<KernelCache>()) {}
  std::string name() const override { return "Causeway"; }

  std::unique_ptr<PreparedMatmul> prepare(const MatmulWorkload& w, void* a, void* b, void* c) override {
    const Target& target = device_.target();
    if (w.tf32 && !(target.is_gpu() && target.architecture().has_tf32_matrix))
      throw Error(ErrorKind::kUnsupported, fmt::format("{} has no instructions that multiply tf32", device_.name()),
                  "causeway");
    Graph graph;
    const Value left = graph.add_input("a", {w.operands, {Dim(w.m), Dim(w.k)}});
    const Value right = graph.add_input("b", {w.operands, {Dim(w.n), Dim(w.k)}});
    graph.outputs = {Builder(graph).dot(left, right, false, true, w.result(), w.tf32)};
    return std::make_unique<CausewayMatmul>(device_, library_, graph, a, b, c);
  }

 private:
  Device& device_;
  KernelLibrary library_;
};

}  // namespace

std::string MatmulWorkload::name() const { return fmt::format("{}x{}x{}", m, n, k); }
std::string MatmulWorkload::type() const { return tf32 ? "tf32" : std::string(dtype_name(operands)); }

std::unique_ptr<MatmulProvider> make_causeway_matmul(Device& device) {
  return std::make_unique<CausewayMatmuls>(device);
}

}  // namespace causeway::bench
