#include <fmt/format.h>

#include <random>

#include "causeway/base/error.h"
#include "causeway/bench/providers/gemm_provider.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/passes/builder.h"
#include "causeway/passes/tf32_gemms.h"
#include "causeway/program/arena.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/program.h"

namespace causeway::bench {
namespace {

class CausewayGemm : public PreparedGemm {
 public:
  CausewayGemm(Device& device, KernelLibrary& library, const Graph& graph, void* a, void* b, void* c)
      : arena_(device), program_(graph, device, library, arena_), inputs_{a, b}, outputs_{c} {}
  void add_scales(DeviceBuffer scales) {
    inputs_.push_back(scales.data());
    scales_.push_back(std::move(scales));
  }
  void run() override { program_.run_recorded(inputs_, outputs_); }

 private:
  Arena arena_;
  Program program_;
  std::vector<DeviceBuffer> scales_;
  std::vector<void*> inputs_, outputs_;
};

class CausewayGemms : public GemmProvider {
 public:
  explicit CausewayGemms(Device& device) : device_(device), library_(device, std::make_shared<KernelCache>()) {}
  std::string name() const override { return "Causeway"; }

  std::unique_ptr<PreparedGemm> prepare(const GemmWorkload& w, void* a, void* b, void* c) override {
    const Target& target = device_.target();
    if (w.tf32 && !(target.is_gpu() && target.architecture().has_tf32_matrix))
      throw Error(ErrorKind::kUnsupported, fmt::format("{} has no instructions that multiply tf32", device_.name()),
                  "causeway");
    Graph graph;
    const auto matrix = [&](const char* name, bool along_k, int64_t lines) {
      const Dim across(lines), along(w.k);
      return graph.add_input(name, {w.operands, along_k ? Shape{across, along} : Shape{along, across}});
    };
    const Value left = matrix("a", !w.a_along_m, w.m), right = matrix("b", !w.b_along_n, w.n);
    if (w.block_scales) return prepare_blocks(w, graph, a, b, c);
    // Copies that a training step makes of operands are part of the GEMM: those of 8 bits are multiplied along k alone.
    if (size_bytes(w.operands) == 1 && target.is_gpu() && target.architecture().has_f8_matrix) {
      const auto along_k = [&](Value matrix, bool lies_so) {
        return lies_so ? matrix : Builder(graph).permute(matrix, {1, 0});
      };
      const Value lines = along_k(left, !w.a_along_m), columns = along_k(right, !w.b_along_n);
      graph.outputs = {Builder(graph).dot(lines, columns, false, true, w.result(), w.tf32)};
    } else {
      graph.outputs = {Builder(graph).dot(left, right, w.a_along_m, !w.b_along_n, w.result(), w.tf32)};
    }
    if (w.tf32) graph = tf32_gemms(graph, target.preferred_sizes().tf32_along_k);
    return std::make_unique<CausewayGemm>(device_, library_, graph, a, b, c);
  }

 private:
  Device& device_;
  KernelLibrary library_;

  // The graph has the operands.
  std::unique_ptr<PreparedGemm> prepare_blocks(const GemmWorkload& w, Graph& graph, void* a, void* b, void* c) {
    if (!device_.target().preferred_sizes().f8_blocks)
      throw Error(ErrorKind::kUnsupported, fmt::format("{} has no kernels for block-scaled GEMMs", device_.name()),
                  "causeway");
    const Value a_scales = graph.add_input("scales of a", {DType::kF32, {Dim(w.k / kScaledBlock), Dim(w.m)}});
    const Value b_scales =
        graph.add_input("scales of b", {DType::kF32, {Dim(w.k / kScaledBlock), Dim(w.n / kScaledBlock)}});
    graph.outputs = {Builder(graph).scaled_dot(graph.inputs()[0], graph.inputs()[1], a_scales, b_scales, w.result())};
    auto prepared = std::make_unique<CausewayGemm>(device_, library_, graph, a, b, c);
    const GemmScales scales = gemm_scales(w);
    prepared->add_scales(copy_scales(device_, scales.a));
    prepared->add_scales(copy_scales(device_, scales.b));
    return prepared;
  }
};

}  // namespace

std::string GemmWorkload::order() const { return fmt::format("{}{}", a_along_m ? 't' : 'n', b_along_n ? 'n' : 't'); }
std::string GemmWorkload::layout() const {
  return fmt::format("C[m, n] = {} {}", a_along_m ? "A[k, m]^T" : "A[m, k]", b_along_n ? "B[k, n]" : "B[n, k]^T");
}
std::string GemmWorkload::name() const {
  const std::string sizes = fmt::format("{}x{}x{}", m, n, k);
  return order() == "nt" ? sizes : fmt::format("{} {}", sizes, order());
}
std::string GemmWorkload::type() const {
  return tf32 ? "tf32" : fmt::format("{}{}", dtype_name(operands), block_scales ? "_block" : "");
}

GemmScales gemm_scales(const GemmWorkload& w) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> distribution(0.5F, 2.0F);
  const auto draw = [&](int64_t count) {
    std::vector<float> scales(static_cast<size_t>(count));
    for (float& scale : scales) scale = distribution(random);
    return scales;
  };
  const int64_t blocks = w.k / kScaledBlock;
  return {draw(blocks * w.m), draw(blocks * (w.n / kScaledBlock))};
}

DeviceBuffer copy_scales(Device& device, const std::vector<float>& scales) {
  const size_t bytes = scales.size() * sizeof(float);
  DeviceBuffer buffer = device.allocate(bytes);
  device.copy_to_device(buffer.data(), scales.data(), bytes);
  return buffer;
}

std::unique_ptr<GemmProvider> make_causeway_gemm(Device& device) { return std::make_unique<CausewayGemms>(device); }

}  // namespace causeway::bench
