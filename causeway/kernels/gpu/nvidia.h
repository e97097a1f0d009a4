// The vocabulary of intrinsics.h for NVIDIA GPUs, in PTX (PTX ISA 8.0).
#pragma once

#define CAUSEWAY_KERNEL_ENTRY(threads, blocks_per_unit) \
  __attribute__((nvptx_kernel, annotate("causeway_launch_bounds " #threads " " #blocks_per_unit)))
#define CAUSEWAY_KERNEL_PARAMETER(...) const __VA_ARGS__
#define CAUSEWAY_KERNEL_ARGUMENTS(arguments) arguments

constexpr int kWaveWidth = 32;

CAUSEWAY_INLINE int thread_index() { return static_cast<int>(__nvvm_read_ptx_sreg_tid_x()); }
CAUSEWAY_INLINE int block_index() { return static_cast<int>(__nvvm_read_ptx_sreg_ctaid_x()); }
// Read wherever it is asked for: the loops of persistent blocks, short of registers, are not to keep it in one.
CAUSEWAY_INLINE int block_count() {
  int count;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(count));
  return count;
}
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
CAUSEWAY_INLINE uint64_t wave_ballot(bool value) {
  return static_cast<uint32_t>(__nvvm_vote_ballot_sync(0xffffffffu, value));
}
// Not by vote.sync.any.pred and .all.pred: ptxas 13.0 moves those below a branch that not all lanes take when only what
// follows it reads them, and lanes that are not there do not vote.
CAUSEWAY_INLINE bool wave_any(bool value) { return wave_ballot(value) != 0; }
CAUSEWAY_INLINE bool wave_all(bool value) { return wave_ballot(value) == 0xffffffffu; }

CAUSEWAY_INLINE void copy_async_16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
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

CAUSEWAY_INLINE void prefetch_line(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"((__attribute__((address_space(1))) const void*)address));
}

// The next launch may be set up once all blocks of this one have said so. Its own wait ends when this one has ended,
// which is after this one's wait, so that all launches before it have ended then. Nothing where the next launch did not
// ask for it.
CAUSEWAY_INLINE void let_next_launch_begin() {
#if CAUSEWAY_NVIDIA >= 90
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
CAUSEWAY_INLINE void wait_for_launches() {
#if CAUSEWAY_NVIDIA >= 90
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

CAUSEWAY_INLINE uint64_t multiprocessor_cycles() {
  uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}
CAUSEWAY_INLINE uint64_t device_nanoseconds() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}

CAUSEWAY_INLINE float fast_exp2(float x) { return __nvvm_ex2_approx_ftz_f(x); }
CAUSEWAY_INLINE float fast_log2(float x) { return __nvvm_lg2_approx_ftz_f(x); }
// Without the call of a full division, over which nothing is known to be the same for all lanes.
CAUSEWAY_INLINE float fast_reciprocal(float x) { return __nvvm_rcp_approx_ftz_f(x); }

// ldmatrix.x4: lane 8 j + r brings row r of matrix j, 16 bytes; registers[j] receives 4 bytes of row lane / 4 of it,
// or, transposed, elements of two bytes of column lane / 4.
template <bool kTransposed>
CAUSEWAY_INLINE void load_matrices(const void* row, uint32_t* registers) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
}

#include "causeway/kernels/gpu/nvidia_fragments.h"

CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<float>& a, const FragmentB<float>& b) {
#pragma clang loop unroll(full)
  for (int i = 0; i < kAccumulatorElements; ++i) {
#pragma clang loop unroll(full)
    for (int k = 0; k < 16; ++k) {
      c.v[i] = __builtin_fmaf(a.v[(i & 2) / 2][k], b.v[(i & 1) + (i & 4) / 2][k], c.v[i]);
    }
  }
}

#define CAUSEWAY_MMA(type, c, first, a, b0, b1)                                                     \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                               \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"               \
               : "+f"(c.v[first]), "+f"(c.v[first + 1]), "+f"(c.v[first + 2]), "+f"(c.v[first + 3]) \
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

CAUSEWAY_INLINE void multiply_add(Accumulator& c, const FragmentA<tf32>& a, const FragmentB<tf32>& b) {
#pragma clang loop unroll(full)
  for (int part = 0; part < 4; ++part) {
    const uint32_t* left = a.v + part / 2 * 4;
    const uint32_t* right = b.v + part % 2 * 4 + part / 2 * 2;
    float* sums = c.v + part % 2 * 4;
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
  }
}
