// Collectives and messages as fusion sees them: what they read and what they write. There is no text to them.
#include "causeway/base/error.h"
#include "causeway/codegen/kernel_writers.h"
#include "causeway/graph/op.h"

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

GeneratedKernel write_message(const KernelInputs& inputs) {
  const Value message = inputs.request.members.front();
  const Node& node = inputs.graph.node(message);
  GeneratedKernel kernel;
  if (node.op == Op::kReceive) {
    kernel.arguments = {{KernelArgument::Kind::kValue, message, true}};
    return kernel;
  }
  const Value source = collective_source(inputs.graph, inputs.materialized, node);
  CAUSEWAY_CHECK(inputs.materialized.contains(source), "a message of a value that is not in memory");
  kernel.arguments = {{KernelArgument::Kind::kValue, source, false}};
  return kernel;
}

}  // namespace causeway::codegen
