// How lanes hold the operands of MFMA instructions and how they are loaded from shared memory, for AMD's GPUs (amd.h)
// and for the emulator of them (emulator_matrix.h).
#pragma once

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
CAUSEWAY_INLINE void load_rounded_line(tf32* v, const tf32* shared, int line_stride, int k_stride) {
  load_line(v, shared, line_stride, k_stride);
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) v[i].value = float_from_bits(round_to_tf32(bits_from_float(v[i].value)));
}
CAUSEWAY_INLINE void load_fragment(FragmentA<tf32>& a, const tf32* shared, int stride) {
  load_rounded_line(a.v, shared, stride, 1);
}
CAUSEWAY_INLINE void load_fragment(FragmentB<tf32>& b, const tf32* shared, int stride) {
  load_rounded_line(b.v, shared, stride, 1);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<T>& a, const T* shared, int stride) {
  load_line(a.v, shared, 1, stride);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<T>& b, const T* shared, int stride) {
  load_line(b.v, shared, 1, stride);
}
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<tf32>& a, const tf32* shared, int stride) {
  load_rounded_line(a.v, shared, 1, stride);
}
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<tf32>& b, const tf32* shared, int stride) {
  load_rounded_line(b.v, shared, 1, stride);
}
