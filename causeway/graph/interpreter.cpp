#include "causeway/graph/interpreter.h"

#include <algorithm>
#include <cmath>

#include "causeway/base/error.h"
#include "causeway/graph/interpreter_node.h"
#include "causeway/graph/op.h"
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
    case Op::kScaledDot:
      return evaluate_scaled_dot(evaluation);
    case Op::kGroupedDot:
      return evaluate_grouped_dot(evaluation);
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
    case DType::kI16:
      return static_cast<int16_t>(value);
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

void round_outputs(const NodeEvaluation& evaluation) {
  if (evaluation.rounding == Rounding::kExact) return;
  for (HostTensor& output : evaluation.outputs)
    if (is_float(output.dtype)) round_values(output);
}

void evaluate_node(const NodeEvaluation& evaluation) {
  evaluate_unrounded(evaluation);
  round_outputs(evaluation);
}

namespace {

// Evaluates a graph node by node, each on every rank.
class Interpreter {
 public:
  Interpreter(const Graph& graph, const Mesh& mesh, const SymbolBindings& bindings, Rounding rounding)
      : graph_(graph), mesh_(mesh), bindings_(bindings), rounding_(rounding) {}

  std::vector<std::vector<HostTensor>> run(const std::vector<std::vector<HostTensor>>& inputs) {
    for (const std::vector<HostTensor>& given : inputs) take_inputs(given);
    const std::vector<bool> needed = needed_nodes(graph_);
    std::vector<std::vector<int>> uses = count_uses(graph_);
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (needed[i] && node.op != Op::kInput) evaluate(i);
      for (const Value input : node.inputs)
        if (--uses[static_cast<size_t>(input.node)][static_cast<size_t>(input.output)] == 0 &&
            needed[static_cast<size_t>(input.node)])
          for (size_t rank = 0; rank < values_.size(); ++rank) at(rank, input).values = {};
    }
    std::vector<std::vector<HostTensor>> results(values_.size());
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      for (const Value output : graph_.outputs) results[rank].push_back(at(rank, output));
      for (const Assignment& assignment : graph_.assignments) results[rank].push_back(at(rank, assignment.value));
    }
    return results;
  }

 private:
  HostTensor& at(size_t rank, Value value) {
    return values_[rank][static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }

  void take_inputs(const std::vector<HostTensor>& inputs) {
    if (inputs.size() != graph_.inputs().size())
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the graph takes {} inputs, was given {}", graph_.inputs().size(), inputs.size()));
    values_.emplace_back(graph_.nodes().size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Value input = graph_.inputs()[i];
      check_input(graph_, input, inputs[i], bindings_);
      values_.back()[static_cast<size_t>(input.node)] = {rounding_ == Rounding::kExact ? inputs[i]
                                                                                       : round_host_tensor(inputs[i])};
    }
  }

  void evaluate(size_t index) {
    const Node& node = graph_.nodes()[index];
    std::vector<std::vector<const HostTensor*>> operands(values_.size());
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      for (const Value input : node.inputs) operands[rank].push_back(&at(rank, input));
      values_[rank][index] = allocate_outputs(node, bindings_);
    }
    if (op_info(node.op).kind == OpKind::kMessage)
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("{} '{}': ranks that send to one another have graphs of their own", op_name(node.op),
                              node.attributes.name),
                  node.scope, "Run the stages as programs.");
    const bool collective = op_info(node.op).kind == OpKind::kCollective;
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      const NodeEvaluation evaluation{node, operands[rank], values_[rank][index], bindings_, rounding_};
      if (!collective) {
        evaluate_node(evaluation);
        continue;
      }
      std::vector<const HostTensor*> of_group;
      const std::vector<int64_t> group =
          mesh_.group(static_cast<int64_t>(rank), group_axes(mesh_, node.attributes.group));
      for (const int64_t member : group) of_group.push_back(operands[static_cast<size_t>(member)][0]);
      const auto position = std::find(group.begin(), group.end(), static_cast<int64_t>(rank)) - group.begin();
      evaluate_collective(evaluation, of_group, position);
    }
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const SymbolBindings& bindings_;
  Rounding rounding_;
  std::vector<std::vector<std::vector<HostTensor>>> values_;  // by rank, node and output
};

}  // namespace

std::vector<HostTensor> interpret(const Graph& graph, const std::vector<HostTensor>& inputs,
                                  const SymbolBindings& bindings, Rounding rounding) {
  return std::move(Interpreter(graph, {}, bindings, rounding).run({inputs}).front());
}

std::vector<std::vector<HostTensor>> interpret_ranks(const Graph& graph, const Mesh& mesh,
                                                     const std::vector<std::vector<HostTensor>>& inputs,
                                                     Rounding rounding) {
  CAUSEWAY_CHECK(static_cast<int64_t>(inputs.size()) == mesh.ranks());
  return Interpreter(graph, mesh, {}, rounding).run(inputs);
}

}  // namespace causeway::graph
