// MMAs of one wave and asynchronous copies for the emulator, included by emulator.h. Fragments are laid out
// as in nvidia.h and amd.h, so that text which depended on a layout would behave as it does there.
#pragma once

// MatrixElement of each type; of fnuz 8-bit types on AMD.
template <class T>
constexpr int kMatrixElement = -1;
template <>
constexpr int kMatrixElement<bf16> = static_cast<int>(MatrixElement::kBF16);
template <>
constexpr int kMatrixElement<f16> = static_cast<int>(MatrixElement::kF16);
template <>
constexpr int kMatrixElement<float> = static_cast<int>(MatrixElement::kF32);
template <>
constexpr int kMatrixElement<tf32> = static_cast<int>(MatrixElement::kTF32);
#if defined(CAUSEWAY_NVIDIA)
template <>
constexpr int kMatrixElement<f8e4m3> = static_cast<int>(MatrixElement::kF8E4M3);
template <>
constexpr int kMatrixElement<f8e5m2> = static_cast<int>(MatrixElement::kF8E5M2);
#else
template <>
constexpr int kMatrixElement<f8e4m3> = static_cast<int>(MatrixElement::kF8E4M3Fnuz);
template <>
constexpr int kMatrixElement<f8e5m2> = static_cast<int>(MatrixElement::kF8E5M2Fnuz);
#endif
template <class T>
constexpr int kMatrixElementA = kMatrixElement<T>;
template <class T>
constexpr int kMatrixElementB = kMatrixElement<T>;
template <class EA, class EB>
constexpr int kMatrixElementA<F8Pair<EA, EB>> = kMatrixElement<EA>;
template <class EA, class EB>
constexpr int kMatrixElementB<F8Pair<EA, EB>> = kMatrixElement<EB>;

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

template <bool kTransposed>
CAUSEWAY_INLINE void load_matrices(const void* row, uint32_t* registers) {
  LaneMatrixLoad load = {row, registers};
  emulator_runtime()->load_matrices(&load, kTransposed);
}

#include "causeway/kernels/gpu/nvidia_fragments.h"

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

#include "causeway/kernels/gpu/amd_fragments.h"

template <class T>
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<T>& a, const FragmentB<T>& b) {
  LaneMatrixMultiply operands = {a.v, b.v, c.v};
  emulator_runtime()->multiply_matrices(&operands, kMatrixElementA<T>, kMatrixElementB<T>);
}

#endif
