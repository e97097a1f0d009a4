// The vocabulary of intrinsics.h for AMD's CDNA 2 and CDNA 3 GPUs (ISA documents of MI200 and MI300).
#pragma once

#define CAUSEWAY_KERNEL_ENTRY(threads, blocks_per_unit) \
  __attribute__((amdgpu_kernel, annotate("causeway_launch_bounds " #threads " " #blocks_per_unit)))
#define CAUSEWAY_KERNEL_PARAMETER(...) const __VA_ARGS__
#define CAUSEWAY_KERNEL_ARGUMENTS(arguments) arguments

constexpr int kWaveWidth = 64;

CAUSEWAY_INLINE int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
CAUSEWAY_INLINE int block_index() { return static_cast<int>(__builtin_amdgcn_workgroup_id_x()); }
CAUSEWAY_INLINE void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
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

CAUSEWAY_INLINE float fast_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
CAUSEWAY_INLINE float fast_log2(float x) { return __builtin_amdgcn_logf(x); }

// Fragments of v_mfma_f32_16x16x16: line = lane % 16 is the row of A or the column of B and of C; the lane holds
// k = 4 (lane / 16) + 0..3 of A and B, and rows 4 (lane / 16) + 0..3 of C.
constexpr int kAccumulatorElements = 4;
struct Accumulator {
  float v[kAccumulatorElements];
};
CAUSEWAY_INLINE int accumulator_row(int i) { return thread_index() % 64 / 16 * 4 + i; }
CAUSEWAY_INLINE int accumulator_column(int i) { return thread_index() % 16; }

template <class T>
struct FragmentA {
  T v[4];
};
template <class T>
struct FragmentB {
  T v[4];
};

template <class T>
CAUSEWAY_INLINE void load_line(T* v, const T* shared, int line_stride, int k_stride) {
  const int lane = thread_index() % 64;
  const T* from = shared + lane % 16 * line_stride + lane / 16 * 4 * k_stride;
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) v[i] = from[i * k_stride];
}
template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentA<T>& a, const T* shared, int stride) {
  load_line(a.v, shared, stride, 1);
}
template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentB<T>& b, const T* shared, int stride) {
  load_line(b.v, shared, stride, 1);
}
template <class E, class T>
CAUSEWAY_INLINE void load_fnuz_line(T* v, const T* shared, int stride) {
  load_line(v, shared, stride, 1);
  uint32_t words[2];
  __builtin_memcpy(words, v, 8);
  for (uint32_t& word : words) word = to_fnuz<E>(word);
  __builtin_memcpy(v, words, 8);
}
template <class EA, class EB>
CAUSEWAY_INLINE void load_fragment(FragmentA<F8Pair<EA, EB>>& a, const F8Pair<EA, EB>* shared, int stride) {
  load_fnuz_line<EA>(a.v, shared, stride);
}
template <class EA, class EB>
CAUSEWAY_INLINE void load_fragment(FragmentB<F8Pair<EA, EB>>& b, const F8Pair<EA, EB>* shared, int stride) {
  load_fnuz_line<EB>(b.v, shared, stride);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<T>& a, const T* shared, int stride) {
  load_line(a.v, shared, 1, stride);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<T>& b, const T* shared, int stride) {
  load_line(b.v, shared, 1, stride);
}

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
// Four products of depth 4, k = lane / 16 in each (v_mfma_f32_16x16x4f32): the k of A and B may be permuted alike.
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<float>& a, const FragmentB<float>& b) {
  MatrixSum sum = __builtin_bit_cast(MatrixSum, c);
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a.v[i], b.v[i], sum, 0, 0, 0);
  c = __builtin_bit_cast(Accumulator, sum);
}

#if CAUSEWAY_AMD == 0x942
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
