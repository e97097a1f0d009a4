// The vocabulary of intrinsics.h for NVIDIA GPUs, in PTX (PTX ISA 8.0).
#pragma once

#define CAUSEWAY_KERNEL_ENTRY(threads, blocks_per_unit) \
  __attribute__((nvptx_kernel, annotate("causeway_launch_bounds " #threads " " #blocks_per_unit)))
#define CAUSEWAY_KERNEL_PARAMETER(...) const __VA_ARGS__
#define CAUSEWAY_KERNEL_ARGUMENTS(arguments) arguments

constexpr int kWaveWidth = 32;

CAUSEWAY_INLINE int thread_index() { return static_cast<int>(__nvvm_read_ptx_sreg_tid_x()); }
CAUSEWAY_INLINE int block_index() { return static_cast<int>(__nvvm_read_ptx_sreg_ctaid_x()); }
CAUSEWAY_INLINE void block_barrier() { __syncthreads(); }
CAUSEWAY_INLINE void wave_barrier() { __nvvm_bar_warp_sync(0xffffffffu); }

extern "C" __attribute__((address_space(3), aligned(1024))) char causeway_shared_memory[];
CAUSEWAY_INLINE char* shared_memory() { return (char*)causeway_shared_memory; }
// The address within shared memory, as PTX instructions take it.
CAUSEWAY_INLINE uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>((const __attribute__((address_space(3))) char*)pointer));
}

// Device memory at an address that is a multiple of 16.
template <class T>
CAUSEWAY_INLINE T* global_pointer(void* pointer) {
  return static_cast<T*>(__builtin_assume_aligned((T*)(__attribute__((address_space(1))) T*)pointer, 16));
}

template <class T>
CAUSEWAY_INLINE T wave_shuffle(T value, int lane) {
  static_assert(sizeof(T) == 4);
  return __builtin_bit_cast(T, __nvvm_shfl_sync_idx_i32(0xffffffffu, __builtin_bit_cast(int, value), lane, 31));
}
template <class T>
CAUSEWAY_INLINE T wave_shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) == 4);
  return __builtin_bit_cast(T, __nvvm_shfl_sync_bfly_i32(0xffffffffu, __builtin_bit_cast(int, value), mask, 31));
}
CAUSEWAY_INLINE bool wave_any(bool value) { return __nvvm_vote_any_sync(0xffffffffu, value); }
CAUSEWAY_INLINE bool wave_all(bool value) { return __nvvm_vote_all_sync(0xffffffffu, value); }
CAUSEWAY_INLINE uint64_t wave_ballot(bool value) {
  return static_cast<uint32_t>(__nvvm_vote_ballot_sync(0xffffffffu, value));
}

CAUSEWAY_INLINE void copy_async_16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"((const __attribute__((address_space(1))) char*)global), "r"(valid ? 16 : 0)
               : "memory");
}
CAUSEWAY_INLINE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups>
CAUSEWAY_INLINE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// Two floats as bf16, the first in the lower half.
CAUSEWAY_INLINE uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

CAUSEWAY_INLINE float fast_exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }
CAUSEWAY_INLINE float fast_log2(float x) { return __nvvm_lg2_approx_ftz_f(x); }

// Fragments of mma.sync.m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16"): group = lane / 4, pair = 2 (lane % 4).
// A: rows group, group + 8; columns pair, pair + 1, and 8 further. B and C: two halves of eight columns.
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
  uint32_t v[4];  // columns 0 to 7, then 8 to 15
};
// float has no matrix instruction of full precision: each lane keeps the rows of A and the columns of B that its elements
// of C need, and multiplies them on its own.
template <>
struct FragmentA<float> {
  float v[2][16];  // rows group, group + 8
};
template <>
struct FragmentB<float> {
  float v[4][16];  // columns pair, pair + 1, and 8 further
};

#define CAUSEWAY_LDMATRIX(modifier, fragment, address)                                                             \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" modifier ".shared.b16 {%0, %1, %2, %3}, [%4];"                       \
               : "=r"((fragment).v[0]), "=r"((fragment).v[1]), "=r"((fragment).v[2]), "=r"((fragment).v[3])         \
               : "r"(address)                                                                                      \
               : "memory")

template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentA<T>& a, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  CAUSEWAY_LDMATRIX("", a, shared_address(shared + (lane % 16) * stride + lane / 16 * 8));
}
template <class T>
CAUSEWAY_INLINE void load_fragment(FragmentB<T>& b, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  CAUSEWAY_LDMATRIX("", b, shared_address(shared + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8));
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentA<T>& a, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  CAUSEWAY_LDMATRIX(".trans", a, shared_address(shared + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8));
}
template <class T>
CAUSEWAY_INLINE void load_fragment_transposed(FragmentB<T>& b, const T* shared, int stride) {
  const int lane = thread_index() % 32;
  CAUSEWAY_LDMATRIX(".trans", b, shared_address(shared + (lane % 16) * stride + lane / 16 * 8));
}
#undef CAUSEWAY_LDMATRIX

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
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<float>& a, const FragmentB<float>& b) {
#pragma clang loop unroll(full)
  for (int i = 0; i < kAccumulatorElements; ++i) {
#pragma clang loop unroll(full)
    for (int k = 0; k < 16; ++k) {
      c.v[i] = __builtin_fmaf(a.v[(i & 2) / 2][k], b.v[(i & 1) + (i & 4) / 2][k], c.v[i]);
    }
  }
}

#define CAUSEWAY_MMA(type, c, first, a, b0, b1)                                                                       \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                                                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                 \
               : "+f"(c.v[first]), "+f"(c.v[first + 1]), "+f"(c.v[first + 2]), "+f"(c.v[first + 3])                   \
               : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b0), "r"(b1))

CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<bf16>& a, const FragmentB<bf16>& b) {
  CAUSEWAY_MMA("bf16", c, 0, a, b.v[0], b.v[1]);
  CAUSEWAY_MMA("bf16", c, 4, a, b.v[2], b.v[3]);
}
CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<f16>& a, const FragmentB<f16>& b) {
  CAUSEWAY_MMA("f16", c, 0, a, b.v[0], b.v[1]);
  CAUSEWAY_MMA("f16", c, 4, a, b.v[2], b.v[3]);
}
#undef CAUSEWAY_MMA
