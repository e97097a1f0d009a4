// Tensor maps as the emulator's kernels see them, and the boxes that TMA moves through them
// (cuTensorMapEncodeTiled; PTX ISA, "Tensors").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "causeway/device/device.h"

namespace causeway::device {

// What an argument of type TensorMapBytes holds.
struct EmulatedTensorMap {
  uint64_t mark = 0;  // of an encoded map
  std::byte* base = nullptr;
  std::array<int64_t, TensorMap::kMaxRank> stride_bytes{};
  std::array<uint32_t, TensorMap::kMaxRank> sizes{};
  std::array<uint16_t, TensorMap::kMaxRank> box{};
  uint8_t rank = 0;
  uint8_t element_bytes = 0;
  uint8_t swizzle_bytes = 0;
  bool rounds_to_tf32 = false;

  bool is_valid() const;
  int box_rows() const;
  int row_bytes() const { return box[0] * element_bytes; }
  int box_bytes() const { return box_rows() * row_bytes(); }
  // What its rows take in shared memory: as much as the swizzle is wide, where they are shorter.
  int shared_row_bytes() const { return swizzle_bytes > 0 ? swizzle_bytes : row_bytes(); }
  int shared_bytes() const { return box_rows() * shared_row_bytes(); }
};
inline constexpr size_t kTensorMapBytes = 128;
static_assert(sizeof(EmulatedTensorMap) <= kTensorMapBytes);

// Throws Error(kInvalidArgument) for what cuTensorMapEncodeTiled refuses.
EmulatedTensorMap encode_tensor_map(const TensorMap& map, void* buffer);

using BoxCoordinates = std::array<int, TensorMap::kMaxRank>;

// Copies the box whose first element has these coordinates to shared memory at `offset` bytes; outside elements are
// zero.
void load_box(const EmulatedTensorMap& map, const BoxCoordinates& first, std::byte* shared, int offset);
// Copies it back; outside elements are skipped. `box` is a copy of the box's bytes in shared memory, which began at
// `offset`.
void store_box(const EmulatedTensorMap& map, const BoxCoordinates& first, const std::byte* box, int offset);

}  // namespace causeway::device
