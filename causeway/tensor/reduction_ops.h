// Reductions over axes (all of them when none are given; negative ones count from the end), scans along an axis, and
// the softmax family. With keepdim the reduced axes stay with size 1. Floats accumulate in f32 or wider and keep their
// dtype.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// Integers and bools sum to i64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);  // integers: as f32
// Over a constant number of elements, multiplied as a tree; integers and bools multiply to i64.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// The mean squared distance from the mean, over count - correction (1: the unbiased estimate). std: its root.
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdim = false);
Tensor std(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdim = false);
// NaN when an element is. Elements that attain the result share the gradient equally.
Tensor amax(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// (sum |x|^p)^(1/p), p >= 1; infinity gives the largest |x|. The gradient of the 2-norm at 0 is 0.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdim = false);
// log(sum(exp(x))) around the maximum; -infinity over -infinities.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// Index (i32) of the first largest or smallest element of an axis, or of the flattened tensor without one.
Tensor argmax(const Tensor& x, std::optional<int64_t> axis = std::nullopt, bool keepdim = false);
Tensor argmin(const Tensor& x, std::optional<int64_t> axis = std::nullopt, bool keepdim = false);

struct TopK {
  Tensor values;
  Tensor indices;  // i32
};
// The k largest (or smallest) of an axis, best first; of equal ones the first.
TopK topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true);

// Sums of the elements up to and including each; integers and bools as i64.
Tensor cumsum(const Tensor& x, int64_t axis);

// exp(x) / sum(exp(x)) around the maximum, in f32. NaN along an axis that is all -infinity.
Tensor softmax(const Tensor& x, int64_t axis = -1);
Tensor log_softmax(const Tensor& x, int64_t axis = -1);

}  // namespace causeway::tensor
