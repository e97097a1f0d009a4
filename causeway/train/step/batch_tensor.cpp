#include "causeway/train/step/batch_tensor.h"

#include <vector>

#include "causeway/base/error.h"
#include "causeway/model/mesh_axis.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/program/context.h"

namespace causeway::train {

Tensor make_batch_tensor(int64_t rows, int64_t length) {
  return Tensor::uninitialized({rows, length}, DType::kI32, batch_sharding(Context::current()->mesh()));
}

Tensor make_weight_tensor(int64_t rows, int64_t length) {
  return Tensor::uninitialized({rows, length}, DType::kF32, batch_sharding(Context::current()->mesh()));
}

Tensor make_row_tensor(int64_t rows) {
  const Sharding of_batch = batch_sharding(Context::current()->mesh());
  return Tensor::uninitialized({rows}, DType::kF32, {.dims = {of_batch.dims[0]}, .partial = {}});
}

SequenceOrder batch_order(const Recipe& recipe) {
  const Mesh& mesh = Context::current()->mesh();
  const MeshAxis* sharing = find_axis(mesh, MeshAxisId::kCp);
  if (recipe.train.mesh_independent || sharing == nullptr) return {};
  return SequenceOrder::balanced(recipe.data.sequence_length, sharing->size);
}

RowRange own_rows(const Tensor& batch) { return {batch.local_start()[0], batch.local_shape()[0]}; }

namespace {

template <typename T>
void write_rows(Tensor& batch, std::span<const T> rows, const SequenceOrder& order) {
  const int64_t count = own_rows(batch).count, length = batch.shape()[1].constant();
  const int64_t first = batch.local_start()[1], places = batch.local_shape()[1];
  CAUSEWAY_CHECK(rows.size() == static_cast<size_t>(count * length), "{} tokens for {} rows of {}", rows.size(), count,
                 length);
  if (order.is_plain() && places == length) return batch.write_bytes(std::as_bytes(rows));
  std::vector<T> part;
  part.reserve(static_cast<size_t>(count * places));
  for (int64_t row = 0; row < count; ++row)
    for (int64_t place = first; place < first + places; ++place)
      part.push_back(rows[static_cast<size_t>(row * length + order.position(place))]);
  batch.write_bytes(std::as_bytes(std::span<const T>(part)));
}

}  // namespace

void write_own_rows(Tensor& batch, std::span<const int32_t> rows, const SequenceOrder& order) {
  write_rows(batch, rows, order);
}

void write_own_rows(Tensor& batch, std::span<const float> rows, const SequenceOrder& order) {
  write_rows(batch, rows, order);
}

}  // namespace causeway::train
