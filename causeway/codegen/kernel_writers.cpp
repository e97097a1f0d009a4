#include "causeway/codegen/kernel_writers.h"

#include <fmt/format.h>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"

namespace causeway::codegen {
namespace {

// The writers of one family of targets.
struct TargetWriters {
  KernelWriterEntry loop, column_reduce, axis, scatter_add, dot, attention, attention_block_map, user;
  std::string (*buffer_pointer)(const std::string& type, size_t position);
  // Null: none is hidden.
  bool (*hides_epilogue)(const Graph& graph, const KernelRequest& gemm, Value value, const Target& target);

  KernelWriterEntry of(KernelKind kind) const {
    switch (kind) {
      case KernelKind::kLoop:
        return loop;
      case KernelKind::kColumnReduce:
        return column_reduce;
      case KernelKind::kArgmax:
      case KernelKind::kCumsum:
      case KernelKind::kTopk:
        return axis;
      case KernelKind::kScatterAdd:
        return scatter_add;
      case KernelKind::kDot:
      case KernelKind::kGroupedDot:
        return dot;
      case KernelKind::kAttentionBlockMap:
        return attention_block_map;
      case KernelKind::kAttention:
      case KernelKind::kAttentionGradient:
        return attention;
      case KernelKind::kUser:
        return user;
      case KernelKind::kCollective:
        return {write_collective};
      case KernelKind::kMessage:
        return {write_message};
    }
    CAUSEWAY_CHECK(false, "no such kind of kernel");
    return {};
  }
};

constexpr TargetWriters kX86Writers = {
    .loop = {write_loop_kernel, find_loop_obstacle},
    .column_reduce = {write_column_reduce_kernel},
    .axis = {write_axis_kernel},
    .scatter_add = {write_scatter_add_kernel},
    .dot = {write_dot_kernel, find_dot_obstacle},
    .attention = {write_attention_kernel},
    .attention_block_map = {write_attention_block_map_kernel},
    .user = {write_user_kernel},
    .buffer_pointer = [](const std::string& type,
                         size_t position) { return fmt::format("static_cast<{}*>(buffers[{}])", type, position); },
    .hides_epilogue = nullptr,
};

constexpr TargetWriters kGpuWriters = {
    .loop = {write_gpu_loop_kernel, find_gpu_loop_obstacle},
    .column_reduce = {write_gpu_column_reduce_kernel},
    .axis = {write_gpu_axis_kernel},
    .scatter_add = {write_gpu_scatter_add_kernel},
    .dot = {write_gpu_dot_kernel, find_gpu_dot_obstacle},
    .attention = {write_gpu_attention_kernel, find_gpu_attention_obstacle},
    .attention_block_map = {write_gpu_attention_block_map_kernel},
    .user = {write_gpu_user_kernel},
    .buffer_pointer = [](const std::string& type,
                         size_t position) { return fmt::format("global_pointer<{}>(buffers[{}])", type, position); },
    .hides_epilogue = gpu_gemm_hides_epilogue,
};

// What `kernel` was written from are its own members; gives it the arguments and blocks of those that are alike.
void add_alike(GeneratedKernel& kernel, const KernelWriterEntry& writer, const KernelInputs& inputs) {
  CAUSEWAY_CHECK(inputs.target.is_gpu() && inputs.request.kind == KernelKind::kLoop && kernel.sizes.empty(),
                 "only a GPU's loops of fixed sizes share a launch");
  // Its blocks are dealt out one by one.
  for (const KernelPhase& phase : kernel.phases)
    CAUSEWAY_CHECK(phase.cluster == 1, "loops whose rows have clusters of blocks share no launch");
  KernelRequest other = inputs.request;
  for (const std::vector<Value>& members : inputs.request.alike) {
    other.members = members;
    const GeneratedKernel one = writer.write({inputs.graph, inputs.materialized, other, inputs.target});
    CAUSEWAY_CHECK(one.source == kernel.source, "loops that are to share a launch differ");
    kernel.arguments.insert(kernel.arguments.end(), one.arguments.begin(), one.arguments.end());
  }
  const auto loops = static_cast<int64_t>(1 + inputs.request.alike.size());
  for (KernelPhase& phase : kernel.phases)
    phase.tasks = [loops, of_one = std::move(phase.tasks)](const SymbolBindings& bindings) {
      return loops * of_one(bindings);
    };
}

const TargetWriters& writers_for(const Target& target) { return target.is_gpu() ? kGpuWriters : kX86Writers; }

}  // namespace

KernelWriterEntry kernel_writer(KernelKind kind, const Target& target) { return writers_for(target).of(kind); }

std::string buffer_pointer_text(const Target& target, const std::string& type, size_t position) {
  return writers_for(target).buffer_pointer(type, position);
}

GeneratedKernel generate_kernel(const Graph& graph, const MaterializedValues& materialized,
                                const KernelRequest& request, const Target& target) {
  const KernelWriterEntry writer = kernel_writer(request.kind, target);
  GeneratedKernel kernel = writer.write({graph, materialized, request, target});
  if (!request.alike.empty()) add_alike(kernel, writer, {graph, materialized, request, target});
  if (request.fixed_order && !kernel.source.empty()) kernel.source.insert(0, kSeparateRounding);
  return kernel;
}

std::optional<Obstacle> find_obstacle(const Graph& graph, const MaterializedValues& materialized,
                                      const KernelRequest& request, const Target& target) {
  const KernelWriterEntry writer = kernel_writer(request.kind, target);
  if (writer.find_obstacle == nullptr) return std::nullopt;
  return writer.find_obstacle({graph, materialized, request, target});
}

bool hides_epilogue(const Graph& graph, const KernelRequest& gemm, Value value, const Target& target) {
  const TargetWriters& writers = writers_for(target);
  return writers.hides_epilogue != nullptr && writers.hides_epilogue(graph, gemm, value, target);
}

}  // namespace causeway::codegen
