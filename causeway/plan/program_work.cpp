#include "causeway/plan/program_work.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/passes/attended_pairs.h"
#include "causeway/passes/attention_positions.h"
#include "causeway/passes/count_flops.h"
#include "causeway/program/fusion.h"
#include "causeway/program/liveness.h"
#include "causeway/program/lowering.h"

namespace causeway::plan {
namespace {

std::string operand_name(const Graph& graph, const Node& node) {
  const DType dtype = graph.dtype(node.inputs[0]);
  if (dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2) return "fp8";
  return node.attributes.tf32 ? "tf32" : std::string(dtype_name(dtype));
}

// Of a graph's kernels, for sizes of its symbols.
class WorkOfKernels {
 public:
  WorkOfKernels(const Graph& graph, SymbolBindings bindings) : graph_(graph), bindings_(std::move(bindings)) {}

  Work work(const KernelRequest& request, const GeneratedKernel& kernel) {
    const Node& node = graph_.node(request.members.front());
    if (request.kind == KernelKind::kDot) return work_of_gemm(node);
    if (request.kind == KernelKind::kGroupedDot) return work_of_grouped_gemm(node);
    if (request.kind == KernelKind::kAttention || request.kind == KernelKind::kAttentionGradient)
      return work_of_attention(node);
    Work work;
    work.bytes = bytes(request, kernel);
    return work;
  }

  // Read and written, each tensor once. What is looked up in a table, or added to rows of it, is not all of it.
  double bytes(const KernelRequest& request, const GeneratedKernel& kernel) const {
    int64_t most_elements = std::numeric_limits<int64_t>::max();
    if (request.kind == KernelKind::kLoop) most_elements = (request.rows * request.columns).evaluate(bindings_);
    if (request.kind == KernelKind::kScatterAdd) {
      const Value updates = graph_.node(request.members.front()).inputs[2];
      most_elements = element_count(graph_.shape(updates)).evaluate(bindings_);
    }
    double sum = 0;
    for (const KernelArgument& argument : kernel.arguments) {
      if (argument.kind != KernelArgument::Kind::kValue) continue;
      const TensorType& type = graph_.type(argument.value);
      sum +=
          real(std::min(element_count(type.shape).evaluate(bindings_), most_elements)) * real(size_bytes(type.dtype));
    }
    return sum;
  }

 private:
  Work work_of_gemm(const Node& node) const {
    const std::vector<int64_t> a = evaluate(graph_.shape(node.inputs[0]), bindings_);
    const std::vector<int64_t> c = evaluate(node.outputs[0].shape, bindings_);
    Work work;
    work.kind = WorkKind::kGemm;
    work.operand = operand_name(graph_, node);
    work.m = real(c[c.size() - 2]);
    work.n = real(c[c.size() - 1]);
    work.k = real(a[node.attributes.transpose_a ? a.size() - 2 : a.size() - 1]);
    for (size_t axis = 0; axis + 2 < c.size(); ++axis) work.batch *= real(c[axis]);
    work.flops = 2 * work.batch * work.m * work.n * work.k;
    return work;
  }

  // As a batch of as many GEMMs as there are groups, with equal shares of the rows.
  Work work_of_grouped_gemm(const Node& node) const {
    const std::vector<int64_t> a = evaluate(graph_.shape(node.inputs[0]), bindings_);
    const std::vector<int64_t> c = evaluate(node.outputs[0].shape, bindings_);
    Work work;
    work.kind = WorkKind::kGemm;
    work.operand = operand_name(graph_, node);
    work.batch = real(evaluate(graph_.shape(node.inputs[2]), bindings_)[1] - 1);
    const double rows = real(a[0] * a[1]) / work.batch;
    const bool sums_rows = node.attributes.transpose_a;
    work.m = sums_rows ? real(c[1]) : rows;
    work.n = real(c[2]);
    work.k = sums_rows ? rows : real(a[2]);
    work.flops = 2 * work.batch * work.m * work.n * work.k;
    return work;
  }

  Work work_of_attention(const Node& node) {
    const std::vector<int64_t> q = evaluate(graph_.shape(node.inputs[0]), bindings_);
    const std::vector<int64_t> k = evaluate(graph_.shape(node.inputs[1]), bindings_);
    Work work;
    work.kind = WorkKind::kAttention;
    work.operand = operand_name(graph_, node);
    work.head_dim = real(q[3]);
    const double value_dim = real(evaluate(graph_.shape(node.inputs[2]), bindings_)[3]);
    work.flops = attention_flops_of_pair(node.op, work.head_dim, value_dim) *
                 attended_pairs(*node.attributes.attention, {q[0], q[2], q[1], k[1]});
    return work;
  }

  // Where ranks share the queries of a sequence, whose keys they all have, the mask depends on which of them it is.
  static double attended_pairs(const AttentionSpec& spec, const std::array<int64_t, 4>& sizes) {
    const auto [batch, heads, queries, keys] = sizes;
    if (mask_at_query_offset(spec, 0) == nullptr)
      return count_attended_pairs(spec, batch, heads, queries, keys).at_most;
    double sum = 0;
    for (int64_t first = 0; first < keys; first += queries) {
      AttentionSpec of_rank = spec;
      of_rank.mask = mask_at_query_offset(spec, first);
      sum += count_attended_pairs(of_rank, batch, heads, queries, keys).at_most;
    }
    return sum / real((keys + queries - 1) / queries);
  }

