// What a user's kernel (graph/user_kernel.h) is written in: one text for every device.
//
// A kernel runs as independent blocks, numbered by `task`. The `threads` threads of a block share the block's work, as
// in
//   for (int64_t i = block.thread; i < n; i += block.threads) ...
// On a GPU a block has as many threads as were asked for; on a CPU it has one. All threads of a block take part in
// every barrier(), sum() and max(); sums add in an order that depends on the number of threads and on nothing else.
#pragma once

#if defined(CAUSEWAY_NVIDIA) || defined(CAUSEWAY_AMD)
#include "causeway/kernels/gpu/intrinsics.h"
#else
#include "causeway/kernels/elementwise.h"
#endif

struct Block {
  int64_t task;
  int thread;
  int threads;
  char* memory;  // the shared memory that was asked for; on a GPU the 256 bytes before it hold partial sums

  // Memory that the block's threads share, `offset` bytes from its start; contents undefined.
  template <class T>
  CAUSEWAY_INLINE T* shared(int offset = 0) const {
    return reinterpret_cast<T*>(memory + offset);
  }

#if defined(CAUSEWAY_NVIDIA) || defined(CAUSEWAY_AMD)
  // Waits for the block's threads; they see each other's writes to shared and device memory.
  CAUSEWAY_INLINE void barrier() const { block_barrier(); }
  // Of all threads' values, for all threads.
  CAUSEWAY_INLINE float sum(float value) const {
    return combine(value, [](float a, float b) { return a + b; });
  }
  CAUSEWAY_INLINE float max(float value) const {
    return combine(value, [](float a, float b) {
      return from_order_key(order_key(a) > order_key(b) ? order_key(a) : order_key(b));
    });
  }

 private:
  template <class F>
  CAUSEWAY_INLINE float combine(float value, F function) const {
    for (int width = kWaveWidth / 2; width > 0; width /= 2) value = function(value, wave_shuffle_xor(value, width));
    float* partial = reinterpret_cast<float*>(memory - 256);
    block_barrier();
    if (lane_index() == 0) partial[wave_index()] = value;
    block_barrier();
    float result = partial[0];
    for (int wave = 1; wave < threads / kWaveWidth; ++wave) result = function(result, partial[wave]);
    return result;
  }
#else
  CAUSEWAY_INLINE void barrier() const {}
  CAUSEWAY_INLINE float sum(float value) const { return value; }
  CAUSEWAY_INLINE float max(float value) const { return value; }
#endif
};
