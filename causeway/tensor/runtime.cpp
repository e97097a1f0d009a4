#include "causeway/tensor/runtime.h"

#include "causeway/base/error.h"
#include "causeway/device/cpu/cpu_device.h"
#include "causeway/device/open_device.h"
#include "causeway/graph/printer.h"
#include "causeway/program/arena.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/program.h"

namespace causeway::tensor {
namespace {

std::shared_ptr<Runtime>& current_runtime() {
  static std::shared_ptr<Runtime> runtime;
  return runtime;
}

std::string options_text(const PipelineOptions& options) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", dtype_name(options.mixed_precision.compute),
                     dtype_name(options.mixed_precision.residual), options.fp8_products, options.tf32_products,
                     recompute_policy_name(options.recompute), options.expand_linear_cross_entropy,
                     options.linear_cross_entropy.logits_bytes, options.linear_cross_entropy.narrow_logits,
                     options.linear_cross_entropy.vocabulary_multiple);
}

}  // namespace

Runtime::Runtime(std::shared_ptr<Device> device, std::shared_ptr<KernelCache> cache)
    : device_(std::move(device)),
      library_(std::make_unique<KernelLibrary>(*device_, cache ? std::move(cache) : std::make_shared<KernelCache>())),
      arena_(std::make_unique<Arena>(*device_)) {}

Runtime::~Runtime() = default;

Runtime& Runtime::current() {
  std::shared_ptr<Runtime>& runtime = current_runtime();
  if (runtime == nullptr) runtime = std::make_shared<Runtime>(std::make_shared<CpuDevice>());
  return *runtime;
}

void Runtime::use_device(const std::string& specification) {
  static std::string in_use;
  if (current_runtime() != nullptr && in_use == specification) return;
  use(std::make_shared<Runtime>(open_device(specification)));
  in_use = specification;
}

void Runtime::use(std::shared_ptr<Runtime> runtime) { current_runtime() = std::move(runtime); }

std::shared_ptr<Program> Runtime::compile(const Graph& graph, const PipelineOptions& options, PipelineTrace* trace) {
  const std::string key = options_text(options) + "\n" + print_graph(graph);
  if (trace == nullptr)
    if (const auto entry = programs_.find(key); entry != programs_.end()) return entry->second;
  auto program = std::make_shared<Program>(run_pipeline(graph, options, trace), *device_, *library_, *arena_);
  programs_[key] = program;
  return program;
}

void Runtime::release_memory() {
  programs_.clear();
  arena_->release();
  device_->release_unused_memory();
}

}  // namespace causeway::tensor
