// The arguments of a GPU kernel as it receives them: struct KernelArguments of causeway/kernels/gpu/intrinsics.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace causeway {

// A tensor map in the form that its device's copy engine reads.
struct alignas(128) EncodedTensorMap {
  std::byte bytes[128] = {};
};

// Memory for one launch's arguments, reused by the next.
class KernelArguments {
 public:
  // Lays out maps, then pointers, then sizes, each list right after the one before. With maps, the whole is padded to a
  // multiple of their alignment, as the compiler pads the struct.
  void pack(std::span<const EncodedTensorMap> maps, std::span<void* const> buffers, std::span<const int64_t> sizes);

  // Aligned to 128 bytes; valid until the next pack().
  std::byte* data() { return blocks_.data()->bytes; }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<EncodedTensorMap> blocks_ = std::vector<EncodedTensorMap>(1);
  size_t bytes_ = 0;
};

}  // namespace causeway
