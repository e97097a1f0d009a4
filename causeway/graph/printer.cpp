#include "causeway/graph/printer.h"

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/graph/op.h"
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

std::string field_text(bool value) { return value ? "true" : "false"; }
std::string field_text(int value) { return fmt::format("{}", value); }
std::string field_text(int64_t value) { return fmt::format("{}", value); }
std::string field_text(double value) { return fmt::format("{}", value); }
std::string field_text(DType value) { return std::string(dtype_name(value)); }
std::string field_text(const Dim& value) { return value.text(); }
std::string field_text(const Shape& value) { return shape_text(value); }
std::string field_text(const std::vector<int64_t>& value) { return fmt::format("[{}]", fmt::join(value, ", ")); }
std::string field_text(const std::string& value) { return fmt::format("\"{}\"", escape(value, true)); }
std::string field_text(const Sharding& value) { return field_text(value.text()); }

// A flag stands for itself, and only where it is set.
template <class Type>
void add_item(std::vector<std::string>& items, std::string_view name, const Type& value) {
  if constexpr (!std::is_same_v<Type, bool>) {
    items.push_back(fmt::format("{}={}", name, field_text(value)));
  } else if (value) {
    items.emplace_back(name);
  }
}

// The functions stand behind all items: functions().
void add_items(std::vector<std::string>& items, const AttentionSpec& spec) {
  for_each_field<AttentionSpec>([&](const auto& field) {
    const auto& value = spec.*field.member;
    if constexpr (!std::is_same_v<decltype(value), const std::shared_ptr<const Graph>&>)
      add_item(items, field.name, value);
  });
}

// The text by its hash; the types of its outputs are those of the node.
void add_items(std::vector<std::string>& items, const UserKernelSpec& spec) {
  for_each_field<UserKernelSpec>([&](const auto& field) {
    const auto& value = spec.*field.member;
    using Type = std::remove_cvref_t<decltype(value)>;
    if constexpr (!std::is_same_v<Type, std::vector<TensorType>> &&
                  !std::is_same_v<Type, decltype(UserKernelSpec::gradient)>) {
      if (field.name == "text")
        items.push_back(fmt::format("text={}", hash_text(spec.source).hex()));
      else
        add_item(items, field.name, value);
    }
  });
}

// Those that the head of the node and its types do not say.
std::vector<std::string> plain_attributes(const Node& node) {
  const Attributes& attributes = node.attributes;
  Attributes said = implied_attributes(node.op, node.outputs);
  if (node.op == Op::kConstant) said.value = attributes.value;
  if (node.op == Op::kInput) said.name = attributes.name;
  std::vector<std::string> items;
  for_each_field<Attributes>([&](const auto& field) {
    const auto& value = attributes.*field.member;
    if constexpr (requires { field_text(value); })
      if (field_text(value) != field_text(said.*field.member)) add_item(items, field.name, value);
  });
  if (node.backward) items.emplace_back("backward");
  for_each_field<Attributes>([&](const auto& field) {
    const auto& value = attributes.*field.member;
    if constexpr (!requires { field_text(value); })
      if (value != nullptr) add_items(items, *value);
  });
  return items;
}

struct NamedFunction {
  std::string_view name;
  const Graph* graph;
};

std::vector<NamedFunction> functions(const Node& node) {
  std::vector<NamedFunction> result;
  if (node.attributes.attention == nullptr) return result;
  for_each_field<AttentionSpec>([&](const auto& field) {
    const auto& value = (*node.attributes.attention).*field.member;
    if constexpr (std::is_same_v<decltype(value), const std::shared_ptr<const Graph>&>)
      if (value != nullptr) result.push_back({field.name, value.get()});
  });
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
    case Op::kScaledDot:
    case Op::kGroupedDot:
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
