// The arguments of a GPU kernel as it receives them: struct KernelArguments of
// causeway/kernels/gpu/kernel_arguments.h, for numbers of buffers, sizes and maps that are known when it is launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "causeway/kernels/gpu/kernel_arguments.h"
#include "causeway/namespaces.h"

namespace causeway::device {

// Memory for one launch's arguments, reused by the next.
class ArgumentPacker {
 public:
  // Lays out maps, then pointers, then sizes, each list right after the one before. With maps, the whole is padded to a
  // multiple of their alignment, as the compiler pads the struct.
  void pack(std::span<const TensorMapBytes> maps, std::span<void* const> buffers, std::span<const int64_t> sizes);

  // Aligned to 128 bytes; valid until the next pack().
  std::byte* data() { return reinterpret_cast<std::byte*>(blocks_.data()); }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<TensorMapBytes> blocks_ = std::vector<TensorMapBytes>(1);
  size_t bytes_ = 0;
};

}  // namespace causeway::device
