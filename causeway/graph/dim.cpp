#include "causeway/graph/dim.h"

#include <algorithm>
#include <cctype>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "causeway/base/error.h"

namespace causeway::graph {
namespace {

struct SymbolTable {
  std::mutex mutex;
  std::unordered_map<std::string, int32_t> ids;
  std::deque<std::string> names;
};

// Products of sums grow with every factor; no tensor's size has nearly as many.
constexpr size_t kMostTerms = 1024;

[[noreturn]] void throw_overflow() { throw Error(ErrorKind::kInvalidArgument, "a size does not fit in 64 bits"); }

int64_t checked_sum(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result) || result == INT64_MIN) throw_overflow();
  return result;
}

int64_t checked_product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result) || result == INT64_MIN) throw_overflow();
  return result;
}

SymbolTable& symbol_table() {
  static SymbolTable table;
  return table;
}

}  // namespace

int32_t Dim::symbol_id(const std::string& name) {
  SymbolTable& table = symbol_table();
  const std::lock_guard lock(table.mutex);
  const auto [entry, inserted] = table.ids.try_emplace(name, static_cast<int32_t>(table.names.size()));
  if (inserted) table.names.push_back(name);
  return entry->second;
}

const std::string& Dim::symbol_name(int32_t id) {
  SymbolTable& table = symbol_table();
  const std::lock_guard lock(table.mutex);
  return table.names.at(static_cast<size_t>(id));
}

Dim Dim::symbol(const std::string& name, int64_t divisor) {
  CAUSEWAY_CHECK(divisor >= 1);
  Dim dim;
  dim.add_term({symbol_id(divisor == 1 ? name : fmt::format("{}/{}", name, divisor))}, divisor);
  return dim;
}

int64_t Dim::constant() const {
  CAUSEWAY_CHECK(terms_.empty(), "dimension {} is symbolic", text());
  return constant_;
}

void Dim::add_term(const std::vector<int32_t>& symbols, int64_t coefficient) {
  if (coefficient == 0) return;
  if (symbols.empty()) {
    constant_ = checked_sum(constant_, coefficient);
    return;
  }
  const auto position = std::lower_bound(terms_.begin(), terms_.end(), symbols,
                                         [](const Term& term, const auto& key) { return term.symbols < key; });
  if (position != terms_.end() && position->symbols == symbols) {
    position->coefficient = checked_sum(position->coefficient, coefficient);
    if (position->coefficient == 0) terms_.erase(position);
  } else {
    if (terms_.size() == kMostTerms)
      throw Error(ErrorKind::kInvalidArgument, fmt::format("a size is a sum of more than {} products", kMostTerms));
    terms_.insert(position, Term{symbols, coefficient});
  }
}

int64_t Dim::evaluate(const SymbolBindings& bindings) const {
  int64_t total = constant_;
  for (const Term& term : terms_) {
    int64_t product = term.coefficient;
    for (const int32_t symbol : term.symbols) {
      const auto entry = bindings.find(symbol);
      CAUSEWAY_CHECK(entry != bindings.end(), "symbol {} has no value", symbol_name(symbol));
      product = checked_product(product, entry->second);
    }
    total = checked_sum(total, product);
  }
  return total;
}

Dim Dim::substitute(const SymbolBindings& bindings) const {
  Dim result(constant_);
  for (const Term& term : terms_) {
    int64_t coefficient = term.coefficient;
    std::vector<int32_t> rest;
    for (const int32_t symbol : term.symbols) {
      const auto entry = bindings.find(symbol);
      if (entry == bindings.end()) {
        rest.push_back(symbol);
      } else {
        coefficient = checked_product(coefficient, entry->second);
      }
    }
    result.add_term(rest, coefficient);
  }
  return result;
}

std::optional<Dim> Dim::divide_exactly(const Dim& divisor) const {
  if (divisor == *this && !is_constant(0)) return Dim(1);
  // Only single products divide term by term.
  if (divisor.terms_.size() + (divisor.constant_ != 0 ? 1 : 0) != 1) return std::nullopt;
  const Term by = divisor.terms_.empty() ? Term{{}, divisor.constant_} : divisor.terms_.front();
  std::vector<Term> all = terms_;
  if (constant_ != 0) all.push_back(Term{{}, constant_});
  Dim result;
  for (const Term& term : all) {
    if (term.coefficient % by.coefficient != 0) return std::nullopt;
    if (!std::includes(term.symbols.begin(), term.symbols.end(), by.symbols.begin(), by.symbols.end()))
      return std::nullopt;
    std::vector<int32_t> rest;
    std::set_difference(term.symbols.begin(), term.symbols.end(), by.symbols.begin(), by.symbols.end(),
                        std::back_inserter(rest));
    result.add_term(rest, term.coefficient / by.coefficient);
  }
  return result;
}