  const Graph& graph_;
  SymbolBindings bindings_;
};

class WorkOfProgram {
 public:
  WorkOfProgram(const Graph& graph, const Target& target, const Mesh& mesh, int64_t devices_per_node,
                const LoweringOptions& lowering)
      : mesh_(mesh),
        devices_per_node_(devices_per_node),
        program_(lower_unloaded(graph, target, lowering)),
        of_kernels_(graph, {}) {}

  ProgramWork run() {
    for (const Instruction& instruction : program_.lowered.instructions) add(instruction);
    return {std::move(list_), count_memory(program_.lowered)};
  }

 private:
  void add(const Instruction& instruction) {
    if (const auto* wait = std::get_if<Wait>(&instruction.work)) {
      const auto signal = ended_by_.find(wait->signal);
      if (signal != ended_by_.end()) waits_[instruction.queue].push_back(signal->second);
      return;
    }
    Work work;
    if (const auto* launch = std::get_if<Launch>(&instruction.work))
      work = of_kernels_.work(program_.fusion.kernels[launch->kernel], program_.kernels[launch->kernel]);
    if (const auto* copy = std::get_if<Copy>(&instruction.work)) work = work_of_copy(*copy);
    if (const auto* collectives = std::get_if<Collectives>(&instruction.work)) work = work_of_collectives(*collectives);
    if (const auto* message = std::get_if<StageMessage>(&instruction.work)) work = work_of_message(*message);
    work.queue = instruction.queue;
    work.after = std::move(waits_[instruction.queue]);
    waits_[instruction.queue].clear();
    if (instruction.sets != kNoSignal) ended_by_[instruction.sets] = static_cast<int>(list_.size());
    list_.push_back(std::move(work));
  }

  Work work_of_copy(const Copy& copy) const {
    const std::vector<ProgramBuffer>& buffers = program_.lowered.buffers;
    Work work;
    const bool to_or_from_host =
        buffers[static_cast<size_t>(copy.from.buffer)].on_host || buffers[static_cast<size_t>(copy.to)].on_host;
    if (to_or_from_host) work.kind = WorkKind::kHostCopy;
    work.bytes = real(copy.bytes) * (to_or_from_host ? 1 : 2);
    return work;
  }

  Work work_of_collectives(const Collectives& collectives) const {
    Work work;
    switch (collectives.parts.front().collective.kind) {
      case CollectiveKind::kAllGather:
        work.kind = WorkKind::kAllGather;
        break;
      case CollectiveKind::kReduceScatter:
        work.kind = WorkKind::kReduceScatter;
        break;
      case CollectiveKind::kAllToAll:
        work.kind = WorkKind::kAllToAll;
        break;
      default:
        work.kind = WorkKind::kAllReduce;
    }
    for (const Collectives::Part& part : collectives.parts) {
      const Collective& one = part.collective;
      work.bytes += real(std::max(one.sent(collectives.ranks), one.received(collectives.ranks)) *
                         static_cast<int64_t>(size_bytes(one.dtype)));
    }
    work.ranks = collectives.ranks;
    work.group = collectives.group;
    const std::vector<int64_t> ranks = mesh_.group(0, group_axes(mesh_, collectives.group));
    work.ranks_in_node =
        std::count_if(ranks.begin(), ranks.end(), [&](int64_t rank) { return rank < devices_per_node_; });
    return work;
  }

  // Where sending and receiving run beside each other, both are counted.
  Work work_of_message(const StageMessage& message) const {
    Work work;
    work.kind = WorkKind::kSend;
    work.bytes = real(message.count * static_cast<int64_t>(size_bytes(message.dtype)));
    work.ranks = 2;
    work.ranks_in_node = mesh_.stage_axis()->stride < devices_per_node_ ? 2 : 1;
    work.group = mesh_.stage_axis()->name;
    return work;
  }

  const Mesh& mesh_;
  int64_t devices_per_node_;
  UnloadedProgram program_;
  WorkOfKernels of_kernels_;
  std::vector<Work> list_;
  std::map<Signal, int> ended_by_;
  std::map<DeviceQueue, std::vector<int>> waits_;
};

}  // namespace

ProgramWork work_of_program(const Graph& graph, const Target& target, const Mesh& mesh, int64_t devices_per_node,
                            bool fixed_order, bool offloads_activations) {
  LoweringOptions lowering = default_lowering(target);
  lowering.fixed_order = fixed_order;
  lowering.offloads_activations = offloads_activations;
  return WorkOfProgram(graph, target, mesh, devices_per_node, lowering).run();
}

std::vector<KernelWork> work_of_kernels(const Graph& graph, const Target& target, const SymbolBindings& bindings,
                                        bool fixed_order) {
  const FusionResult fusion = fuse(graph, target, fixed_order);
  WorkOfKernels counter(graph, bindings);
  std::vector<KernelWork> result;
  for (const KernelRequest& request : fusion.kernels) {
    KernelWork& entry = result.emplace_back();
    if (request.kind == KernelKind::kCollective || request.kind == KernelKind::kMessage) continue;
    const GeneratedKernel kernel = generate_kernel(graph, fusion.materialized, request, target);
    const Work work = counter.work(request, kernel);
    entry = {counter.bytes(request, kernel), work.flops, work.kind == WorkKind::kMemory ? "" : work.operand};
  }
  return result;
}

}  // namespace causeway::plan
