#include "causeway/graph/parser.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/graph/printer.h"

namespace causeway::graph {
namespace {

// Functions of attention may hold attention nodes themselves; deeper than this is not sensible text.
constexpr int kMaximumDepth = 4;

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Graph parse() {
    Graph graph = body(0);
    skip_blank_lines();
    if (position_ < text_.size()) fail("expected the end of the text after return");
    return graph;
  }

 private:
  using Numbering = std::map<int64_t, int32_t>;  // number in the text -> node

  [[noreturn]] void fail_at(size_t position, const std::string& what, const std::string& hint = {}) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < position; ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    throw Error(ErrorKind::kInvalidArgument, what, fmt::format("graph text, line {}, column {}", line, column), hint);
  }
  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    fail_at(position_, what, hint);
  }
  // Runs `action`, and gives an error of it the place `position`.
  template <class Action>
  auto at(size_t position, Action action) const {
    try {
      return action();
    } catch (const Error& error) {
      fail_at(position, error.message(), error.hint());
    }
  }

  bool at_end() const { return position_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  bool peek_is(char c) const { return !at_end() && text_[position_] == c; }

  void skip_spaces() {
    while (peek_is(' ') || peek_is('\t')) ++position_;
  }
  void skip_space_and_lines() {
    while (peek_is(' ') || peek_is('\t') || peek_is('\r') || peek_is('\n')) ++position_;
  }
  void skip_blank_lines() {
    while (true) {
      skip_space_and_lines();
      if (!peek_is('#')) return;
      while (!at_end() && !peek_is('\n')) ++position_;
    }
  }
  bool accept(char c) {
    skip_spaces();
    if (!peek_is(c)) return false;
    ++position_;
    return true;
  }
  void expect(char c, const char* where) {
    if (!accept(c)) fail(fmt::format("expected '{}' {}", c, where));
  }

  std::string name(const char* what) {
    skip_spaces();
    const size_t begin = position_;
    while (!at_end() && is_name_character(peek())) ++position_;
    if (position_ == begin) fail(fmt::format("expected {}", what));
    return std::string(text_.substr(begin, position_ - begin));
  }

  int64_t integer(const char* what) {
    skip_spaces();
    int64_t value = 0;
    const auto [end, status] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (status == std::errc::result_out_of_range) fail(fmt::format("{} is too large", what));
    if (status != std::errc()) fail(fmt::format("expected {}", what));
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  double number(const char* what) {
    skip_spaces();
    double value = 0;
    const auto [end, status] = std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
    if (status == std::errc::result_out_of_range) fail(fmt::format("{} is out of range", what));
    if (status != std::errc()) fail(fmt::format("expected {}", what));
    position_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  int hex_digit() {
    const char c = peek();
    if (c >= '0' && c <= '9') return ++position_, c - '0';
    if (c >= 'a' && c <= 'f') return ++position_, c - 'a' + 10;
    fail("expected a lower-case hexadecimal digit");
  }

  // One character of escaped text; the caller has checked that there is one.
  char escaped_character() {
    if (!peek_is('\\')) return text_[position_++];
    ++position_;
    const char c = peek();
    if (c == 'x') {
      ++position_;
      const int high = hex_digit();
      return static_cast<char>(high * 16 + hex_digit());
    }
    if (c != 'n' && c != '\\' && c != '"') fail("expected n, x, \\ or \" after a backslash");
    ++position_;
    return c == 'n' ? '\n' : c;
  }

  std::string quoted(const char* what) {
    skip_spaces();
    if (!peek_is('"')) fail(fmt::format("expected {} in double quotes", what));
    const size_t begin = position_++;
    std::string result;
    while (!peek_is('"')) {
      if (at_end() || peek_is('\n')) fail_at(begin, fmt::format("{} has no closing quote", what));
      result += escaped_character();
    }
    ++position_;
    return result;
  }

  Shape shape() {
    expect('[', "before a list of sizes");
    Shape result;
    if (accept(']')) return result;
    while (true) {
      skip_spaces();
      const size_t begin = position_;
      while (!at_end() && !peek_is(',') && !peek_is(']') && !peek_is('\n')) ++position_;
      if (at_end() || peek_is('\n')) fail("expected ']' after a list of sizes");
      const std::string text(text_.substr(begin, position_ - begin));
      result.push_back(at(begin, [&] { return Dim::parse(text); }));
      if (text_[position_++] == ']') return result;
    }
  }

  std::vector<int64_t> integers() {
    expect('[', "before a list of integers");
    std::vector<int64_t> result;
    if (accept(']')) return result;
    do {
      result.push_back(integer("an integer"));
    } while (accept(','));
    expect(']', "after a list of integers");
    return result;
  }

  DType dtype() {
    skip_spaces();
    const size_t begin = position_;
    const std::string text = name("an element type");
    if (const std::optional<DType> dtype = parse_dtype(text)) return *dtype;
    std::vector<std::string> names;
    for (const DType dtype : kAllDTypes) names.emplace_back(dtype_name(dtype));
    fail_at(begin, fmt::format("there is no element type '{}'", text), suggestion(text, names));
  }

  TensorType tensor_type() {
    TensorType type;
    type.dtype = dtype();
    type.shape = shape();
    return type;
  }

  static std::string suggestion(const std::string& name, const std::vector<std::string>& candidates) {
    const std::string nearest = nearest_name(name, candidates);
    return nearest.empty() ? fmt::format("known are {}", fmt::join(candidates, ", "))
                           : fmt::format("did you mean '{}'?", nearest);
  }

  Value value(const Graph& graph, const Numbering& numbering) {
    skip_spaces();
    const size_t begin = position_;
    expect('%', "before a value");
    const int64_t number = integer("the number of a value");
    const auto entry = numbering.find(number);
    if (entry == numbering.end()) fail_at(begin, fmt::format("%{} is not defined above", number));
    Value result{entry->second, 0};
    if (peek_is('.')) {
      ++position_;
      const int64_t output = integer("the number of an output");
      if (output < 0 || static_cast<size_t>(output) >= graph.node(result).outputs.size())
        fail_at(begin, fmt::format("%{} has {} outputs, there is no output {}", number,
                                   graph.node(result).outputs.size(), output));
      result.output = static_cast<int32_t>(output);
    }
    return result;
  }

  std::vector<Value> values(const Graph& graph, const Numbering& numbering) {
    std::vector<Value> result;
    do {
      result.push_back(value(graph, numbering));
    } while (accept(','));
    return result;
  }

  Op op() {
    skip_spaces();
    const size_t begin = position_;
    const std::string text = name("the name of an op");
    std::vector<std::string> names;
    for (const OpInfo& info : all_ops()) {
      if (info.name == text) return info.op;
      names.emplace_back(info.name);
    }
    fail_at(begin, fmt::format("there is no op '{}'", text), suggestion(text, names));
  }

  // What stands in braces after the inputs, before it is known which attributes the types imply.
  struct Given {
    Attributes attributes;
    std::set<std::string, std::less<>> fields;  // of attributes, that were given
    bool backward = false;
    std::shared_ptr<AttentionSpec> attention;
  };

  std::shared_ptr<const Graph> function(int depth) {
    expect('{', "before a function");
    if (depth == kMaximumDepth) fail("functions are nested too deeply");
    auto graph = std::make_shared<const Graph>(body(depth + 1));
    skip_space_and_lines();
    expect('}', "after a function");
    return graph;
  }

  // The value of a field, by its type; `depth` is that of the functions around it.
  void read(std::vector<int64_t>& value, int) { value = integers(); }
  void read(Shape& value, int) { value = shape(); }
  void read(double& value, int) { value = number("a number"); }
  void read(DType& value, int) { value = dtype(); }
  void read(int64_t& value, int) { value = integer("an integer"); }
  void read(std::string& value, int) { value = quoted("a name"); }
  void read(Sharding& value, int) {
    skip_spaces();
    const size_t begin = position_;
    const std::string text = quoted("a sharding");
    value = at(begin, [&] { return Sharding::parse(text); });
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
        expect('=', fmt::format("after {}", key).c_str());
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
    skip_space_and_lines();
    const size_t begin = position_;
    const std::string key = name("the name of an attribute");
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
      fail_at(begin, fmt::format("there is no attribute '{}'", key), suggestion(key, known));
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

  std::string scope() {
    skip_spaces();
    if (!peek_is('#')) return {};
    ++position_;
    if (peek_is(' ')) ++position_;
    std::string result;
    while (!at_end() && !peek_is('\n') && !peek_is('\r')) result += escaped_character();
    return result;
  }

  void end_of_line(const char* what) {
    skip_spaces();
    if (peek_is('\r')) ++position_;
    if (!at_end() && !peek_is('\n')) fail(fmt::format("expected the end of the line after {}", what));
  }

  void node(Graph& graph, Numbering& numbering, int depth) {
    const size_t begin = position_;
    expect('%', "before a value");
    const int64_t number = integer("the number of a value");
    if (number < 0 || numbering.contains(number)) fail_at(begin, fmt::format("%{} is defined already", number));
    const int64_t output_count = accept(':') ? integer("the number of outputs") : 1;
    expect('=', "after a value");
    skip_spaces();
    const size_t op_begin = position_;
    const Op op = this->op();

    Given given;
    if (op == Op::kInput) {
      given.attributes.name = quoted("the name of the input");
      given.fields.insert("name");
    }
    if (op == Op::kConstant) {
      given.attributes.value = this->number("the value of the constant");
      given.fields.insert("value");
    }
    std::vector<Value> inputs;
    if (accept('(') && !accept(')')) {
      inputs = values(graph, numbering);
      expect(')', "after the inputs");
    }
    if (accept('{')) {
      skip_space_and_lines();
      if (!accept('}')) {
        do {
          attribute(given, depth);
          skip_space_and_lines();
        } while (accept(','));
        expect('}', "after the attributes");
      }
    }
    expect(':', "before the types");
    skip_spaces();
    const size_t types_begin = position_;
    std::vector<TensorType> types;
    do {
      types.push_back(tensor_type());
    } while (accept(','));
    if (static_cast<int64_t>(types.size()) != output_count)
      fail_at(types_begin, fmt::format("expected {} types, one for each output", output_count));

    Attributes attributes = complete(given, implied_attributes(op, types));
    graph.set_scope(scope());
    graph.set_backward(given.backward);
    end_of_line("a node");
    const Value added = at(op_begin, [&] {
      if (op != Op::kInput) return graph.add(op, std::move(inputs), std::move(attributes));
      if (!inputs.empty()) throw Error(ErrorKind::kInvalidArgument, "an input of the graph takes no inputs");
      return graph.add_input(attributes.name, types[0], attributes.sharding);
    });
    if (graph.node(added).outputs != types)
      fail_at(types_begin,
              fmt::format("the type here is {}, not {}", types_text(graph.node(added).outputs), types_text(types)));
    numbering.emplace(number, added.node);
  }

  static std::string types_text(const std::vector<TensorType>& types) {
    std::string text;
    for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + type.text();
    return text;
  }

  void assignment(Graph& graph, const Numbering& numbering) {
    skip_spaces();
    const size_t begin = position_;
    const Value target = value(graph, numbering);
    if (graph.node(target).op != Op::kInput) fail_at(begin, "only an input can be assigned");
    expect('=', "after the target of an assignment");
    skip_spaces();
    const size_t value_begin = position_;
    const Value assigned = value(graph, numbering);
    if (graph.type(target) != graph.type(assigned))
      fail_at(value_begin, fmt::format("a value of type {} is assigned to an input of type {}",
                                       graph.type(assigned).text(), graph.type(target).text()));
    graph.assignments.push_back({target, assigned});
    end_of_line("an assignment");
  }

  // Nodes and assignments up to and including the return line.
  Graph body(int depth) {
    Graph graph;
    Numbering numbering;
    while (true) {
      skip_blank_lines();
      if (peek_is('%')) {
        node(graph, numbering, depth);
        continue;
      }
      const size_t begin = position_;
      const std::string word = is_name_character(peek()) ? name("a word") : "";
      if (word == "assign") {
        assignment(graph, numbering);
      } else if (word == "return") {
        skip_spaces();
        if (peek_is('%')) graph.outputs = values(graph, numbering);
        end_of_line("return");
        graph.set_scope({});
        graph.set_backward(false);
        return graph;
      } else {
        fail_at(begin, "expected a node (%0 = ...), assign or return");
      }
    }
  }

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace

Graph parse_graph(std::string_view text) { return Parser(text).parse(); }

}  // namespace causeway::graph
