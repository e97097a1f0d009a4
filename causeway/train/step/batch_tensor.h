// Tensors of tokens, of which each rank of a mesh holds its rows and positions.
#pragma once

#include <cstdint>
#include <span>

#include "causeway/model/sequence_order.h"
#include "causeway/tensor/tensor.h"
#include "causeway/train/recipe/recipe.h"

namespace causeway::train {

// [rows, length] of i32, or of f32 a weight or another number for each token, in the current context, cut as batches
// are (batch_sharding()); undefined contents. The sizes must divide.
Tensor make_batch_tensor(int64_t rows, int64_t length, DType dtype = DType::kI32);

// [rows], a number for each row of such a tensor, likewise.
Tensor make_row_tensor(int64_t rows, DType dtype = DType::kF32);

// In which they hold a sequence of a recipe's length: balanced over the ranks that share it, but for bits that are not
// to depend on the mesh, as sums over tokens follow it.
SequenceOrder batch_order(const Recipe& recipe);

// The rows of such a tensor that this rank holds.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};
RowRange own_rows(const Tensor& batch);

// Writes what the rank holds, out of its own rows with all their positions: row-major [count, length].
void write_own_rows(Tensor& batch, std::span<const int32_t> rows, const SequenceOrder& order);
void write_own_rows(Tensor& batch, std::span<const float> rows, const SequenceOrder& order);

}  // namespace causeway::train
