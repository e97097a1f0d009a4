#include "causeway/codegen/expressions/kernel_writer.h"

#include "causeway/base/error.h"

namespace causeway::codegen {

std::optional<ElementValue> KernelWriter::variable(Value value, const Index& linear) { return std::nullopt; }

bool KernelWriter::is_stored(Value value) { return materialized_.contains(value); }

std::string KernelWriter::pointer(Value value) {
  const auto [entry, inserted] = pointers_.try_emplace(value, fmt::format("b{}", arguments_.size()));
  if (inserted) arguments_.push_back({KernelArgument::Kind::kValue, value, request_.computes(value)});
  return entry->second;
}

std::string KernelWriter::store_statement(Value member, const std::string& linear, const std::string& value) {
  return assignment(member, linear, to_storage(graph_.dtype(member), value));
}

std::string KernelWriter::store_rounded(Value member, const std::string& linear, const std::string& value) {
  return assignment(member, linear, exact_storage(graph_.dtype(member), value));
}

std::string KernelWriter::assignment(Value member, const std::string& linear, const std::string& stored) {
  return request_.stores(member) ? fmt::format("{}[{}] = {};\n", pointer(member), linear, stored) : std::string();
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
  return buffer_pointer_text(target_, type, position);
}

std::string KernelWriter::task_counter() {
  arguments_.push_back({KernelArgument::Kind::kTaskCounter, {}, true});
  return fmt::format("static_cast<uint32_t*>(buffers[{}])", arguments_.size() - 1);
}

std::string KernelWriter::gpu_kernel(const std::string& name, int threads, int blocks_per_unit, int tensor_maps,
                                     bool begins_early) {
  if (!request_.alike.empty())
    return fmt::format("CAUSEWAY_ALIKE_KERNELS({}, {}, {}, {}, {}) {{\n", name, threads, blocks_per_unit,
                       arguments_.size(), 1 + request_.alike.size());
  return fmt::format("{}({}, {}, {}, {}, {}, {}) {{\n", begins_early ? "CAUSEWAY_EARLY_KERNEL" : "CAUSEWAY_KERNEL",
                     name, threads, blocks_per_unit, arguments_.size(), sizes_.size() + symbols_.symbols().size(),
                     tensor_maps);
}

GeneratedKernel KernelWriter::finish(std::string source) {
  GeneratedKernel kernel;
  kernel.source = std::move(source);
  kernel.arguments = arguments_;
  kernel.sizes = sizes_;
  for (const int32_t symbol : symbols_.symbols()) kernel.sizes.push_back(Dim::symbol(Dim::symbol_name(symbol)));
  return kernel;
}

void KernelWriter::check_no_obstacle(const std::optional<Obstacle>& obstacle) const {
  CAUSEWAY_CHECK(!obstacle, "no {} kernel can be written: {}", kernel_kind_name(request_.kind), obstacle->text(graph_));
}

}  // namespace causeway::codegen
