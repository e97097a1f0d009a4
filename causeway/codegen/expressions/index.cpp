#include "causeway/codegen/expressions/index.h"

#include <algorithm>

namespace causeway::codegen {
namespace {

// The largest value of `index`, assuming coefficients are not negative.
Dim maximum(const Index& index, const IndexVariables& variables) {
  Dim result = index.offset;
  for (const Index::Term& term : index.terms)
    result += term.coefficient * (variables[static_cast<size_t>(term.variable)].extent - Dim(1));
  return result;
}

bool coefficients_non_negative(const Index& index) {
  return known_non_negative(index.offset) &&
         std::all_of(index.terms.begin(), index.terms.end(),
                     [](const Index::Term& term) { return known_non_negative(term.coefficient); });
}

}  // namespace

Index add(const Index& a, const Index& b) {
  Index result{{}, a.offset + b.offset};
  auto left = a.terms.begin();
  auto right = b.terms.begin();
  while (left != a.terms.end() || right != b.terms.end()) {
    if (right == b.terms.end() || (left != a.terms.end() && left->variable < right->variable)) {
      result.terms.push_back(*left++);
    } else if (left == a.terms.end() || right->variable < left->variable) {
      result.terms.push_back(*right++);
    } else {
      Dim coefficient = left->coefficient + right->coefficient;
      if (!coefficient.is_constant(0)) result.terms.push_back({left->variable, std::move(coefficient)});
      ++left, ++right;
    }
  }
  return result;
}

Index scale(const Index& a, const Dim& factor) {
  if (factor.is_constant(0)) return Index::constant(0);
  Index result{{}, a.offset * factor};
  for (const Index::Term& term : a.terms) result.terms.push_back({term.variable, term.coefficient * factor});
  return result;
}

Dim coefficient(const Index& index, int variable) {
  const auto term = std::ranges::find(index.terms, variable, &Index::Term::variable);
  return term == index.terms.end() ? Dim(0) : term->coefficient;
}

bool known_non_negative(const Dim& value) {
  // With every symbol at least 1, a term is at least its coefficient: negative terms cannot be bounded from below.
  int64_t lower = value.constant_term();
  for (const Dim::Term& term : value.terms()) {
    if (term.coefficient < 0) return false;
    lower += term.coefficient;
  }
  return lower >= 0;
}

bool is_within(const Index& index, const Dim& bound, const IndexVariables& variables) {
  return coefficients_non_negative(index) && known_non_negative(bound - maximum(index, variables) - Dim(1));
}

std::optional<Index> where_it_begins(const Index& index, int variable) {
  Index first = index;
  const size_t by_one = std::erase_if(first.terms, [&](const Index::Term& term) {
    return term.variable == variable && term.coefficient.is_constant(1);
  });
  if (by_one == 0) return std::nullopt;
  return first;
}

std::optional<QuotientRemainder> divide(const Index& index, const Dim& divisor, const IndexVariables& variables) {
  QuotientRemainder result;
  for (const Index::Term& term : index.terms) {
    if (const std::optional<Dim> quotient = term.coefficient.divide_exactly(divisor)) {
      result.quotient.terms.push_back({term.variable, *quotient});
    } else {
      result.remainder.terms.push_back(term);
    }
  }
  if (const std::optional<Dim> quotient = index.offset.divide_exactly(divisor);
      quotient && !index.offset.is_constant(0)) {
    result.quotient.offset = *quotient;
  } else if (index.offset.is_constant() && divisor.is_constant() && index.offset.constant() >= 0) {
    result.quotient.offset = index.offset.constant() / divisor.constant();
    result.remainder.offset = index.offset.constant() % divisor.constant();
  } else {
    result.remainder.offset = index.offset;
  }
  if (!is_within(result.remainder, divisor, variables)) return std::nullopt;
  return result;
}

Index linearize(const std::vector<Index>& multi, const Shape& shape) {
  const Shape strides = row_major_strides(shape);
  Index result = Index::constant(0);
  for (size_t i = 0; i < multi.size(); ++i) result = add(result, scale(multi[i], strides[i]));
  return result;
}

}  // namespace causeway::codegen
