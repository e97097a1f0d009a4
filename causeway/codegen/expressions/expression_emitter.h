// From a cone of graph nodes to C++ statements that compute one element of it.
//
// Everything between a kernel's outputs and the tensors it reads is expanded in place: elementwise ops become
// statements, movement ops become index arithmetic. Statements are placed at the shallowest loop that defines what they
// use, and equal subexpressions at equal positions are computed once.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "causeway/codegen/expressions/index.h"
#include "causeway/graph/graph.h"

namespace causeway::codegen {

// A position in a tensor: its row-major index, its index per dimension, or both.
struct ElementPosition {
  std::optional<Index> linear;
  std::optional<std::vector<Index>> multi;
};

// A computed element: a C++ expression (a name or a literal), and the loop depth from which on it is valid.
struct EmittedValue {
  std::string name;
  int depth = 0;
};

// What the emitter asks of the kernel it writes for.
class EmitterContext {
 public:
  virtual ~EmitterContext() = default;
  // Whether the value exists already, in memory or as a variable (otherwise its node is expanded in place).
  virtual bool is_stored(Value value) = 0;
  // The existing value as a variable of the kernel, when it is one at that position.
  virtual std::optional<EmittedValue> variable(Value value, const Index& linear) = 0;
  // The name of the pointer to the value's elements.
  virtual std::string pointer(Value value) = 0;
  // The value as an index when it is one of the kernel's loop positions.
  virtual std::optional<Index> position_index(Value value) { return std::nullopt; }
  // The text of an index that the kernel has at hand.
  virtual std::optional<std::string> known_index(const Index& linear) { return std::nullopt; }
  // An element of `value` at `linear` is loaded.
  virtual void note_load(Value value, const Index& linear) {}
  // Index arithmetic wants loop variable `variable` to be cut into (extent / inner, inner).
  virtual void want_split(int variable, const Dim& inner) {}
};

// Names symbols' values: "d0", "d1", ... in order of first use, shared by all that one kernel emits.
class SymbolNames {
 public:
  // The dimension as a C++ expression of type int64_t, parenthesised unless it is a single name or number.
  std::string text(const Dim& dim);
  // The symbols in order of their names.
  const std::vector<int32_t>& symbols() const { return symbols_; }

 private:
  std::vector<int32_t> symbols_;
};

class ExpressionEmitter {
 public:
  ExpressionEmitter(const Graph& graph, EmitterContext& context, IndexVariables& variables, SymbolNames& symbols);

  // The C++ type of index variables: int64_t unless every index of the kernel fits a narrower one.
  void set_index_type(std::string type) { index_type_ = std::move(type); }
  // Variable `variable` counts `lanes` neighbouring elements: conditions that hold for all or none of them are written
  // without it.
  void set_lanes(int variable, int lanes) {
    lane_variable_ = variable;
    lanes_ = lanes;
  }

  // Statements by the loop depth at which they belong, in order, each ending in a newline. The caller takes them out
  // when it writes the loop of that depth.
  std::string take_statements(int depth);
  // Forgets values that are only valid inside loops of at least `depth`.
  void leave_loops(int depth);

  EmittedValue emit(Value value, const ElementPosition& position);
  // Expands the node of `value` even when the context calls it stored: it is what the kernel computes.
  EmittedValue define(Value value, const ElementPosition& position) { return expand(value, position); }
  std::string index_text(const Index& index);
  int index_depth(const Index& index) const;
  // The index per dimension of element `linear` of `shape`; axes before `first_axis` are not wanted and get 0.
  std::vector<Index> delinearize(const Index& linear, const Shape& shape, size_t first_axis = 0);
  // A new index variable holding a C++ expression with the given range.
  int add_variable(const std::string& expression, Dim extent, int depth);
  Index linear(const ElementPosition& position, const Shape& shape);
  std::vector<Index> multi(const ElementPosition& position, const Shape& shape);

 private:
  struct Key {
    Value value;
    std::string position;
    auto operator<=>(const Key&) const = default;
  };

  // A branch being written: its statements stay together, and what they define is forgotten after it.
  struct Capture {
    std::string text;
    // Of a condition that holds for all lanes or none: the branch is `before`, then `text` for each lane.
    bool of_all_lanes = false;
    std::string before;
    std::vector<Key> values;
    std::vector<std::string> quotients;
  };

  EmittedValue expand(Value value, const ElementPosition& position);
  EmittedValue elementwise(const Node& node, const std::vector<EmittedValue>& inputs);
  EmittedValue movement(Value value, const ElementPosition& position);
  EmittedValue conditional(const std::string& type, const std::string& condition, int condition_depth,
                           const std::function<EmittedValue()>& taken, const std::function<EmittedValue()>& otherwise);
  std::optional<EmittedValue> lanes_conditional(const std::string& type, const std::string& condition,
                                                const std::function<EmittedValue()>& taken,
                                                const std::function<EmittedValue()>& otherwise);
  void end_capture();
  int lane_depth() const { return variables_[static_cast<size_t>(lane_variable_)].depth; }
  EmittedValue load(Value value, const Index& linear);
  Index for_comparison(const Index& index, const Dim& bound) const;
  EmittedValue gather(const Node& node, const ElementPosition& position);
  std::optional<Index> as_index(Value value, const ElementPosition& position);
  EmittedValue declare(const std::string& type, const std::string& expression, int depth);
  void place(int depth, const std::string& statement);
  QuotientRemainder divide_at_run_time(const Index& index, const Dim& divisor, const Dim& quotient_extent);

  const Graph& graph_;
  EmitterContext& context_;
  IndexVariables& variables_;
  SymbolNames& symbols_;
  std::vector<std::string> statements_;
  std::map<Key, EmittedValue> known_;
  std::map<std::string, QuotientRemainder> quotients_;
  std::vector<Capture> captures_;
  int next_name_ = 0;
  std::string index_type_ = "int64_t";
  int lane_variable_ = -1, lanes_ = 1;
  bool needs_lane_variable_ = false;  // a branch before the lanes' loop reads what only exists inside
};

// C++ type in which an element of `dtype` is computed with: float, int32_t, int64_t, uint8_t or bool.
std::string compute_type(DType dtype);
// C++ type of an element of `dtype` in memory.
std::string storage_type(DType dtype);
// An expression of the compute type for the element stored in `reference`, and one of the storage type for `value`.
std::string from_storage(DType dtype, const std::string& reference);
std::string to_storage(DType dtype, const std::string& value);
std::string literal(DType dtype, double value);
// a + b, wrapping where they are integers.
std::string sum_text(DType dtype, const std::string& a, const std::string& b);

}  // namespace causeway::codegen
