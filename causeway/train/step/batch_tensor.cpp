#include "causeway/train/step/batch_tensor.h"

#include <vector>

#include "causeway/base/error.h"
#include "causeway/model/parameter_sharding.h"
#include "causeway/program/context.h"

namespace causeway::train {

Tensor make_batch_tensor(int64_t rows, int64_t length) {
  return Tensor::uninitialized({rows, length}, DType::kI32, batch_sharding(Context::current()->mesh()));
}

RowRange own_rows(const Tensor& batch) { return {batch.local_start()[0], batch.local_shape()[0]}; }

void write_own_rows(Tensor& batch, std::span<const int32_t> rows) {
  const auto count = static_cast<size_t>(own_rows(batch).count);
  const auto length = static_cast<size_t>(batch.shape()[1].constant());
  const auto start = static_cast<size_t>(batch.local_start()[1]);
  const auto positions = static_cast<size_t>(batch.local_shape()[1]);
  CAUSEWAY_CHECK(rows.size() == count * length, "{} tokens for {} rows of {}", rows.size(), count, length);
  if (positions == length) return batch.write_bytes(std::as_bytes(rows));
  std::vector<int32_t> part;
  part.reserve(count * positions);
  for (size_t row = 0; row < count; ++row) {
    const std::span<const int32_t> own = rows.subspan(row * length + start, positions);
    part.insert(part.end(), own.begin(), own.end());
  }
  batch.write_bytes(std::as_bytes(std::span<const int32_t>(part)));
}

}  // namespace causeway::train
