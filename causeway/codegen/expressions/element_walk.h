// The way from one element of a value down to the elements of tensors in memory that it is computed from.
//
// Elementwise ops need their inputs at the same position; movement ops become index arithmetic. The walk knows nothing
// of text: as it is, it answers which elements are read, where, and at which loop depth each result is known, which is
// all that deciding about a kernel takes. ExpressionEmitter is the same walk, writing.
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

// A variable that a walk has written, by which what is known of it is found again.
enum class WrittenVariable : int { kNone = -1 };

// What was written: a variable, or an expression that is none.
struct WrittenValue {
  std::string name;  // empty on a walk that writes nothing
  WrittenVariable variable = WrittenVariable::kNone;
};

// A computed element: its name in the kernel, the loop depth from which on it is valid, and the variable that it is,
// where the walk has written one.
struct ElementValue {
  std::string name;
  int depth = 0;
  WrittenVariable variable = WrittenVariable::kNone;
};

// What the walk asks of the kernel it is for, and tells it.
class ReadContext {
 public:
  virtual ~ReadContext() = default;
  // Whether the value exists already, in memory or as a variable (otherwise its node is expanded in place).
  virtual bool is_stored(Value value) = 0;
  // The existing value as a variable of the kernel, when it is one at that position.
  virtual std::optional<ElementValue> variable(Value value, const Index& linear) = 0;
  // The value as an index when it is one of the kernel's loop positions.
  virtual std::optional<Index> position_index(Value value) { return std::nullopt; }
  // An element of `value` at `linear` is loaded.
  virtual void note_load(Value value, const Index& linear) {}
  // Index arithmetic wants loop variable `variable` to be cut into (extent / inner, inner).
  virtual void want_split(int variable, const Dim& inner) {}
};

class ElementWalk {
 public:
  // `variables` may be added to.
  ElementWalk(const Graph& graph, ReadContext& context, IndexVariables& variables)
      : graph_(graph), context_(context), variables_(variables) {}
  virtual ~ElementWalk() = default;

  // Variable `variable` counts `lanes` neighbouring elements: conditions that hold for all or none of them are decided
  // without it.
  void set_lanes(int variable, int lanes) {
    lane_variable_ = variable;
    lanes_ = lanes;
  }
  // Forgets values that are only valid inside loops of at least `depth`.
  void leave_loops(int depth);

  ElementValue compute(Value value, const ElementPosition& position);
  // Expands the node of `value` even when the context calls it stored: it is what the kernel computes.
  ElementValue define(Value value, const ElementPosition& position) { return expand(value, position); }
  int index_depth(const Index& index) const;
  // The index per dimension of element `linear` of `shape`; axes before `first_axis` are not wanted and get 0.
  std::vector<Index> delinearize(const Index& linear, const Shape& shape, size_t first_axis = 0);

 protected:
  // index < bound, or index >= bound.
  struct Comparison {
    Index index;
    bool less = true;
    Dim bound;
  };

  // What a walk that writes adds, at the moment at which it has to be written. Each returns what it wrote.
  virtual WrittenValue write_load(Value value, const Index& linear, int depth) { return {}; }
  virtual WrittenValue write_elementwise(const Node& node, const std::vector<ElementValue>& inputs, int depth) {
    return {};
  }
  virtual WrittenValue write_iota(const Node& node, const Index& index, int depth) { return {}; }
  virtual WrittenValue write_random_bits(const Node& node, const ElementValue& seed, const ElementValue& step,
                                         const Index& at, int depth) {
    return {};
  }
  virtual WrittenValue write_literal(DType dtype, double value) { return {}; }
  // Index variables that are not loops' own.
  virtual void write_division(const Index& index, const Dim& divisor, int quotient, int remainder) {}
  virtual void write_clamped(int variable, const ElementValue& index, const Dim& size) {}
  // A value that is one of two, by conditions that all have to hold: first the condition, then the branches one after
  // the other, each with everything that is written between its two calls, then the whole.
  virtual std::string write_condition(const std::vector<Comparison>& all_of) { return {}; }
  virtual void begin_branch(bool of_all_lanes) {}
  virtual void end_branch(const std::string& result, const ElementValue& value) {}
  virtual void write_conditional(DType dtype, const std::string& result, const std::string& condition,
                                 bool of_all_lanes, int depth) {}
  virtual void discard_branches() {}

  // A variable with a name of its own.
  WrittenValue new_variable_name();
  const std::string& lane_name() const { return variables_[static_cast<size_t>(lane_variable_)].name; }
  int lane_variable() const { return lane_variable_; }
  int lane_depth() const { return variables_[static_cast<size_t>(lane_variable_)].depth; }
  int lanes() const { return lanes_; }
  bool has_lanes() const { return lane_variable_ >= 0; }

  const Graph& graph_;
  ReadContext& context_;
  IndexVariables& variables_;

 private:
  struct Key {
    Value value;
    bool is_linear = false;
    std::vector<Index> position;
    bool operator<(const Key& other) const;
  };
  struct Division {
    Index index;
    Dim divisor;
    bool operator<(const Division& other) const;
  };
  // A branch on the way: what it defines is forgotten after it.
  struct Branch {
    // Of a condition that holds for all lanes or none: decided once, before their loop.
    bool of_all_lanes = false;
    std::vector<Key> values;
    std::vector<Division> divisions;
  };
  using Choice = std::function<ElementValue()>;

  static ElementValue at_depth(WrittenValue written, int depth);
  ElementValue expand(Value value, const ElementPosition& position);
  ElementValue movement(Value value, const ElementPosition& position);
  ElementValue padded(const Node& node, const std::vector<Index>& at);
  ElementValue concatenated(const Node& node, const std::vector<Index>& at);
  ElementValue gather(const Node& node, const ElementPosition& position);
  ElementValue conditional(DType dtype, const std::vector<Comparison>& all_of, const Choice& taken,
                           const Choice& otherwise);
  std::optional<ElementValue> lanes_conditional(DType dtype, const std::string& condition, const Choice& taken,
                                                const Choice& otherwise);
  void forget_branch();
  Index for_comparison(const Index& index, const Dim& bound) const;
  std::optional<Index> as_index(Value value, const ElementPosition& position);
  QuotientRemainder divide_at_run_time(const Index& index, const Dim& divisor, const Dim& quotient_extent);
  int new_variable(Dim extent, int depth);
  static Index linear(const ElementPosition& position, const Shape& shape);
  std::vector<Index> multi(const ElementPosition& position, const Shape& shape);

  std::map<Key, ElementValue> known_;
  std::map<Division, QuotientRemainder> quotients_;
  std::vector<Branch> branches_;
  int next_variable_ = 0;
  int lane_variable_ = -1, lanes_ = 1;
  bool needs_lane_variable_ = false;  // a branch before the lanes' loop reads what only exists inside
};

}  // namespace causeway::codegen
