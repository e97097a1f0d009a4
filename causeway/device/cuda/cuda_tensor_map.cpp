#include "causeway/device/cuda/cuda_tensor_map.h"

#include <array>
#include <string>

#include "causeway/base/error.h"

namespace causeway::device {

TensorMapBytes encode_cuda_tensor_map(const CudaDriver& driver, const TensorMap& map, void* buffer) {
  const auto type = map.element_bytes == 1   ? CudaDriver::kUint8
                    : map.element_bytes == 2 ? CudaDriver::kUint16
                    : map.rounds_to_tf32     ? CudaDriver::kTfloat32
                                             : CudaDriver::kUint32;
  const int swizzle = map.swizzle_bytes == 0 ? 0 : map.swizzle_bytes == 32 ? 1 : map.swizzle_bytes == 64 ? 2 : 3;
  std::array<uint64_t, TensorMap::kMaxRank> sizes{}, strides{};
  std::array<uint32_t, TensorMap::kMaxRank> box{}, element_strides{};
  for (size_t i = 0; i < static_cast<size_t>(map.rank); ++i) {
    sizes[i] = static_cast<uint64_t>(map.sizes[i]);
    box[i] = static_cast<uint32_t>(map.box[i]);
    element_strides[i] = 1;
    // The contiguous dimension's stride is left out.
    if (i > 0) strides[i - 1] = static_cast<uint64_t>(map.stride_bytes[i]);
  }
  TensorMapBytes encoded;
  const CudaDriver::Result result = driver.tensor_map_encode(
      &encoded, type, static_cast<uint32_t>(map.rank), static_cast<std::byte*>(buffer) + map.offset, sizes.data(),
      strides.data(), box.data(), element_strides.data(), 0, swizzle, CudaDriver::kPromote256Bytes, 0);
  if (result != CudaDriver::kSuccess) {
    std::string text;
    for (size_t i = 0; i < static_cast<size_t>(map.rank); ++i)
      text += fmt::format("{}{} every {} bytes in boxes of {}", i == 0 ? "" : "; ", map.sizes[i], map.stride_bytes[i],
                          map.box[i]);
    CAUSEWAY_CHECK(false, "the driver refused a tensor map ({}): {} bytes an element, offset {}, swizzle {}, {}",
                   driver.name_of(result), map.element_bytes, map.offset, map.swizzle_bytes, text);
  }
  return encoded;
}

}  // namespace causeway::device
