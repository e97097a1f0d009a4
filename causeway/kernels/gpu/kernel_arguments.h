// What a GPU kernel receives, as kernel text and the host that packs it both need it.
#pragma once

#include "causeway/kernels/types.h"

// A tensor map in the form that its device's TMA reads.
struct alignas(128) TensorMapBytes {
  char bytes[128];
};

// What a launch passes to a kernel, by value: tensor maps, then pointers, then sizes.
template <int kBuffers, int kSizes, int kMaps>
struct KernelArguments {
  TensorMapBytes maps[kMaps];
  void* buffers[kBuffers];
  int64_t sizes[kSizes];
};
template <int kBuffers, int kSizes>
struct KernelArguments<kBuffers, kSizes, 0> {
  void* buffers[kBuffers];
  int64_t sizes[kSizes];
  static constexpr const TensorMapBytes* maps = nullptr;
};
template <int kBuffers>
struct KernelArguments<kBuffers, 0, 0> {
  void* buffers[kBuffers];
  static constexpr const TensorMapBytes* maps = nullptr;
  static constexpr const int64_t* sizes = nullptr;
};
