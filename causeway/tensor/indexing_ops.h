// Reading and writing at computed positions. Indices are i32 or i64. Reading outside an axis gives its nearest element;
// adding outside is ignored: neither fails, since what the indices hold is not known when the program is made.
#pragma once

#include "causeway/tensor/operand.h"

namespace causeway::tensor {

// x[..., index[...], ...]: one element of x for each element of the index, which has x's rank and fits it in all other
// axes (a size of 1 broadcasts). PyTorch's take_along_dim.
Tensor gather(const Tensor& x, int64_t axis, const Tensor& index);
// Whole slices of an axis, for indices of any shape, whose axes take the place of that axis.
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);
// Rows of weight [V, C] for ids of any shape: [ids..., C].
Tensor embedding(const Tensor& ids, const Tensor& weight);
// The element of x at one scalar index for each leading axis, e.g. bias[head, query, key].
Tensor at(const Tensor& x, const std::vector<Tensor>& indices);

// x plus source added at index along an axis, element by element: index and source have one shape, x's in all other
// axes. Repeated indices add up in their order.
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
// x plus whole slices added along an axis: index is 1-D, source is x with that axis of the index's size.
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
// x with whole slices replaced. What has one index adds up.
Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);

// Rows of x [P R, ...] by i32 [P, R], each line of which is a permutation of its own R rows: that nothing is read twice
// makes the gradient a gather too.
Tensor gather_permuted(const Tensor& x, const Tensor& index);
// The permutations that undo those of i32 [P, R].
Tensor inverse_permutation(const Tensor& index);

// A new last axis with 1 at each index and 0 elsewhere (all 0 where the index is outside).
Tensor one_hot(const Tensor& index, int64_t classes, DType dtype = DType::kF32);

}  // namespace causeway::tensor