std::vector<int32_t> Dim::symbols() const {
  std::vector<int32_t> ids;
  for (const Term& term : terms_) ids.insert(ids.end(), term.symbols.begin(), term.symbols.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::string Dim::text() const {
  if (terms_.empty()) return fmt::format("{}", constant_);
  std::vector<std::pair<std::string, int64_t>> products;
  for (const Term& term : terms_) {
    std::vector<std::string> names;
    for (const int32_t symbol : term.symbols) names.push_back(symbol_name(symbol));
    std::sort(names.begin(), names.end());
    products.emplace_back(fmt::format("{}", fmt::join(names, "*")), term.coefficient);
  }
  // By name, so that the text does not depend on the order in which symbols were first met.
  std::sort(products.begin(), products.end());
  std::string result;
  for (const auto& [product, coefficient] : products) {
    if (!result.empty())
      result += coefficient < 0 ? " - " : " + ";
    else if (coefficient < 0)
      result += "-";
    if (std::abs(coefficient) != 1) result += fmt::format("{}*", std::abs(coefficient));
    result += product;
  }
  if (constant_ != 0) result += fmt::format(" {} {}", constant_ < 0 ? '-' : '+', std::abs(constant_));
  return result;
}

Dim Dim::parse(const std::string& text) {
  size_t position = 0;
  const auto fail = [&](const char* what) {
    throw Error(ErrorKind::kInvalidArgument, fmt::format("cannot read the dimension '{}': {}", text, what));
  };
  const auto skip_spaces = [&] {
    while (position < text.size() && text[position] == ' ') ++position;
  };
  Dim total;
  bool first = true;
  while (true) {
    skip_spaces();
    if (position == text.size()) break;
    int64_t sign = 1;
    if (text[position] == '-' || text[position] == '+') {
      sign = text[position] == '-' ? -1 : 1;
      ++position;
      skip_spaces();
    } else if (!first) {
      fail("expected + or -");
    }
    first = false;
    Dim product(sign);
    while (true) {
      const size_t begin = position;
      if (position < text.size() && std::isdigit(static_cast<unsigned char>(text[position]))) {
        int64_t value = 0;
        while (position < text.size() && std::isdigit(static_cast<unsigned char>(text[position]))) {
          if (__builtin_mul_overflow(value, 10, &value) ||
              __builtin_add_overflow(value, text[position++] - '0', &value))
            fail("a number is too large");
        }
        product *= Dim(value);
      } else {
        while (position < text.size() && (std::isalnum(static_cast<unsigned char>(text[position])) ||
                                          text[position] == '_' || text[position] == '/' || text[position] == '.'))
          ++position;
        if (position == begin) fail("expected a number or a name");
        product *= Dim::symbol(text.substr(begin, position - begin));
      }
      if (position >= text.size() || text[position] != '*') break;
      ++position;
    }
    total += product;
  }
  if (first) fail("it is empty");
  return total;
}

Dim Dim::operator+(const Dim& other) const {
  Dim result = *this;
  result.constant_ = checked_sum(constant_, other.constant_);
  for (const Term& term : other.terms_) result.add_term(term.symbols, term.coefficient);
  return result;
}

Dim Dim::operator-(const Dim& other) const { return *this + Dim(-1) * other; }

Dim Dim::operator*(const Dim& other) const {
  if (terms_.empty() && other.terms_.empty()) return Dim(checked_product(constant_, other.constant_));
  Dim result;
  std::vector<Term> left = terms_, right = other.terms_;
  if (constant_ != 0) left.push_back(Term{{}, constant_});
  if (other.constant_ != 0) right.push_back(Term{{}, other.constant_});
  for (const Term& a : left) {
    for (const Term& b : right) {
      std::vector<int32_t> merged;
      std::merge(a.symbols.begin(), a.symbols.end(), b.symbols.begin(), b.symbols.end(), std::back_inserter(merged));
      result.add_term(merged, checked_product(a.coefficient, b.coefficient));
    }
  }
  return result;
}

bool Dim::operator<(const Dim& other) const {
  if (constant_ != other.constant_) return constant_ < other.constant_;
  return std::lexicographical_compare(
      terms_.begin(), terms_.end(), other.terms_.begin(), other.terms_.end(), [](const Term& a, const Term& b) {
        return a.symbols != b.symbols ? a.symbols < b.symbols : a.coefficient < b.coefficient;
      });
}

Dim element_count(const Shape& shape) {
  Dim count(1);
  for (const Dim& dim : shape) count *= dim;
  return count;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + shape[i].text();
  return text + "]";
}

std::vector<int64_t> evaluate(const Shape& shape, const SymbolBindings& bindings) {
  std::vector<int64_t> values;
  values.reserve(shape.size());
  for (const Dim& dim : shape) values.push_back(dim.evaluate(bindings));
  return values;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), Dim(1));
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

}  // namespace causeway::graph
