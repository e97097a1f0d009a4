// The vocabulary of intrinsics.h for AMD's CDNA 2 and CDNA 3 GPUs (ISA documents of MI200 and MI300).
#pragma once

#define CAUSEWAY_KERNEL_ENTRY(threads, blocks_per_unit) \
  __attribute__((amdgpu_kernel, annotate("causeway_launch_bounds " #threads " " #blocks_per_unit)))
#define CAUSEWAY_KERNEL_PARAMETER(...) const __VA_ARGS__
#define CAUSEWAY_KERNEL_ARGUMENTS(arguments) arguments

constexpr int kWaveWidth = 64;

CAUSEWAY_INLINE int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
CAUSEWAY_INLINE int block_index() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
// From the packet that the launch is (HSA's hsa_kernel_dispatch_packet_t: grid_size_x, in threads, and workgroup_size_x
// in the lower half of its word).
CAUSEWAY_INLINE int block_count() {
  const auto* words = (const __attribute__((address_space(4))) uint32_t*)__builtin_amdgcn_dispatch_ptr();
  return static_cast<int>(words[3] / (words[1] & 0xffff));
}
// The barrier as the compiler makes it: at the head of some loops clang 22 leaves the fence's wait out.
CAUSEWAY_INLINE void fenced_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// lgkmcnt(0): accesses of shared memory are over. Where the fence waits too, the compiler makes one wait of both.
CAUSEWAY_INLINE void block_barrier() {
  __builtin_amdgcn_s_waitcnt(0xc07f);
  fenced_barrier();
}
// The lanes of a wave run in lockstep: only the compiler must not move accesses across.
CAUSEWAY_INLINE void wave_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

extern "C" __attribute__((address_space(3), aligned(1024))) char causeway_shared_memory[];
CAUSEWAY_INLINE char* shared_memory() { return (char*)causeway_shared_memory; }

// Device memory at an address that is a multiple of 16.
template <class T>
CAUSEWAY_INLINE T* global_pointer(void* pointer) {
  return static_cast<T*>(__builtin_assume_aligned((T*)(__attribute__((address_space(1))) T*)pointer, 16));
}

template <class T>
CAUSEWAY_INLINE T wave_shuffle(T value, int lane) {
  static_assert(sizeof(T) == 4);
  return __builtin_bit_cast(T, __builtin_amdgcn_ds_bpermute(lane * 4, __builtin_bit_cast(int, value)));
}
template <class T>
CAUSEWAY_INLINE T wave_shuffle_xor(T value, int mask) {
  return wave_shuffle(value, thread_index() % kWaveWidth ^ mask);
}
CAUSEWAY_INLINE uint64_t wave_ballot(bool value) { return __builtin_amdgcn_ballot_w64(value); }
CAUSEWAY_INLINE bool wave_any(bool value) { return wave_ballot(value) != 0; }
CAUSEWAY_INLINE bool wave_all(bool value) { return wave_ballot(!value) == 0; }

// There is no asynchronous copy of 16 bytes on these architectures: the copy is done when the call returns.
CAUSEWAY_INLINE void copy_async_16(void* shared, const void* global, bool valid) {
  typedef Vector<uint32_t, 4> Words;
  const Words zero = {0, 0, 0, 0};
  *(__attribute__((address_space(3))) Words*)shared =
      valid ? *(const __attribute__((address_space(1))) Words*)global : zero;
}
CAUSEWAY_INLINE void copy_async_commit() {}
template <int kGroups>
CAUSEWAY_INLINE void copy_async_wait() {}

CAUSEWAY_INLINE void prefetch_line(const void*) {}
// Launches do not overlap.
CAUSEWAY_INLINE void let_next_launch_begin() {}
CAUSEWAY_INLINE void wait_for_launches() {}

CAUSEWAY_INLINE uint64_t multiprocessor_cycles() { return __builtin_amdgcn_s_memtime(); }
// s_memrealtime counts at 100 MHz.
CAUSEWAY_INLINE uint64_t device_nanoseconds() { return 10 * __builtin_amdgcn_s_memrealtime(); }

CAUSEWAY_INLINE float fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
CAUSEWAY_INLINE float fast_log2(float x) { return __builtin_amdgcn_logf(x); }
CAUSEWAY_INLINE float fast_reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }

#include "causeway/kernels/gpu/amd_fragments.h"

typedef Vector<float, 4> MatrixSum;
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<bf16>& a, const FragmentB<bf16>& b) {
  typedef Vector<short, 4> Words;
  c = __builtin_bit_cast(
      Accumulator, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(Words, a), __builtin_bit_cast(Words, b),
                                                             __builtin_bit_cast(MatrixSum, c), 0, 0, 0));
}
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<f16>& a, const FragmentB<f16>& b) {
  typedef Vector<f16, 4> Words;
  c = __builtin_bit_cast(
      Accumulator, __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(Words, a), __builtin_bit_cast(Words, b),
                                                         __builtin_bit_cast(MatrixSum, c), 0, 0, 0));
}
// Four MMAs of depth 4, k = lane / 16 in each (v_mfma_f32_16x16x4f32): the k of A and B may be permuted alike.
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<float>& a, const FragmentB<float>& b) {
  MatrixSum sum = __builtin_bit_cast(MatrixSum, c);
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a.v[i], b.v[i], sum, 0, 0, 0);
  c = __builtin_bit_cast(Accumulator, sum);
}

#if CAUSEWAY_AMD == 0x942
// Two MMAs of depth 8 (v_mfma_f32_16x16x8_xf32), two neighbouring k of the lane's four in each.
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<tf32>& a, const FragmentB<tf32>& b) {
  typedef Vector<float, 2> Pair;
  MatrixSum sum = __builtin_bit_cast(MatrixSum, c);
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; i += 2) {
    const Pair left = {a.v[i].value, a.v[i + 1].value}, right = {b.v[i].value, b.v[i + 1].value};
    sum = __builtin_amdgcn_mfma_f32_16x16x8_xf32(left, right, sum, 0, 0, 0);
  }
  c = __builtin_bit_cast(Accumulator, sum);
}

// v_mfma_f32_16x16x32 of 8-bit operands: the lane holds k = 8 (lane / 16) + 0..7.
template <class EA, class EB>
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<F8Pair<EA, EB>>& a,
                                  const FragmentB<F8Pair<EA, EB>>& b) {
  const auto words_a = __builtin_bit_cast(int64_t, a), words_b = __builtin_bit_cast(int64_t, b);
  MatrixSum sum = __builtin_bit_cast(MatrixSum, c);
  if constexpr (__is_same(EA, f8e4m3) && __is_same(EB, f8e4m3)) {
    sum = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(words_a, words_b, sum, 0, 0, 0);
  } else if constexpr (__is_same(EA, f8e4m3)) {
    sum = __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8(words_a, words_b, sum, 0, 0, 0);
  } else if constexpr (__is_same(EB, f8e4m3)) {
    sum = __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8(words_a, words_b, sum, 0, 0, 0);
  } else {
    sum = __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(words_a, words_b, sum, 0, 0, 0);
  }
  c = __builtin_bit_cast(Accumulator, sum);
}
#endif
