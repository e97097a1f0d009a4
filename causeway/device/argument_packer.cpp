#include "causeway/device/argument_packer.h"

#include <cstring>

namespace causeway::device {
namespace {

// The lists follow each other without gaps.
using Example = KernelArguments<3, 1, 2>;
static_assert(offsetof(Example, buffers) == 2 * sizeof(TensorMapBytes));
static_assert(offsetof(Example, sizes) == offsetof(Example, buffers) + 3 * sizeof(void*));
static_assert(sizeof(Example) % sizeof(TensorMapBytes) == 0);

std::byte* append(std::byte* place, const void* from, size_t bytes) {
  if (bytes != 0) std::memcpy(place, from, bytes);
  return place + bytes;
}

}  // namespace

void ArgumentPacker::pack(std::span<const TensorMapBytes> maps, std::span<void* const> buffers,
                          std::span<const int64_t> sizes) {
  constexpr size_t kBlock = sizeof(TensorMapBytes);
  const size_t content = maps.size_bytes() + buffers.size_bytes() + sizes.size_bytes();
  const size_t blocks = (content + kBlock - 1) / kBlock;
  if (blocks > blocks_.size()) blocks_.resize(blocks);
  std::byte* place = append(data(), maps.data(), maps.size_bytes());
  place = append(place, static_cast<const void*>(buffers.data()), buffers.size_bytes());
  append(place, sizes.data(), sizes.size_bytes());
  bytes_ = maps.empty() ? content : blocks * kBlock;
}

}  // namespace causeway::device
