// A tensor on the host whose elements are doubles, whatever its dtype: what the reference interpreter computes with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "causeway/graph/dtype.h"

namespace causeway::graph {

// Row-major. Integers are exact up to 2^53 in magnitude; an i64 beyond that loses its low bits.
struct HostTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<double> values;

  std::string type_text() const;  // "bf16[2, 64]"
};

// The product of the sizes (1 for a scalar).
int64_t element_count(const std::vector<int64_t>& shape);

// Values in order, one for each element of `shape`.
HostTensor make_host_tensor(DType dtype, std::vector<int64_t> shape, std::vector<double> values);
HostTensor fill_host_tensor(DType dtype, std::vector<int64_t> shape, double value);
// Uniform in [low, high), rounded to `dtype`; integers and bools take whole values from `low` (rounded up) to below
// `high`. A function of the seed alone.
HostTensor random_host_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, double low = -1, double high = 1);
// Each value rounded to the tensor's dtype.
HostTensor round_host_tensor(HostTensor tensor);

// Packed elements as they lie in device memory, and back. `data` holds exactly the elements of `shape`.
std::vector<std::byte> to_bytes(const HostTensor& tensor);
HostTensor from_bytes(DType dtype, std::vector<int64_t> shape, const void* data);

}  // namespace causeway::graph
