#include "causeway/tensor/linear_ops.h"

#include <algorithm>
#include <map>

#include "causeway/graph/op.h"
#include "causeway/tensor/arithmetic_ops.h"
#include "causeway/tensor/reduction_ops.h"
#include "causeway/tensor/shape_ops.h"

namespace causeway::tensor {
namespace {

std::vector<Tensor> promote_floats(std::string_view function, const Tensor& a, const Tensor& b) {
  require_argument(is_float(a.dtype()) || is_float(b.dtype()), function, "takes floats", {a, b}, "Cast the operands.");
  const DType dtype = promote_dtypes(a.dtype(), b.dtype());
  return {cast(a, dtype), cast(b, dtype)};
}

// [batch..., m, k] x [batch..., k, n], or [batch..., n, k] when transposed.
Tensor gemm(const Tensor& a, const Tensor& b, bool transpose_b = false) {
  Attributes attributes;
  attributes.dtype = a.dtype();
  attributes.transpose_b = transpose_b;
  return apply(Op::kDot, {a, b}, std::move(attributes));
}

// [..., k] x [k, n], or [n, k] when transposed, as one GEMM.
Tensor gemm_with_matrix(const Tensor& a, const Tensor& b, bool transpose_b) {
  const Dim& depth = a.shape().back();
  Dim rows(1);
  for (int64_t i = 0; i + 1 < a.rank(); ++i) rows *= a.size(i);
  Shape shape(a.shape().begin(), a.shape().end() - 1);
  shape.push_back(b.size(transpose_b ? 0 : 1));
  return reshape(gemm(reshape(a, {rows, depth}), b, transpose_b), shape);
}

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

std::string join_letters(const std::map<char, int>& counts) {
  std::string letters;
  for (const auto& [letter, count] : counts)
    if (count == 1) letters += letter;
  return letters;
}

Equation parse_equation(const std::string& text, const std::vector<Tensor>& operands) {
  const auto fail = [&](const std::string& what) {
    throw_argument_error("einsum", fmt::format("'{}' {}", text, what), operands);
  };
  std::string letters = text;
  std::erase(letters, ' ');
  const size_t arrow = letters.find("->");
  const std::string left = letters.substr(0, arrow);
  Equation equation;
  equation.operands.emplace_back();
  std::map<char, int> counts;
  for (const char c : left) {
    if (c == ',') {
      equation.operands.emplace_back();
      continue;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter) fail(fmt::format("has '{}', which is no letter", c));
    if (equation.operands.back().find(c) != std::string::npos) fail(fmt::format("has '{}' twice in one operand", c));
    equation.operands.back() += c;
    ++counts[c];
  }
  equation.result = arrow == std::string::npos ? join_letters(counts) : letters.substr(arrow + 2);
  for (size_t i = 0; i < equation.result.size(); ++i) {
    const char c = equation.result[i];
    if (!counts.contains(c)) fail(fmt::format("has '{}' in the result only", c));
    if (equation.result.find(c, i + 1) != std::string::npos) fail(fmt::format("has '{}' twice in the result", c));
  }
  if (equation.operands.size() != operands.size() || operands.empty() || operands.size() > 2)
    fail(fmt::format("takes {} operands, of which einsum knows one or two", equation.operands.size()));
  std::map<char, Dim> sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (static_cast<int64_t>(equation.operands[i].size()) != operands[i].rank())
      fail(fmt::format("names {} axes of operand {}", equation.operands[i].size(), i));
    for (size_t axis = 0; axis < equation.operands[i].size(); ++axis) {
      const auto [entry, inserted] = sizes.try_emplace(equation.operands[i][axis], operands[i].shape()[axis]);
      if (!inserted && entry->second != operands[i].shape()[axis])
        fail(fmt::format("gives '{}' the sizes {} and {}", entry->first, entry->second.text(),
                         operands[i].shape()[axis].text()));
    }
  }
  return equation;
}

// x with axes `from`, summed over those that are not in `to`, in the order of `to`.
Tensor arrange(const Tensor& x, const std::string& from, const std::string& to) {
  std::vector<int64_t> summed, order;
  std::string kept;
  for (size_t i = 0; i < from.size(); ++i) {
    if (to.find(from[i]) == std::string::npos) {
      summed.push_back(static_cast<int64_t>(i));
    } else {
      kept += from[i];
    }
  }
  for (const char c : to) order.push_back(static_cast<int64_t>(kept.find(c)));
  return permute(summed.empty() ? x : sum(x, summed), order);
}

Shape sizes_of(const Tensor& x, const std::string& axes, const std::string& wanted) {
  Shape sizes;
  for (const char c : wanted) sizes.push_back(x.shape()[axes.find(c)]);
  return sizes;
}

Shape joined(std::initializer_list<Shape> parts) {
  Shape all;
  for (const Shape& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Tensor contract(const Equation& equation, const Tensor& a, const Tensor& b) {
  const std::string &left = equation.operands[0], &right = equation.operands[1], &result = equation.result;
  const auto has = [](const std::string& letters, char c) { return letters.find(c) != std::string::npos; };
  std::string batch, summed, left_only, right_only;
  for (const char c : left) {
    if (has(right, c)) {
      (has(result, c) ? batch : summed) += c;
    } else if (has(result, c)) {
      left_only += c;
    }
  }
  for (const char c : right)
    if (!has(left, c) && has(result, c)) right_only += c;
  const Shape batches = sizes_of(a, left, batch), depth = sizes_of(a, left, summed);
  const Shape rows = sizes_of(a, left, left_only), columns = sizes_of(b, right, right_only);
  const Tensor x = reshape(arrange(a, left, batch + left_only + summed),
                           joined({batches, {element_count(rows), element_count(depth)}}));
  const Tensor y = reshape(arrange(b, right, batch + summed + right_only),
                           joined({batches, {element_count(depth), element_count(columns)}}));
  return arrange(reshape(gemm(x, y), joined({batches, rows, columns})), batch + left_only + right_only, result);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  require_argument(a.rank() >= 1 && b.rank() >= 1, "matmul", "takes no scalars", {a, b});
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, -1)), -1);
  require_argument(a.size(-1) == b.size(-2), "matmul",
                   fmt::format("contracts axes of sizes {} and {}", a.size(-1).text(), b.size(-2).text()), {a, b});
  const std::vector<Tensor> operands = promote_floats("matmul", a, b);
  const Tensor &x = operands[0], &y = operands[1];
  if (y.rank() == 2) return gemm_with_matrix(x, y, false);
  const Shape left(x.shape().begin(), x.shape().end() - 2), right(y.shape().begin(), y.shape().end() - 2);
  const Shape both[] = {left, right};
  const Shape batches = broadcast_shapes("matmul", both);
  return gemm(broadcast_to(x, joined({batches, {x.size(-2), x.size(-1)}})),
              broadcast_to(y, joined({batches, {y.size(-2), y.size(-1)}})));
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  require_argument(a.rank() == 3 && b.rank() == 3 && a.size(0) == b.size(0), "bmm", "takes [B, m, k] and [B, k, n]",
                   {a, b});
  return matmul(a, b);
}

