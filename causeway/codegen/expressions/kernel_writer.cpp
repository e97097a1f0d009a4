#include "causeway/codegen/expressions/kernel_writer.h"

#include <algorithm>

#include "causeway/base/error.h"

namespace causeway::codegen {

MaterializedValues::MaterializedValues(const Graph& graph) {
  flags_.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) flags_.emplace_back(node.outputs.size(), node.op == Op::kInput);
}

std::string_view kernel_kind_name(KernelKind kind) {
  switch (kind) {
    case KernelKind::kLoop:
      return "loop";
    case KernelKind::kColumnReduce:
      return "column_reduce";
    case KernelKind::kArgmax:
      return "argmax";
    case KernelKind::kCumsum:
      return "cumsum";
    case KernelKind::kTopk:
      return "topk";
    case KernelKind::kScatterAdd:
      return "scatter_add";
    case KernelKind::kDot:
      return "dot";
    case KernelKind::kAttentionBlockMap:
      return "attention_block_map";
    case KernelKind::kAttention:
      return "attention";
    case KernelKind::kAttentionGradient:
      return "attention_gradient";
    case KernelKind::kUser:
      return "user";
  }
  return "";
}

KernelWriter::KernelWriter(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
                           const Target& target)
    : graph_(graph), materialized_(materialized), request_(request), target_(target) {}

bool KernelWriter::is_member(Value value) const {
  return std::find(request_.members.begin(), request_.members.end(), value) != request_.members.end();
}

bool KernelWriter::member_stored(Value value) const {
  const auto position = std::find(request_.members.begin(), request_.members.end(), value);
  return position != request_.members.end() &&
         request_.stored[static_cast<size_t>(position - request_.members.begin())];
}

std::optional<EmittedValue> KernelWriter::variable(Value value, const Index& linear) { return std::nullopt; }

bool KernelWriter::is_stored(Value value) { return materialized_.contains(value); }

std::string KernelWriter::pointer(Value value) {
  const auto [entry, inserted] = pointers_.try_emplace(value, fmt::format("b{}", arguments_.size()));
  if (inserted) arguments_.push_back({KernelArgument::Kind::kValue, value, is_member(value)});
  return entry->second;
}

std::string KernelWriter::store_statement(Value member, const std::string& linear, const std::string& value) {
  if (!member_stored(member)) return {};
  return fmt::format("{}[{}] = {};\n", pointer(member), linear, to_storage(graph_.dtype(member), value));
}

std::vector<Value> KernelWriter::leaves(Value value) const {
  std::vector<Value> found;
  std::set<Value> visited;
  std::vector<Value> pending = graph_.node(value).inputs;
  while (!pending.empty()) {
    const Value next = pending.back();
    pending.pop_back();
    if (!visited.insert(next).second) continue;
    if (materialized_.contains(next) || is_member(next)) {
      found.push_back(next);
    } else {
      const std::vector<Value>& inputs = graph_.node(next).inputs;
      pending.insert(pending.end(), inputs.begin(), inputs.end());
    }
  }
  return found;
}

std::string KernelWriter::size_argument(const Dim& size) {
  sizes_.push_back(size);
  return fmt::format("sizes[{}]", sizes_.size() - 1);
}

std::string KernelWriter::prologue() {
  std::string text;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].kind != KernelArgument::Kind::kValue) continue;
    const std::string type = (arguments_[i].written ? "" : "const ") + storage_type(graph_.dtype(arguments_[i].value));
    text += fmt::format("auto* b{} = {};\n", i, buffer_pointer(type, i));
  }
  for (size_t i = 0; i < symbols_.symbols().size(); ++i)
    text += fmt::format("const int64_t d{} = sizes[{}];\n", i, sizes_.size() + i);
  return text;
}

std::string KernelWriter::buffer_pointer(const std::string& type, size_t position) const {
  return target_.is_gpu() ? fmt::format("global_pointer<{}>(buffers[{}])", type, position)
                          : fmt::format("static_cast<{}*>(buffers[{}])", type, position);
}

std::string KernelWriter::gpu_kernel(const std::string& name, int threads, int blocks_per_unit, int tensor_maps) {
  return fmt::format("CAUSEWAY_KERNEL({}, {}, {}, {}, {}, {}) {{\n", name, threads, blocks_per_unit, arguments_.size(),
                     sizes_.size() + symbols_.symbols().size(), tensor_maps);
}

GeneratedKernel KernelWriter::finish(std::string source) {
  GeneratedKernel kernel;
  kernel.source = std::move(source);
  kernel.arguments = arguments_;
  kernel.sizes = sizes_;
  for (const int32_t symbol : symbols_.symbols()) kernel.sizes.push_back(Dim::symbol(Dim::symbol_name(symbol)));
  return kernel;
}

GeneratedKernel generate_kernel(const Graph& graph, const MaterializedValues& materialized,
                                const KernelRequest& request, const Target& target) {
  bool conflict = false;
  GeneratedKernel kernel;
  switch (request.kind) {
    case KernelKind::kLoop:
      kernel = generate_loop_kernel(graph, materialized, request, target, conflict);
      break;
    case KernelKind::kColumnReduce:
      return generate_column_reduce_kernel(graph, materialized, request, target);
    case KernelKind::kArgmax:
    case KernelKind::kCumsum:
    case KernelKind::kTopk:
      return generate_axis_kernel(graph, materialized, request, target);
    case KernelKind::kScatterAdd:
      return generate_scatter_add_kernel(graph, materialized, request, target);
    case KernelKind::kDot:
      kernel = generate_dot_kernel(graph, materialized, request, target, conflict);
      break;
    case KernelKind::kAttentionBlockMap:
    case KernelKind::kAttention:
    case KernelKind::kAttentionGradient:
      return generate_attention_kernel(graph, materialized, request, target);
    case KernelKind::kUser:
      return generate_user_kernel(graph, materialized, request, target);
  }
  CAUSEWAY_CHECK(!conflict, "a {} kernel needs one of its own values at another position",
                 kernel_kind_name(request.kind));
  return kernel;
}

bool can_generate(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
                  const Target& target) {
  bool conflict = false;
  if (request.kind == KernelKind::kLoop) {
    generate_loop_kernel(graph, materialized, request, target, conflict);
  } else if (request.kind == KernelKind::kDot) {
    generate_dot_kernel(graph, materialized, request, target, conflict);
  }
  return !conflict;
}

}  // namespace causeway::codegen
