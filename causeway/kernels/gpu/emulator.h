// The vocabulary of intrinsics.h for the emulator: kernels are compiled for the host's processor, every thread of a
// block is a fiber, and whatever concerns more than one thread is left to the host (device/emulator). Barriers and
// shuffles tell the host where in the text they are called.
#pragma once

#include "causeway/kernels/gpu/emulator_runtime.h"

// Set by whoever loads the image, who also compares the table's size with its own.
extern "C" {
extern __attribute__((visibility("default"))) const EmulatorRuntime* causeway_emulator_runtime;
const EmulatorRuntime* causeway_emulator_runtime = nullptr;
extern __attribute__((visibility("default"))) const int64_t causeway_emulator_runtime_bytes;
const int64_t causeway_emulator_runtime_bytes = sizeof(EmulatorRuntime);
}

// Not part of the kernel that the accesses to memory of checked text are reported for. `const` lets the compiler call
// once per kernel what does not change during the life of a thread.
#define CAUSEWAY_EMULATOR_CONSTANT __attribute__((noinline, const, disable_sanitizer_instrumentation)) static
#define CAUSEWAY_EMULATOR_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

CAUSEWAY_EMULATOR_CONSTANT const EmulatorRuntime* emulator_runtime() { return causeway_emulator_runtime; }
CAUSEWAY_EMULATOR_CONSTANT int emulator_thread_index() { return causeway_emulator_runtime->thread_index(); }
CAUSEWAY_EMULATOR_CONSTANT int emulator_block_index() { return causeway_emulator_runtime->block_index(); }
CAUSEWAY_EMULATOR_CONSTANT int emulator_block_count() { return causeway_emulator_runtime->block_count(); }
CAUSEWAY_EMULATOR_CONSTANT char* emulator_shared_memory() { return causeway_emulator_runtime->shared_memory(); }

template <class T>
CAUSEWAY_INLINE const T& emulator_arguments(const T* arguments) {
  emulator_runtime()->check_arguments(sizeof(T));
  return *arguments;
}
#define CAUSEWAY_KERNEL_ENTRY(threads, blocks_per_unit) __attribute__((visibility("default")))
#define CAUSEWAY_KERNEL_PARAMETER(...) const __VA_ARGS__*
#define CAUSEWAY_KERNEL_ARGUMENTS(arguments) emulator_arguments(arguments)

#if defined(CAUSEWAY_NVIDIA)
constexpr int kWaveWidth = 32;
#else
constexpr int kWaveWidth = 64;
#endif

CAUSEWAY_INLINE int thread_index() { return emulator_thread_index(); }
CAUSEWAY_INLINE int block_index() { return emulator_block_index(); }
CAUSEWAY_INLINE int block_count() { return emulator_block_count(); }
CAUSEWAY_INLINE char* shared_memory() { return emulator_shared_memory(); }
CAUSEWAY_INLINE void block_barrier(CAUSEWAY_EMULATOR_PLACE) { emulator_runtime()->block_barrier(file, line); }
CAUSEWAY_INLINE void wave_barrier(CAUSEWAY_EMULATOR_PLACE) { emulator_runtime()->wave_barrier(file, line); }

template <class T>
CAUSEWAY_INLINE T* global_pointer(void* pointer) {
  return static_cast<T*>(__builtin_assume_aligned(static_cast<T*>(pointer), 16));
}

template <class T>
CAUSEWAY_INLINE T wave_shuffle(T value, int lane, CAUSEWAY_EMULATOR_PLACE) {
  static_assert(sizeof(T) == 4);
  return __builtin_bit_cast(T, emulator_runtime()->wave_shuffle(__builtin_bit_cast(uint32_t, value), lane, file, line));
}
template <class T>
CAUSEWAY_INLINE T wave_shuffle_xor(T value, int mask, CAUSEWAY_EMULATOR_PLACE) {
  static_assert(sizeof(T) == 4);
  return __builtin_bit_cast(
      T, emulator_runtime()->wave_shuffle_xor(__builtin_bit_cast(uint32_t, value), mask, file, line));
}
CAUSEWAY_INLINE uint64_t wave_ballot(bool value, CAUSEWAY_EMULATOR_PLACE) {
  return emulator_runtime()->wave_ballot(value, file, line);
}
CAUSEWAY_INLINE bool wave_any(bool value, CAUSEWAY_EMULATOR_PLACE) { return wave_ballot(value, file, line) != 0; }
CAUSEWAY_INLINE bool wave_all(bool value, CAUSEWAY_EMULATOR_PLACE) { return wave_ballot(!value, file, line) == 0; }

