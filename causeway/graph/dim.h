// Tensor dimensions: integers, or polynomials with integer coefficients over named symbols (batch, sequence length),
// so that one compiled program serves every length. Divisibility is part of the type: a symbol declared as a multiple
// of 64 is 64 times another symbol. Arithmetic that leaves 64 bits throws Error(kInvalidArgument); -2^63, which has no
// positive counterpart, counts as outside.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::graph {

// Values of symbols, by symbol id.
using SymbolBindings = std::map<int32_t, int64_t>;

class Dim {
 public:
  Dim() = default;
  Dim(int64_t constant) : constant_(constant) {}  // NOLINT: integers are dimensions
  // The dimension `name`; when divisor > 1 it is divisor times the symbol "name/divisor".
  static Dim symbol(const std::string& name, int64_t divisor = 1);
  // The id of a symbol name as it stands in Dim::text(), created when new. Ids are stable within a process.
  static int32_t symbol_id(const std::string& name);
  static const std::string& symbol_name(int32_t id);

  bool is_constant() const { return terms_.empty(); }
  // The value of a constant dimension; checks that it is one.
  int64_t constant() const;
  bool is_constant(int64_t value) const { return terms_.empty() && constant_ == value; }

  // The value under `bindings`; an unbound symbol is an internal error.
  int64_t evaluate(const SymbolBindings& bindings) const;
  // The dimension with the symbols in `bindings` replaced.
  Dim substitute(const SymbolBindings& bindings) const;
  // this / divisor when that is a polynomial with integer coefficients; nullopt when it is not known to be.
  std::optional<Dim> divide_exactly(const Dim& divisor) const;
  // Ids of the symbols that occur.
  std::vector<int32_t> symbols() const;

  // A polynomial in the form `3*B*T + 1`, symbols by name: equal dimensions have equal text.
  std::string text() const;
  // Parses what text() prints; throws Error(kInvalidArgument).
  static Dim parse(const std::string& text);

  Dim operator+(const Dim& other) const;
  Dim operator-(const Dim& other) const;
  Dim operator*(const Dim& other) const;
  Dim& operator+=(const Dim& other) { return *this = *this + other; }
  Dim& operator*=(const Dim& other) { return *this = *this * other; }
  bool operator==(const Dim& other) const = default;
  // A total order for containers; not the order of values.
  bool operator<(const Dim& other) const;

  // One product of symbols (ids ascending, repeated for powers) with its non-zero coefficient.
  struct Term {
    std::vector<int32_t> symbols;
    int64_t coefficient = 0;
    bool operator==(const Term&) const = default;
  };
  const std::vector<Term>& terms() const { return terms_; }  // sorted by symbols
  int64_t constant_term() const { return constant_; }

 private:
  void add_term(const std::vector<int32_t>& symbols, int64_t coefficient);

  int64_t constant_ = 0;
  std::vector<Term> terms_;
};

using Shape = std::vector<Dim>;

// The product of all dimensions (1 for a scalar).
Dim element_count(const Shape& shape);
// "[B, T, 64]".
std::string shape_text(const Shape& shape);
std::vector<int64_t> evaluate(const Shape& shape, const SymbolBindings& bindings);
// Row-major strides in elements.
Shape row_major_strides(const Shape& shape);

}  // namespace causeway::graph