Tensor mv(const Tensor& matrix, const Tensor& vector) {
  require_argument(matrix.rank() == 2 && vector.rank() == 1, "mv", "takes a matrix and a vector", {matrix, vector});
  return matmul(matrix, vector);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  require_argument(a.rank() == 1 && b.rank() == 1 && a.shape() == b.shape(), "dot", "takes two vectors of one size",
                   {a, b});
  return sum(a * b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  require_argument(a.rank() == 1 && b.rank() == 1, "outer", "takes two vectors", {a, b});
  return unsqueeze(a, 1) * b;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_argument(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(1), "linear",
                   "takes x [..., in] and a weight [out, in]", {x, weight});
  const std::vector<Tensor> operands = promote_floats("linear", x, weight);
  const Tensor result = gemm_with_matrix(operands[0], operands[1], true);
  if (!bias.defined()) return result;
  require_argument(bias.shape() == Shape{weight.size(0)}, "linear", "takes a bias [out]", {x, weight, bias});
  return result + bias;
}

Tensor grouped_matmul(const Tensor& rows, const Tensor& weights, const Tensor& offsets) {
  require_argument(rows.rank() == 3 && weights.rank() == 3 && rows.size(-1) == weights.size(-1), "grouped_matmul",
                   "takes rows [P, R, in] and weights [E, out, in]", {rows, weights, offsets});
  require_argument(offsets.rank() == 2 && offsets.size(0) == rows.size(0) &&
                       offsets.size(1) == weights.size(0) + Dim(1) && offsets.dtype() == DType::kI32,
                   "grouped_matmul", "takes i32 offsets [P, E + 1]", {rows, weights, offsets});
  const std::vector<Tensor> operands = promote_floats("grouped_matmul", rows, weights);
  Attributes attributes;
  attributes.dtype = operands[0].dtype();
  attributes.transpose_b = true;
  return apply(Op::kGroupedDot, {operands[0], operands[1], offsets}, std::move(attributes));
}

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands) {
  const Equation parsed = parse_equation(equation, operands);
  if (operands.size() == 1) return arrange(operands[0], parsed.operands[0], parsed.result);
  const std::vector<Tensor> floats = promote_floats("einsum", operands[0], operands[1]);
  return contract(parsed, floats[0], floats[1]);
}

}  // namespace causeway::tensor
