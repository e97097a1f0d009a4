#include "causeway/graph/interpreter.h"

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter_node.h"
#include "causeway/graph/philox.h"
#include "causeway/graph/rewrite.h"
#include "causeway/graph/user_kernel.h"

namespace causeway::graph {
namespace {

void evaluate_constant(const NodeEvaluation& evaluation) {
  HostTensor& out = evaluation.output();
  const double value = evaluation.node.attributes.value;
  std::fill(out.values.begin(), out.values.end(), is_float(out.dtype) ? value : round_to_dtype(out.dtype, value));
}

void evaluate_iota(const NodeEvaluation& evaluation) {
  HostTensor& out = evaluation.output();
  const auto axis = static_cast<size_t>(evaluation.node.attributes.axes[0]);
  int64_t inner = 1;
  for (size_t i = axis + 1; i < out.shape.size(); ++i) inner *= out.shape[i];
  for (size_t i = 0; i < out.values.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i) / inner % out.shape[axis];
    out.values[i] = is_float(out.dtype) ? static_cast<double>(index) : wrap_integer(out.dtype, index);
  }
}

void evaluate_random_bits(const NodeEvaluation& evaluation) {
  const auto seed = static_cast<uint64_t>(to_int64(evaluation.input(0).values[0]));
  const auto step = static_cast<uint32_t>(to_int64(evaluation.input(0).values[1]));
  const auto stream = static_cast<uint32_t>(evaluation.node.attributes.stream);
  HostTensor& out = evaluation.output();
  for (size_t i = 0; i < out.values.size(); ++i) {
    const uint64_t index = i;
    out.values[i] = static_cast<int32_t>(
        philox_4x32_10({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), stream, step},
                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[0]);
  }
}

void evaluate_unrounded(const NodeEvaluation& evaluation) {
  switch (evaluation.node.op) {
    case Op::kConstant:
      return evaluate_constant(evaluation);
    case Op::kIota:
      return evaluate_iota(evaluation);
    case Op::kRandomBits:
      return evaluate_random_bits(evaluation);
    case Op::kDot:
      return evaluate_dot(evaluation);
    case Op::kLinearCrossEntropy:
      return evaluate_cross_entropy(evaluation);
    default:
      break;
  }
  switch (op_info(evaluation.node.op).kind) {
    case OpKind::kReduce:
    case OpKind::kArgmax:
    case OpKind::kScan:
      return evaluate_reduction(evaluation);
    case OpKind::kMovement:
      return evaluate_movement(evaluation);
    case OpKind::kIndexing:
      return evaluate_indexing(evaluation);
    case OpKind::kTemplate:
      if (evaluation.node.op == Op::kUserKernel)
        throw Error(ErrorKind::kUnsupported,
                    fmt::format("the reference interpreter cannot run the kernel '{}', which is C++ text",
                                evaluation.node.attributes.user_kernel->name));
      return evaluate_attention(evaluation);
    default:
      CAUSEWAY_CHECK(is_elementwise(evaluation.node.op), "{} cannot be evaluated", op_name(evaluation.node.op));
      return evaluate_elementwise(evaluation);
  }
}

void round_values(HostTensor& tensor) {
  if (tensor.dtype == DType::kF32) {
    for (double& value : tensor.values) value = static_cast<float>(value);
  } else {
    for (double& value : tensor.values) value = round_to_dtype(tensor.dtype, value);
  }
}

void check_input(const Graph& graph, Value input, const HostTensor& given, const SymbolBindings& bindings) {
  const TensorType& type = graph.type(input);
  const std::vector<int64_t> sizes = evaluate(type.shape, bindings);
  if (given.dtype == type.dtype && given.shape == sizes &&
      static_cast<int64_t>(given.values.size()) == element_count(sizes))
    return;
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("expected {}{}, was given {} with {} values", type.text(),
                          given.shape == sizes ? "" : fmt::format(" = [{}]", fmt::join(sizes, ", ")), given.type_text(),
                          given.values.size()),
              fmt::format("input '{}'", graph.node(input).attributes.name));
}

}  // namespace

int64_t to_int64(double value) {
  if (value >= 0x1p63) return INT64_MAX;
  if (value <= -0x1p63) return INT64_MIN;
  return static_cast<int64_t>(value);
}

double wrap_integer(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI32:
      return static_cast<int32_t>(value);
    case DType::kU8:
      return static_cast<uint8_t>(value);
    default:
      return static_cast<double>(value);
  }
}

double max_or_nan(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return a < b ? b : a;
}

void throw_evaluation_error(const NodeEvaluation& evaluation, const std::string& what) {
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{} {}", op_name(evaluation.node.op), what),
              evaluation.node.scope);
}

std::vector<HostTensor> allocate_outputs(const Node& node, const SymbolBindings& bindings) {
  std::vector<HostTensor> outputs;
  outputs.reserve(node.outputs.size());
  for (const TensorType& type : node.outputs) {
    std::vector<int64_t> sizes = evaluate(type.shape, bindings);
    for (size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] < 0)
        throw Error(ErrorKind::kInvalidArgument,
                    fmt::format("{} gives {}, whose size {} is {}", op_name(node.op), type.text(), type.shape[i].text(),
                                sizes[i]),
                    node.scope);
    outputs.push_back(fill_host_tensor(type.dtype, std::move(sizes), 0));
  }
  return outputs;
}

void evaluate_node(const NodeEvaluation& evaluation) {
  evaluate_unrounded(evaluation);
  if (evaluation.rounding == Rounding::kExact) return;
  for (HostTensor& output : evaluation.outputs)
    if (is_float(output.dtype)) round_values(output);
}

std::vector<HostTensor> interpret(const Graph& graph, const std::vector<HostTensor>& inputs,
                                  const SymbolBindings& bindings, Rounding rounding) {
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorKind::kInvalidArgument,
                fmt::format("the graph takes {} inputs, was given {}", graph.inputs().size(), inputs.size()));
  std::vector<std::vector<HostTensor>> values(graph.nodes().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value input = graph.inputs()[i];
    check_input(graph, input, inputs[i], bindings);
    values[static_cast<size_t>(input.node)] = {rounding == Rounding::kExact ? inputs[i] : round_host_tensor(inputs[i])};
  }
  const auto value_at = [&](Value value) -> HostTensor& {
    return values[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  };

  const std::vector<bool> needed = needed_nodes(graph);
  std::vector<std::vector<int>> uses = count_uses(graph);
  std::vector<const HostTensor*> operands;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    const auto release_inputs = [&] {
      for (const Value input : node.inputs)
        if (--uses[static_cast<size_t>(input.node)][static_cast<size_t>(input.output)] == 0 &&
            needed[static_cast<size_t>(input.node)])
          value_at(input).values = {};
    };
    if (needed[i] && node.op != Op::kInput) {
      operands.clear();
      for (const Value input : node.inputs) operands.push_back(&value_at(input));
      values[i] = allocate_outputs(node, bindings);
      evaluate_node({node, operands, values[i], bindings, rounding});
    }
    release_inputs();
  }

  std::vector<HostTensor> results;
  for (const Value output : graph.outputs) results.push_back(value_at(output));
  for (const Assignment& assignment : graph.assignments) results.push_back(value_at(assignment.value));
  return results;
}

}  // namespace causeway::graph