// Launches do not overlap.
CAUSEWAY_INLINE void prefetch_line(const void*) {}
CAUSEWAY_INLINE void let_next_launch_begin() {}
CAUSEWAY_INLINE void wait_for_launches() {}

// A clock of 1 GHz.
CAUSEWAY_INLINE uint64_t multiprocessor_cycles() { return __builtin_readcyclecounter(); }
CAUSEWAY_INLINE uint64_t device_nanoseconds() { return __builtin_readcyclecounter(); }

CAUSEWAY_INLINE float fast_exp2(float x) { return exp2_f32(x); }
CAUSEWAY_INLINE float fast_log2(float x) { return log2_f32(x); }
CAUSEWAY_INLINE float fast_reciprocal(float x) { return 1.0f / x; }

#if __has_feature(thread_sanitizer)
// What clang's instrumentation of checked text calls.
#define CAUSEWAY_EMULATOR_HOOK extern "C" __attribute__((used, noinline, disable_sanitizer_instrumentation)) void
#define CAUSEWAY_EMULATOR_ACCESS(name, bytes, writes)                                       \
  CAUSEWAY_EMULATOR_HOOK name(void* address) {                                              \
    causeway_emulator_runtime->access(address, bytes, writes, __builtin_return_address(0)); \
  }
CAUSEWAY_EMULATOR_ACCESS(__tsan_read1, 1, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_read2, 2, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_read4, 4, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_read8, 8, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_read16, 16, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_write1, 1, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_write2, 2, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_write4, 4, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_write8, 8, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_write16, 16, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_read2, 2, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_read4, 4, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_read8, 8, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_read16, 16, 0)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_write2, 2, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_write4, 4, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_write8, 8, 1)
CAUSEWAY_EMULATOR_ACCESS(__tsan_unaligned_write16, 16, 1)
#undef CAUSEWAY_EMULATOR_ACCESS
CAUSEWAY_EMULATOR_HOOK __tsan_init() {}
CAUSEWAY_EMULATOR_HOOK __tsan_func_entry(void*) {}
CAUSEWAY_EMULATOR_HOOK __tsan_func_exit() {}
#undef CAUSEWAY_EMULATOR_HOOK

#define CAUSEWAY_EMULATOR_COPY(name, copy)                                                                             \
  extern "C" __attribute__((used, noinline, disable_sanitizer_instrumentation)) void* name(void* to, const void* from, \
                                                                                           size_t bytes) {             \
    causeway_emulator_runtime->access(from, static_cast<int64_t>(bytes), 0, __builtin_return_address(0));              \
    causeway_emulator_runtime->access(to, static_cast<int64_t>(bytes), 1, __builtin_return_address(0));                \
    return copy(to, from, bytes);                                                                                      \
  }
CAUSEWAY_EMULATOR_COPY(__tsan_memcpy, __builtin_memcpy)
CAUSEWAY_EMULATOR_COPY(__tsan_memmove, __builtin_memmove)
#undef CAUSEWAY_EMULATOR_COPY
extern "C" __attribute__((used, noinline, disable_sanitizer_instrumentation)) void* __tsan_memset(void* to, int value,
                                                                                                  size_t bytes) {
  causeway_emulator_runtime->access(to, static_cast<int64_t>(bytes), 1, __builtin_return_address(0));
  return __builtin_memset(to, value, bytes);
}
#endif

#include "causeway/kernels/gpu/emulator_matrix.h"
