// Matrix products of one wave and asynchronous copies for the emulator, included by emulator.h. Fragments are laid out
// as in nvidia.h and amd.h, so that text which depended on a layout would behave as it does there.
#pragma once

// The numbers by which the host knows multiplicands (device/emulator/matrix_unit.h).
template <class T>
constexpr int kMatrixElement = -1;
template <>
constexpr int kMatrixElement<bf16> = 0;
template <>
constexpr int kMatrixElement<f16> = 1;
template <>
constexpr int kMatrixElement<float> = 2;
#if defined(CAUSEWAY_NVIDIA)
template <>
constexpr int kMatrixElement<f8e4m3> = 3;
template <>
constexpr int kMatrixElement<f8e5m2> = 4;
#else
template <>
constexpr int kMatrixElement<f8e4m3> = 5;
template <>
constexpr int kMatrixElement<f8e5m2> = 6;
#endif
template <class T>
constexpr int kMatrixElementA = kMatrixElement<T>;
template <class T>
constexpr int kMatrixElementB = kMatrixElement<T>;
template <class EA, class EB>
constexpr int kMatrixElementA<F8Pair<EA, EB>> = kMatrixElement<EA>;
template <class EA, class EB>
constexpr int kMatrixElementB<F8Pair<EA, EB>> = kMatrixElement<EB>;

struct LaneMatrixLoad {
  const void* row;
  uint32_t* registers;
};
struct LaneMatrixMultiply {
  const void* a;
  const void* b;
  float* c;
};

// Until a copy is applied, by the wait at the latest, its destination holds poison; a random part is applied at once.
CAUSEWAY_INLINE void copy_async_16(void* shared, const void* global, bool valid) {
  emulator_runtime()->copy_async_16(shared, global, valid);
}
CAUSEWAY_INLINE void copy_async_commit() { emulator_runtime()->copy_async_commit(); }
template <int kGroups>
CAUSEWAY_INLINE void copy_async_wait() {
  emulator_runtime()->copy_async_wait(kGroups);
}

#if defined(CAUSEWAY_NVIDIA)

CAUSEWAY_INLINE uint32_t pack_bf16(float low, float high) {
  return static_cast<uint32_t>(to_bf16(low).bits) | static_cast<uint32_t>(to_bf16(high).bits) << 16;
}

constexpr int kAccumulatorElements = 8;
struct Accumulator {
  float v[kAccumulatorElements];
};
CAUSEWAY_INLINE int accumulator_row(int i) { return thread_index() % 32 / 4 + (i & 2) * 4; }
CAUSEWAY_INLINE int accumulator_column(int i) { return thread_index() % 4 * 2 + (i & 1) + (i & 4) * 2; }

template <class T>
struct FragmentA {
  uint32_t v[4];
};
template <class T>
struct FragmentB {
  uint32_t v[4];
};
template <>
struct FragmentA<float> {
  float v[2][16];
};
template <>
struct FragmentB<float> {
  float v[4][16];
};

CAUSEWAY_INLINE void load_matrices(const void* row, uint32_t* registers, bool transposed) {
  LaneMatrixLoad load = {row, registers};
  emulator_runtime()->load_matrices(&load, transposed);
}
template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentA<T>& a, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices(shared + (lane % 16) * stride + lane / 16 * 8, a.v, false);
}
template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentB<T>& b, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices(shared + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8, b.v, false);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<T>& a, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices(shared + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8, a.v, true);
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<T>& b, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  load_matrices(shared + (lane % 16) * stride + lane / 16 * 8, b.v, true);
}

CAUSEWAY_INLINE void load_lines(FragmentA<float>& a, const float* shared, int line_stride, int k_stride) {
  for (int half = 0; half < 2; ++half) {
    for (int k = 0; k < 16; ++k) a.v[half][k] = shared[accumulator_row(2 * half) * line_stride + k * k_stride];
  }
}
CAUSEWAY_INLINE void load_lines(FragmentB<float>& b, const float* shared, int line_stride, int k_stride) {
  for (int i = 0; i < 4; ++i) {
    const int column = accumulator_column((i & 1) + (i & 2) * 2);
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

CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<float>& a, const FragmentB<float>& b) {
  for (int i = 0; i < kAccumulatorElements; ++i) {
    float sum = c.v[i];
    for (int k = 0; k < 16; ++k) sum += a.v[(i & 2) / 2][k] * b.v[(i & 1) + (i & 4) / 2][k];
    c.v[i] = sum;
  }
}
template <class T>
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<T>& a, const FragmentB<T>& b) {
  LaneMatrixMultiply operands = {a.v, b.v, c.v};
  emulator_runtime()->multiply_matrices(&operands, kMatrixElementA<T>, kMatrixElementB<T>);
}

#else

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
template <class T>
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<T>& a, const FragmentB<T>& b) {
  LaneMatrixMultiply operands = {a.v, b.v, c.v};
  emulator_runtime()->multiply_matrices(&operands, kMatrixElementA<T>, kMatrixElementB<T>);
}

#endif
