#include "causeway/program/liveness.h"

namespace causeway::program {

int64_t byte_count(const TensorType& type, const SymbolBindings& bindings) {
  return element_count(type.shape).evaluate(bindings) * static_cast<int64_t>(size_bytes(type.dtype));
}

std::map<Value, ValueLife> find_lives(const Graph& graph, const std::vector<GeneratedKernel>& kernels) {
  std::map<Value, ValueLife> lives;
  for (const Value input : graph.inputs()) lives[input];
  for (size_t k = 0; k < kernels.size(); ++k) {
    const int position = static_cast<int>(k);
    for (const KernelArgument& argument : kernels[k].arguments) {
      if (argument.kind != KernelArgument::Kind::kValue) continue;
      ValueLife& life = lives[argument.value];
      if (argument.written) life.writer = position;
      life.last_reader = position;
    }
  }
  for (const Value output : graph.outputs) lives[output].outlives = true;
  for (const Assignment& assignment : graph.assignments) lives[assignment.value].outlives = true;
  return lives;
}

}  // namespace causeway::program
