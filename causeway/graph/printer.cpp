#include "causeway/graph/printer.h"

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/graph/user_kernel.h"

namespace causeway::graph {
namespace {

// As a C string's body; the quote is escaped only where the text stands in quotes.
std::string escape(const std::string& text, bool quoted) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || (c == '"' && quoted))
      result += fmt::format("\\{}", c);
    else if (c == '\n')
      result += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result;
}

std::string value_text(Value value) {
  return value.output == 0 ? fmt::format("%{}", value.node) : fmt::format("%{}.{}", value.node, value.output);
}

std::string values_text(const std::vector<Value>& values) {
  std::string text;
  for (const Value value : values) text += (text.empty() ? "" : ", ") + value_text(value);
  return text;
}

std::vector<std::string> plain_attributes(const Node& node) {
  const Attributes& attributes = node.attributes;
  const Attributes implied = implied_attributes(node.op, node.outputs);
  std::vector<std::string> items;
  if (!attributes.axes.empty()) items.push_back(fmt::format("axes=[{}]", fmt::join(attributes.axes, ", ")));
  if (attributes.shape != implied.shape) items.push_back("shape=" + shape_text(attributes.shape));
  if (!attributes.start.empty()) items.push_back("start=" + shape_text(attributes.start));
  if (!attributes.limit.empty()) items.push_back("limit=" + shape_text(attributes.limit));
  if (!attributes.strides.empty()) items.push_back(fmt::format("strides=[{}]", fmt::join(attributes.strides, ", ")));
  if (attributes.value != 0 && node.op != Op::kConstant) items.push_back(fmt::format("value={}", attributes.value));
  if (attributes.dtype != implied.dtype) items.push_back(fmt::format("dtype={}", dtype_name(attributes.dtype)));
  if (attributes.transpose_a) items.emplace_back("transpose_a");
  if (attributes.transpose_b) items.emplace_back("transpose_b");
  if (attributes.tf32) items.emplace_back("tf32");
  if (attributes.count != 0) items.push_back(fmt::format("count={}", attributes.count));
  if (attributes.stream != 0) items.push_back(fmt::format("stream={}", attributes.stream));
  if (!attributes.name.empty() && node.op != Op::kInput)
    items.push_back(fmt::format("name=\"{}\"", escape(attributes.name, true)));
  if (node.backward) items.emplace_back("backward");
  if (attributes.attention != nullptr) {
    const AttentionSpec& spec = *attributes.attention;
    items.push_back(fmt::format("scale={}", spec.scale));
    items.push_back(fmt::format("block_q={}", spec.block_q));
    items.push_back(fmt::format("block_k={}", spec.block_k));
    if (spec.has_block_map) items.emplace_back("block_map");
  }
  if (attributes.user_kernel != nullptr) {
    const UserKernelSpec& spec = *attributes.user_kernel;
    std::vector<std::string> sizes;
    for (const Dim& size : spec.sizes) sizes.push_back(size.text());
    items.push_back(fmt::format("kernel=\"{}\"", escape(spec.name, true)));
    items.push_back(fmt::format("text={}", hash_text(spec.source).hex()));
    items.push_back(fmt::format("sizes=[{}]", fmt::join(sizes, ", ")));
    items.push_back(fmt::format("tasks={}", spec.tasks.text()));
    items.push_back(fmt::format("threads={}", spec.threads));
    items.push_back(fmt::format("shared_bytes={}", spec.shared_bytes));
  }
  return items;
}

struct NamedFunction {
  const char* name;
  const Graph* graph;
};

std::vector<NamedFunction> functions(const Node& node) {
  std::vector<NamedFunction> result;
  if (node.attributes.attention == nullptr) return result;
  const AttentionSpec& spec = *node.attributes.attention;
  if (spec.score != nullptr) result.push_back({"score", spec.score.get()});
  if (spec.score_gradient != nullptr) result.push_back({"score_gradient", spec.score_gradient.get()});
  if (spec.mask != nullptr) result.push_back({"mask", spec.mask.get()});
  return result;
}

std::string head_text(const Node& node, size_t index) {
  std::string text = fmt::format("%{}", index);
  if (node.outputs.size() > 1) text += fmt::format(":{}", node.outputs.size());
  text += fmt::format(" = {}", op_name(node.op));
  if (node.op == Op::kInput) text += fmt::format(" \"{}\"", escape(node.attributes.name, true));
  if (node.op == Op::kConstant) text += fmt::format(" {}", node.attributes.value);
  if (!node.inputs.empty()) text += "(" + values_text(node.inputs) + ")";
  return text;
}

std::string tail_text(const Node& node) {
  std::string text = " : ";
  for (size_t i = 0; i < node.outputs.size(); ++i) text += (i == 0 ? "" : ", ") + node.outputs[i].text();
  if (!node.scope.empty()) text += "  # " + escape(node.scope, false);
  return text;
}

void print_body(const Graph& graph, const std::string& indent, std::string& text) {
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    text += indent + head_text(node, i);
    const std::vector<std::string> items = plain_attributes(node);
    const std::vector<NamedFunction> nested = functions(node);
    if (nested.empty()) {
      if (!items.empty()) text += fmt::format(" {{{}}}", fmt::join(items, ", "));
    } else {
      text += fmt::format(" {{\n{}  {}", indent, fmt::join(items, ", "));
      for (const NamedFunction& function : nested) {
        text += fmt::format(",\n{}  {}={{\n", indent, function.name);
        print_body(*function.graph, indent + "    ", text);
        text += indent + "  }";
      }
      text += "\n" + indent + "}";
    }
    text += tail_text(node) + "\n";
  }
  for (const Assignment& assignment : graph.assignments)
    text += fmt::format("{}assign {} = {}\n", indent, value_text(assignment.target), value_text(assignment.value));
  text += indent + "return";
  if (!graph.outputs.empty()) text += " " + values_text(graph.outputs);
  text += "\n";
}

}  // namespace

Attributes implied_attributes(Op op, const std::vector<TensorType>& outputs) {
  Attributes attributes;
  switch (op) {
    case Op::kInput:
    case Op::kConstant:
    case Op::kIota:
      attributes.shape = outputs[0].shape;
      attributes.dtype = outputs[0].dtype;
      break;
    case Op::kRandomBits:
    case Op::kReshape:
    case Op::kBroadcast:
      attributes.shape = outputs[0].shape;
      break;
    case Op::kCast:
    case Op::kBitcast:
    case Op::kDot:
      attributes.dtype = outputs[0].dtype;
      break;
    default:
      break;
  }
  return attributes;
}

std::string print_graph(const Graph& graph) {
  std::string text;
  print_body(graph, "", text);
  return text;
}

std::string print_node(const Graph& graph, int32_t index) {
  const Node& node = graph.node(index);
  std::vector<std::string> items = plain_attributes(node);
  for (const NamedFunction& function : functions(node)) items.emplace_back(function.name);
  return head_text(node, static_cast<size_t>(index)) +
         (items.empty() ? "" : fmt::format(" {{{}}}", fmt::join(items, ", "))) + tail_text(node);
}

}  // namespace causeway::graph
