// From a cone of graph nodes to C++ statements that compute one element of it.
//
// Everything between a kernel's outputs and the tensors it reads is expanded in place: elementwise ops become
// statements, movement ops become index arithmetic. Statements are placed at the shallowest loop that defines what they
// use, and equal subexpressions at equal positions are computed once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "causeway/codegen/expressions/element_walk.h"
#include "causeway/codegen/expressions/statements.h"

namespace causeway::codegen {

// What the emitter asks of the kernel it writes for.
class EmitterContext : public ReadContext {
 public:
  // The name of the pointer to the value's elements.
  virtual std::string pointer(Value value) = 0;
  // What computes tanh.
  virtual const char* tanh_function() const { return "tanh_f32"; }
  // The text of an index that the kernel has at hand.
  virtual std::optional<std::string> known_index(const Index& linear) { return std::nullopt; }
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

class ExpressionEmitter : public ElementWalk {
 public:
  ExpressionEmitter(const Graph& graph, EmitterContext& context, IndexVariables& variables, SymbolNames& symbols)
      : ElementWalk(graph, context, variables), text_(context), symbols_(symbols) {}

  // The C++ type of index variables: int64_t unless every index of the kernel fits a narrower one.
  void set_index_type(std::string type) { index_type_ = std::move(type); }
  // Values are rounded as by rounded_alone().
  void set_rounds_alone() { rounds_alone_ = true; }
  // Where the lanes' positions are compared with a value of the row, or with a constant, most vectors have one outcome
  // for all lanes: less than it, or unequal to it. From now on such a comparison is written so that the constant
  // `settled`, which the caller defines before the lanes' loop, stands for that outcome.
  void set_settles_comparisons() { settles_comparisons_ = true; }
  // What holds of vectors with that outcome in all comparisons written since the last call; nothing if there were none.
  std::optional<std::string> take_settled_condition() { return std::exchange(settled_condition_, std::nullopt); }

  // Statements by the loop depth at which they belong, in order, each ending in a newline. The caller takes them out
  // when it writes the loop of that depth.
  std::string take_statements(int depth);
  Statements take(int depth);

  std::string index_text(const Index& index);
  // Whether the variable, or any, is in any text so far.
  bool has_written(int variable) const { return written_variables_.contains(variable); }
  bool has_written_variables() const { return !written_variables_.empty(); }
  // The variable's values from which on a condition written so far has another outcome, where that depends on nothing
  // else: as of a concatenation's parts.
  const std::set<int64_t>& turns(int variable) { return turns_[variable]; }

 private:
  // A branch being written.
  struct Branch {
    bool of_all_lanes = false;
    Statements before;  // of all lanes: what does not depend on the lane
    std::string text;   // of all lanes: for each
  };

  WrittenValue write_load(Value value, const Index& linear, int depth) override;
  WrittenValue write_elementwise(const Node& node, const std::vector<ElementValue>& inputs, int depth) override;
  WrittenValue write_iota(const Node& node, const Index& index, int depth) override;
  WrittenValue write_random_bits(const Node& node, const ElementValue& seed, const ElementValue& step, const Index& at,
                                 int depth) override;
  WrittenValue write_literal(DType dtype, double value) override;
  void write_division(const Index& index, const Dim& divisor, int quotient, int remainder) override;
  void write_clamped(int variable, const ElementValue& index, const Dim& size) override;
  std::string write_condition(const std::vector<Comparison>& all_of) override;
  void begin_branch(bool of_all_lanes) override;
  void end_branch(const std::string& result, const ElementValue& value) override;
  void write_conditional(DType dtype, const std::string& result, const std::string& condition, bool of_all_lanes,
                         int depth) override;
  void discard_branches() override;

  std::string round(DType dtype, const std::string& value) const;
  std::string convert(DType from, DType to, const std::string& value) const;
  WrittenValue declare(const std::string& type, const std::string& expression, int depth);
  // Of what is, or would be, in memory as `stored`.
  WrittenValue declare_stored(DType dtype, const std::string& stored, int depth);
  std::optional<std::string> settled_comparison(const Node& node, const std::vector<ElementValue>& inputs);
  bool adds_one_to_erf(const Node& node, const std::vector<ElementValue>& inputs, size_t erf) const;
  void define_variable(int variable, const std::string& expression);
  void place(int depth, const std::string& statement);
  Statements& at_depth(int depth);

  EmitterContext& text_;
  SymbolNames& symbols_;
  std::vector<Statements> statements_;
  std::vector<Branch> branches_;
  std::vector<Statements> finished_branches_;
  std::set<int> written_variables_;
  std::map<int, std::set<int64_t>> turns_;
  std::map<WrittenVariable, std::string> erf_arguments_;  // of each erf of f32
  std::string index_type_ = "int64_t";
  bool rounds_alone_ = false;
  bool settles_comparisons_ = false;
  std::map<WrittenVariable, Index> lane_positions_;  // of the first lane, by every lane's
  std::set<int> defined_variables_;                  // that are not loops' own
  std::optional<std::string> settled_condition_;
};

// C++ type in which an element of `dtype` is computed with: float, int32_t, int64_t, uint8_t or bool.
std::string compute_type(DType dtype);
// C++ type of an element of `dtype` in memory.
std::string storage_type(DType dtype);
// An expression of the compute type for the element stored in `reference`, and one of the storage type for `value`.
std::string from_storage(DType dtype, const std::string& reference);
std::string to_storage(DType dtype, const std::string& value);
// The same for a value that `dtype` holds exactly.
std::string exact_storage(DType dtype, const std::string& value);
// What a float becomes when it is stored as `dtype`; other types as they are.
std::string rounded(DType dtype, const std::string& value);
// The same in fewer instructions (round_to_bf16() in kernels/types.h), of which rounding what is rounded already takes
// one more: for GEMMs, whose results are rounded while nothing else is done, not for loops.
std::string rounded_alone(DType dtype, const std::string& value);
std::string literal(DType dtype, double value);
// a + b, wrapping where they are integers.
std::string sum_text(DType dtype, const std::string& a, const std::string& b);

}  // namespace causeway::codegen
