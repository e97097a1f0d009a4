// How lanes hold the operands of mma.sync and how they are loaded from shared memory, for NVIDIA's GPUs (nvidia.h) and
// for the emulator of them (emulator_matrix.h), which define load_matrices() and pack_bf16() before.
#pragma once

// Fragments of mma.sync.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"): group = lane / 4, pair = 2 (lane % 4).
// A: rows group, group + 8; columns pair, pair + 1, and 8 further. B and C: two halves of eight columns.
constexpr int kAccumulatorElements = 8;
struct Accumulator {
  float v[kAccumulatorElements];
};
CAUSEWAY_INLINE int accumulator_row(int i) { return thread_index() % 32 / 4 + (i & 2) * 4; }
CAUSEWAY_INLINE int accumulator_column(int i) { return thread_index() % 4 * 2 + (i & 1) + (i & 4) * 2; }

// Two floats as 16-bit operands, the first in the lower half.
template <class T>
CAUSEWAY_INLINE uint32_t pack_pair(float low, float high) {
  static_assert(__is_same(T, bf16) || __is_same(T, f16));
  if constexpr (__is_same(T, bf16)) {
    return pack_bf16(low, high);
  } else {
    return static_cast<uint32_t>(__builtin_bit_cast(uint16_t, to_f16(low))) |
           static_cast<uint32_t>(__builtin_bit_cast(uint16_t, to_f16(high))) << 16;
  }
}

template <class T>
struct FragmentA {
  uint32_t v[4];
};
template <class T>
struct FragmentB {
  uint32_t v[4];  // columns 0 to 7, then 8 to 15
};
// Two of mma.sync.m16n8k8: rows or columns as above; k = lane % 4, 4 further, and 8 further of both.
template <>
struct FragmentA<tf32> {
  uint32_t v[8];  // k 0 to 7: rows group, group + 8, the same 4 further in k; then k 8 to 15
};
template <>
struct FragmentB<tf32> {
  uint32_t v[8];  // columns 0 to 7 of four k, then 8 to 15
};
// float has no matrix instruction of full precision: each lane keeps the rows of A and the columns of B that its
// elements of C need, and multiplies them on its own.
template <>
struct FragmentA<float> {
  float v[2][16];  // rows group, group + 8
};
template <>
struct FragmentB<float> {
  float v[4][16];  // columns pair, pair + 1, and 8 further
};

template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentA<T>& a, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices<false>(shared + (lane % 16) * stride + lane / 16 * 8, a.v);
}
template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentB<T>& b, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices<false>(shared + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8, b.v);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<T>& a, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices<true>(shared + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8, a.v);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<T>& b, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices<true>(shared + (lane % 16) * stride + lane / 16 * 8, b.v);
}

// The 16 bytes of a matrix's row are four floats, of which a lane receives one.
CAUSEWAY_INLINE void load_fragment(FragmentA<tf32>& a, const tf32* shared, int stride) {
  const int lane = thread_index() % 32;
  const tf32* from = shared + (lane % 16) * stride + lane / 16 * 4;
  load_matrices<false>(from, a.v);
  load_matrices<false>(from + 8, a.v + 4);
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) a.v[i] = round_to_tf32(a.v[i]);
}
CAUSEWAY_INLINE void load_fragment(FragmentB<tf32>& b, const tf32* shared, int stride) {
  const int lane = thread_index() % 32;
  const tf32* from = shared + lane % 8 * stride + lane / 8 * 4;
  load_matrices<false>(from, b.v);
  load_matrices<false>(from + 8 * stride, b.v + 4);
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) b.v[i] = round_to_tf32(b.v[i]);
}
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<tf32>& a, const tf32* shared, int stride) {
  const int lane = thread_index() % 32;
  const tf32* from = shared + lane % 4 * stride + lane / 4;
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) a.v[i] = round_to_tf32(bits_from_float(from[i / 2 * 4 * stride + i % 2 * 8].value));
}
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<tf32>& b, const tf32* shared, int stride) {
  const int lane = thread_index() % 32;
  const tf32* from = shared + lane % 4 * stride + lane / 4;
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) b.v[i] = round_to_tf32(bits_from_float(from[i % 4 * 4 * stride + i / 4 * 8].value));
}

// Element k of row (or column) `line` lies at shared[line * line_stride + k * k_stride].
CAUSEWAY_INLINE void load_lines(FragmentA<float>& a, const float* shared, int line_stride, int k_stride) {
#pragma clang loop unroll(full)
  for (int half = 0; half < 2; ++half) {
#pragma clang loop unroll(full)
    for (int k = 0; k < 16; ++k) a.v[half][k] = shared[accumulator_row(2 * half) * line_stride + k * k_stride];
  }
}
CAUSEWAY_INLINE void load_lines(FragmentB<float>& b, const float* shared, int line_stride, int k_stride) {
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) {
    const int column = accumulator_column((i & 1) + (i & 2) * 2);
#pragma clang loop unroll(full)
    for (int k = 0; k < 16; ++k) b.v[i][k] = shared[column * line_stride + k * k_stride];
  }
}
CAUSEWAY_INLINE void load_fragment(FragmentA<float>& fragment, const float* shared, int stride) {
  load_lines(fragment, shared, stride, 1);
}
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<float>& fragment, const float* shared, int stride) {
  load_lines(fragment, shared, 1, stride);
}
CAUSEWAY_INLINE void load_fragment(FragmentB<float>& fragment, const float* shared, int stride) {
  load_lines(fragment, shared, stride, 1);
}
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<float>& fragment, const float* shared, int stride) {
  load_lines(fragment, shared, 1, stride);
}
