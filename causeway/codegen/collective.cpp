// A collective as fusion sees it: what it reads and what it writes. There is no text to it.
#include "causeway/base/error.h"
#include "causeway/codegen/kernel_writers.h"

namespace causeway::codegen {

Value collective_source(const Graph& graph, const MaterializedValues& materialized, const Node& node) {
  Value source = node.inputs[0];
  while (!materialized.contains(source) && graph.node(source).op == Op::kReshape) source = graph.node(source).inputs[0];
  return source;
}

GeneratedKernel write_collective(const KernelInputs& inputs) {
  const Value result = inputs.request.members.front();
  const Value source = collective_source(inputs.graph, inputs.materialized, inputs.graph.node(result));
  CAUSEWAY_CHECK(inputs.materialized.contains(source), "a collective of a value that is not in memory");
  GeneratedKernel kernel;
  kernel.arguments = {{KernelArgument::Kind::kValue, source, false}, {KernelArgument::Kind::kValue, result, true}};
  return kernel;
}

}  // namespace causeway::codegen
