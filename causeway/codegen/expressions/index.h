// Index expressions of generated kernels: sums of loop variables times dimensions, plus a dimension. Kept symbolic so
// that reshapes, which divide and take remainders, cancel against the loop structure instead of reaching the kernel.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "causeway/graph/dim.h"

namespace causeway::codegen {

// A kernel variable that takes values in [0, extent).
struct IndexVariable {
  std::string name;
  Dim extent;
  int depth = 0;  // loop depth at which it is defined; 0 is the kernel's top level
};

// All variables of one kernel; an Index refers to them by position.
using IndexVariables = std::vector<IndexVariable>;

struct Index {
  struct Term {
    int variable = 0;
    Dim coefficient;
    bool operator==(const Term&) const = default;
    bool operator<(const Term& other) const {
      return variable != other.variable ? variable < other.variable : coefficient < other.coefficient;
    }
  };
  std::vector<Term> terms;  // ascending variables, coefficients not zero
  Dim offset;

  static Index constant(Dim value) { return {{}, std::move(value)}; }
  static Index of(int variable) { return {{{variable, Dim(1)}}, Dim(0)}; }
  bool operator==(const Index&) const = default;
  // A total order for containers; not the order of values.
  bool operator<(const Index& other) const {
    return terms != other.terms ? terms < other.terms : offset < other.offset;
  }
};

Index add(const Index& a, const Index& b);
Index scale(const Index& a, const Dim& factor);
inline Index shift(Index a, const Dim& by) {
  a.offset += by;
  return a;
}

// The factor of the variable in the index; 0 where it is absent.
Dim coefficient(const Index& index, int variable);

// The index where the variable is 0, if it goes up by one with the variable.
std::optional<Index> where_it_begins(const Index& index, int variable);

struct QuotientRemainder {
  Index quotient;
  Index remainder;
};
// index / divisor and index % divisor when both follow from the variables' ranges without dividing at run time.
std::optional<QuotientRemainder> divide(const Index& index, const Dim& divisor, const IndexVariables& variables);

// Whether 0 <= index < bound follows from the variables' ranges.
bool is_within(const Index& index, const Dim& bound, const IndexVariables& variables);

// Whether value >= 0 for all symbol values >= 1, as far as the signs of the coefficients show.
bool known_non_negative(const Dim& value);

// Row-major position of `multi` in `shape`.
Index linearize(const std::vector<Index>& multi, const Shape& shape);

}  // namespace causeway::codegen
