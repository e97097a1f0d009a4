#include "causeway/graph/host_tensor.h"

#include <cmath>

#include "causeway/base/error.h"
#include "causeway/graph/philox.h"

namespace causeway::graph {

std::string HostTensor::type_text() const { return fmt::format("{}[{}]", dtype_name(dtype), fmt::join(shape, ", ")); }

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

HostTensor make_host_tensor(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
  CAUSEWAY_CHECK(static_cast<int64_t>(values.size()) == element_count(shape), "{} values for [{}]", values.size(),
                 fmt::join(shape, ", "));
  return {dtype, std::move(shape), std::move(values)};
}

HostTensor fill_host_tensor(DType dtype, std::vector<int64_t> shape, double value) {
  const auto count = static_cast<size_t>(element_count(shape));
  return {dtype, std::move(shape), std::vector<double>(count, value)};
}

HostTensor random_host_tensor(DType dtype, std::vector<int64_t> shape, uint64_t seed, double low, double high) {
  HostTensor tensor = fill_host_tensor(dtype, std::move(shape), 0);
  const double first = std::ceil(low);
  const double whole = std::max(1.0, std::ceil(high) - first);
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const std::array<uint32_t, 4> words =
        philox_4x32_10({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0x68747372u, 0},
                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const double unit = words[0] * 0x1p-32;
    tensor.values[i] =
        is_float(dtype) ? round_to_dtype(dtype, low + (high - low) * unit) : first + std::floor(whole * unit);
    if (dtype == DType::kBool) tensor.values[i] = words[0] >> 31;
  }
  return tensor;
}

HostTensor round_host_tensor(HostTensor tensor) {
  for (double& value : tensor.values) value = round_to_dtype(tensor.dtype, value);
  return tensor;
}

std::vector<std::byte> to_bytes(const HostTensor& tensor) {
  std::vector<std::byte> bytes(tensor.values.size() * size_bytes(tensor.dtype));
  for (size_t i = 0; i < tensor.values.size(); ++i) write_element(tensor.dtype, bytes.data(), i, tensor.values[i]);
  return bytes;
}

HostTensor from_bytes(DType dtype, std::vector<int64_t> shape, const void* data) {
  HostTensor tensor = fill_host_tensor(dtype, std::move(shape), 0);
  for (size_t i = 0; i < tensor.values.size(); ++i) tensor.values[i] = read_element(dtype, data, i);
  return tensor;
}

}  // namespace causeway::graph
