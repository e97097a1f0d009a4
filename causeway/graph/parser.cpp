#include "causeway/graph/parser.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/printer.h"
#include "causeway/graph/text_scanner.h"

namespace causeway::graph {
namespace {

// Functions of attention may hold attention nodes themselves; deeper than this is not sensible text.
constexpr int kMaximumDepth = 4;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph parse() {
    Graph graph = body(0);
    text_.skip_blank_lines();
    if (!text_.at_end()) text_.fail("expected the end of the text after return");
    return graph;
  }

 private:
  using Numbering = std::map<int64_t, int32_t>;  // number in the text -> node

  Value value(const Graph& graph, const Numbering& numbering) {
    text_.skip_spaces();
    const size_t begin = text_.position();
    text_.expect('%', "before a value");
    const int64_t number = text_.integer("the number of a value");
    const auto entry = numbering.find(number);
    if (entry == numbering.end()) text_.fail_at(begin, fmt::format("%{} is not defined above", number));
    Value result{entry->second, 0};
    if (text_.accept_here('.')) {
      const int64_t output = text_.integer("the number of an output");
      if (output < 0 || static_cast<size_t>(output) >= graph.node(result).outputs.size())
        text_.fail_at(begin, fmt::format("%{} has {} outputs, there is no output {}", number,
                                         graph.node(result).outputs.size(), output));
      result.output = static_cast<int32_t>(output);
    }
    return result;
  }

  std::vector<Value> values(const Graph& graph, const Numbering& numbering) {
    std::vector<Value> result;
    do {
      result.push_back(value(graph, numbering));
    } while (text_.accept(','));
    return result;
  }

  Op op() {
    text_.skip_spaces();
    const size_t begin = text_.position();
    const std::string text = text_.name("the name of an op");
    std::vector<std::string> names;
    for (const OpInfo& info : all_ops()) {
      if (info.name == text) return info.op;
      names.emplace_back(info.name);
    }
    text_.fail_at(begin, fmt::format("there is no op '{}'", text), TextScanner::suggestion(text, names));
  }

  // What stands in braces after the inputs, before it is known which attributes the types imply.
  struct Given {
    Attributes attributes;
    std::set<std::string, std::less<>> fields;  // of attributes, that were given
    bool backward = false;
    std::shared_ptr<AttentionSpec> attention;
  };

  std::shared_ptr<const Graph> function(int depth) {
    text_.expect('{', "before a function");
    if (depth == kMaximumDepth) text_.fail("functions are nested too deeply");
    auto graph = std::make_shared<const Graph>(body(depth + 1));
    text_.skip_space_and_lines();
    text_.expect('}', "after a function");
    return graph;
  }

  // The value of a field, by its type; `depth` is that of the functions around it.
  void read(std::vector<int64_t>& value, int) { value = text_.integers(); }
  void read(Shape& value, int) { value = text_.shape(); }
  void read(double& value, int) { value = text_.number("a number"); }
  void read(DType& value, int) { value = text_.dtype(); }
  void read(int64_t& value, int) { value = text_.integer("an integer"); }
  void read(std::string& value, int) { value = text_.quoted("a name"); }
  void read(Sharding& value, int) {
    text_.skip_spaces();
    const size_t begin = text_.position();
    const std::string text = text_.quoted("a sharding");
    value = text_.at(begin, [&] { return Sharding::parse(text); });
  }
  void read(std::shared_ptr<const Graph>& value, int depth) { value = function(depth); }

  // Reads the field `key` of `object`, if there is one that text can give.
  template <class Struct>
  bool read_field(Struct& object, std::string_view key, int depth) {
    return !all_fields<Struct>([&](const auto& field) {
      if (field.name != key) return true;
      auto& value = object.*field.member;
      if constexpr (std::is_same_v<decltype(value), bool&>) {
        value = true;
        return false;
      } else if constexpr (requires { read(value, depth); }) {
        text_.expect('=', fmt::format("after {}", key).c_str());
        read(value, depth);
        return false;
      } else {
        return true;
      }
    });
  }

  template <class Struct>
  void add_names(std::vector<std::string>& names) {
    for_each_field<Struct>([&](const auto& field) {
      using Type = std::remove_reference_t<decltype(std::declval<Struct&>().*field.member)>;
      if constexpr (std::is_same_v<Type, bool> || requires(Type& value) { read(value, 0); })
        names.emplace_back(field.name);
    });
  }

  void attribute(Given& given, int depth) {
    text_.skip_space_and_lines();
    const size_t begin = text_.position();
    const std::string key = text_.name("the name of an attribute");
    if (key == "backward") {
      given.backward = true;
      return;
    }
    if (read_field(given.attributes, key, depth)) {
      given.fields.insert(key);
      return;
    }
    AttentionSpec spec = given.attention == nullptr ? AttentionSpec() : *given.attention;
    if (!read_field(spec, key, depth)) {
      std::vector<std::string> known = {"backward"};
      add_names<Attributes>(known);
      add_names<AttentionSpec>(known);
      text_.fail_at(begin, fmt::format("there is no attribute '{}'", key), TextScanner::suggestion(key, known));
    }
    given.attention = std::make_shared<AttentionSpec>(std::move(spec));
  }

