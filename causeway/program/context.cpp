#include "causeway/program/context.h"

#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/communicator/mesh_communicators.h"
#include "causeway/device/open_device.h"
#include "causeway/device/preferred_sizes.h"
#include "causeway/graph/printer.h"
#include "causeway/passes/pipeline.h"
#include "causeway/program/arena.h"
#include "causeway/program/held_memory.h"
#include "causeway/program/kernel_library.h"
#include "causeway/program/lowering.h"
#include "causeway/program/program.h"
#include "causeway/program/program_memory.h"

namespace causeway::program {
namespace {

thread_local std::shared_ptr<Context> current_context;

}  // namespace

Context::Context(std::shared_ptr<Device> device, ContextOptions options)
    : device_(std::move(device)),
      mesh_(std::move(options.mesh)),
      rank_(options.rank),
      communicators_(std::move(options.communicators)),
      library_(std::make_unique<KernelLibrary>(
          *device_, options.cache != nullptr ? std::move(options.cache) : std::make_shared<KernelCache>())),
      arena_(std::make_unique<Arena>(*device_, communicators_.get())),
      held_(std::make_unique<HeldMemory>()) {
  CAUSEWAY_CHECK(rank_ >= 0 && (mesh_.empty() || rank_ < mesh_.ranks()));
  CAUSEWAY_CHECK(communicators_ == nullptr || (communicators_->mesh() == mesh_ && communicators_->rank() == rank_),
                 "communicators of another mesh or rank than their context's");
  if (mesh_.empty()) return;
  std::vector<int32_t> coordinates;
  for (size_t axis = 0; axis < mesh_.axes.size(); ++axis)
    coordinates.push_back(static_cast<int32_t>(mesh_.coordinate(rank_, axis)));
  const size_t bytes = coordinates.size() * sizeof(int32_t);
  mesh_coordinates_ = device_->allocate(bytes);
  device_->copy_to_device(mesh_coordinates_.data(), coordinates.data(), bytes);
}

Context::~Context() = default;

std::shared_ptr<Context> Context::open(const std::string& specification, ContextOptions options,
                                       const std::string& architecture) {
  return std::make_shared<Context>(open_device(specification, {}, architecture), std::move(options));
}

const std::shared_ptr<Context>& Context::current() {
  if (current_context == nullptr)
    throw Error(ErrorKind::kInvalidArgument, "no context is current in this thread", {},
                "Open one and enter it where the thread begins: const ContextScope scope(Context::open(\"cpu\")).");
  return current_context;
}

Graph Context::run_passes(const Graph& graph, const PipelineOptions& options, PipelineTrace* trace) const {
  return run_pipeline(graph, options, device_->target().preferred_sizes(), mesh_, trace);
}

std::shared_ptr<Program> Context::compile(const Graph& graph, const ProgramOptions& options, PipelineTrace* trace) {
  const std::string key = fields_text(options) + "\n" + print_graph(graph);
  if (trace == nullptr)
    if (const auto entry = programs_.find(key); entry != programs_.end()) return entry->second;
  auto program = std::make_shared<Program>(run_passes(graph, options.pipeline, trace), *device_, *library_, *arena_,
                                           lowering_of(options), communicators_.get(), held_.get());
  programs_[key] = program;
  return program;
}

ProgramMemory Context::plan_memory(const Graph& graph, const ProgramOptions& options) const {
  return count_memory(
      lower_unloaded(run_passes(graph, options.pipeline), device_->target(), lowering_of(options)).lowered);
}

LoweringOptions Context::lowering_of(const ProgramOptions& options) const {
  LoweringOptions lowering = default_lowering(device_->target(), options.free_units);
  lowering.fixed_order = options.pipeline.mesh_independent;
  lowering.offloads_activations = options.offloads_activations;
  return lowering;
}

void Context::release_memory() {
  programs_.clear();
  arena_->release();
  device_->release_unused_memory();
}

ContextScope::ContextScope(std::shared_ptr<Context> context) {
  CAUSEWAY_CHECK(context != nullptr);
  previous_ = std::exchange(current_context, std::move(context));
}

ContextScope::~ContextScope() { current_context = std::move(previous_); }

}  // namespace causeway::program