  // Fields that were not given are what the types imply.
  static Attributes complete(const Given& given, const Attributes& implied) {
    Attributes attributes = given.attributes;
    for_each_field<Attributes>([&](const auto& field) {
      if (!given.fields.contains(field.name)) attributes.*field.member = implied.*field.member;
    });
    attributes.attention = given.attention;
    return attributes;
  }

  void node(Graph& graph, Numbering& numbering, int depth) {
    const size_t begin = text_.position();
    text_.expect('%', "before a value");
    const int64_t number = text_.integer("the number of a value");
    if (number < 0 || numbering.contains(number)) text_.fail_at(begin, fmt::format("%{} is defined already", number));
    const int64_t output_count = text_.accept(':') ? text_.integer("the number of outputs") : 1;
    text_.expect('=', "after a value");
    text_.skip_spaces();
    const size_t op_begin = text_.position();
    const Op op = this->op();

    Given given;
    if (op == Op::kInput) {
      given.attributes.name = text_.quoted("the name of the input");
      given.fields.insert("name");
    }
    if (op == Op::kConstant) {
      given.attributes.value = text_.number("the value of the constant");
      given.fields.insert("value");
    }
    std::vector<Value> inputs;
    if (text_.accept('(') && !text_.accept(')')) {
      inputs = values(graph, numbering);
      text_.expect(')', "after the inputs");
    }
    if (text_.accept('{')) {
      text_.skip_space_and_lines();
      if (!text_.accept('}')) {
        do {
          attribute(given, depth);
          text_.skip_space_and_lines();
        } while (text_.accept(','));
        text_.expect('}', "after the attributes");
      }
    }
    text_.expect(':', "before the types");
    text_.skip_spaces();
    const size_t types_begin = text_.position();
    std::vector<TensorType> types;
    do {
      types.push_back(text_.tensor_type());
    } while (text_.accept(','));
    if (static_cast<int64_t>(types.size()) != output_count)
      text_.fail_at(types_begin, fmt::format("expected {} types, one for each output", output_count));

    Attributes attributes = complete(given, implied_attributes(op, types));
    graph.set_scope(text_.comment());
    graph.set_backward(given.backward);
    text_.end_of_line("a node");
    const Value added = text_.at(op_begin, [&] {
      if (op != Op::kInput) return graph.add(op, std::move(inputs), std::move(attributes));
      if (!inputs.empty()) throw Error(ErrorKind::kInvalidArgument, "an input of the graph takes no inputs");
      return graph.add_input(attributes.name, types[0], attributes.sharding, attributes.on_host);
    });
    if (graph.node(added).outputs != types)
      text_.fail_at(types_begin, fmt::format("the type here is {}, not {}", types_text(graph.node(added).outputs),
                                             types_text(types)));
    numbering.emplace(number, added.node);
  }

  static std::string types_text(const std::vector<TensorType>& types) {
    std::string text;
    for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.text();
    return text;
  }

  void assignment(Graph& graph, const Numbering& numbering) {
    text_.skip_spaces();
    const size_t begin = text_.position();
    const Value target = value(graph, numbering);
    if (graph.node(target).op != Op::kInput) text_.fail_at(begin, "only an input can be assigned");
    text_.expect('=', "after the target of an assignment");
    text_.skip_spaces();
    const size_t value_begin = text_.position();
    const Value assigned = value(graph, numbering);
    if (graph.type(target) != graph.type(assigned))
      text_.fail_at(value_begin, fmt::format("a value of type {} is assigned to an input of type {}",
                                             graph.type(assigned).text(), graph.type(target).text()));
    graph.assignments.push_back({target, assigned});
    text_.end_of_line("an assignment");
  }

  // Nodes and assignments up to and including the return line.
  Graph body(int depth) {
    Graph graph;
    Numbering numbering;
    while (true) {
      text_.skip_blank_lines();
      if (text_.peek_is('%')) {
        node(graph, numbering, depth);
        continue;
      }
      const size_t begin = text_.position();
      const std::string word = text_.peek_is_name() ? text_.name("a word") : "";
      if (word == "assign") {
        assignment(graph, numbering);
      } else if (word == "return") {
        text_.skip_spaces();
        if (text_.peek_is('%')) graph.outputs = values(graph, numbering);
        text_.end_of_line("return");
        graph.set_scope({});
        graph.set_backward(false);
        return graph;
      } else {
        text_.fail_at(begin, "expected a node (%0 = ...), assign or return");
      }
    }
  }

  TextScanner text_;
};

}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).parse(); }

}  // namespace causeway::graph
