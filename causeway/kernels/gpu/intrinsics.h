// The vocabulary of GPU kernel text. A kernel is one function per thread; threads form waves that run in lockstep,
// waves form blocks that share memory and can wait for each other. The same text is compiled for NVIDIA (nvidia.h), for
// AMD (amd.h) and for the emulator (emulator.h), each of which defines what is declared here. Wave width, matrix
// layouts and limits are constants of the architecture: text must not assume them.
//
// The compiler defines, for every GPU target, one of
//   CAUSEWAY_NVIDIA   80 or 90     (sm_80, sm_90a)
//   CAUSEWAY_AMD      0x90a or 0x942
// and CAUSEWAY_EMULATOR where that architecture is imitated.
//
// What each of the three headers defines:
//
//   kWaveWidth                                32 or 64
//   int thread_index(), block_index()         within the block; within the launch
//   int block_count()                         of the launch
//   void block_barrier()                      all threads of the block; orders shared and global memory within it
//   void wave_barrier()                       all threads of the wave; orders shared memory within it
//   char* shared_memory()                     the block's shared memory, 1024-byte aligned, contents undefined
//   T wave_shuffle(T value, int lane)         value of that lane (T: 4 bytes); all lanes of the wave take part
//   T wave_shuffle_xor(T value, int mask)     value of lane ^ mask
//   bool wave_any(bool), wave_all(bool)
//   uint64_t wave_ballot(bool)                bit i: lane i; upper bits are 0 on 32-wide waves
//   void copy_async_16(void* shared, const void* global, bool valid)
//                                             16 bytes, both addresses 16-byte aligned; zeros when not valid. The copy
//                                             may end as late as the wait that covers it.
//   void copy_async_commit()                  closes a group of this thread's copies
//   void copy_async_wait<N>()                 all but the newest N groups of this thread have ended; others see the
//   data
//                                             after a barrier
//   void prefetch_line(const void* address)   the line of device memory around it into the second-level cache
//   void let_next_launch_begin()              every kernel begins with it: the next launch may be set up meanwhile
//   void wait_for_launches()                  for what was launched before. Every kernel begins with it, but those of
//                                             CAUSEWAY_EARLY_KERNEL, whose threads all call it before they touch what
//                                             an earlier launch may write or still read
//   uint64_t multiprocessor_cycles()          counts the cycles of the multiprocessor's clock
//   uint64_t device_nanoseconds()             time, whatever the clocks are; may go in steps of up to a microsecond
//   float fast_exp2(float), fast_log2(float)  hardware's, about 2 ulp; 2^-inf = 0
//   float fast_reciprocal(float)              hardware's, to 1 ulp; of +-inf 0
//   T* global_pointer<T>(void*)               the same address, known to the compiler as device memory and as a
//   multiple
//                                             of 16
//
// MMAs of one wave: C[16][16] += A[16][16] B[16][16]. T is bf16, f16, float or, where the architecture
// multiplies it, tf32; sums are in float. With float operands, products are exact to float's precision.
//
//   FragmentA<T>, FragmentB<T>                this lane's part of A and of B
//   kAccumulatorElements                      256 / kWaveWidth
//   struct Accumulator { float v[kAccumulatorElements]; }
//   void load_fragment(FragmentA<T>&, const T* shared, int stride)       A[m][k] at shared[m * stride + k]
//   void load_fragment(FragmentB<T>&, const T* shared, int stride)       B[k][n] at shared[n * stride + k]
//   void load_fragment_transposed(FragmentA<T>&, const T* shared, int stride)   A[m][k] at shared[k * stride + m]
//   void load_fragment_transposed(FragmentB<T>&, const T* shared, int stride)   B[k][n] at shared[k * stride + n]
//                                             stride * sizeof(T) is a multiple of 16, shared is 16-byte aligned
//   void multiply_add(Accumulator&, const FragmentA<T>&, const FragmentB<T>&)   all lanes of the wave take part
//   int accumulator_row(int i), accumulator_column(int i)                which element of C v[i] is, for this lane
//
// Where the architecture has warpgroup matrices (CAUSEWAY_NVIDIA >= 90), hopper.h has those, TMA,
// mbarriers and clusters.
#pragma once

#include "causeway/kernels/elementwise.h"
#include "causeway/kernels/gpu/f8_pair.h"
#include "causeway/kernels/gpu/kernel_arguments.h"
#include "causeway/kernels/gpu/tf32.h"

// CAUSEWAY_KERNEL(name, threads, blocks_per_unit, buffers, sizes, maps) { body } defines the kernel `name`, launched
// with blocks of `threads` threads, of which a multiprocessor should hold `blocks_per_unit` at once (it bounds
// registers). The body sees `void* const* buffers`, `const int64_t* sizes`, `const TensorMapBytes* maps` and `int
// task`, the block's number. CAUSEWAY_EARLY_KERNEL: the body waits for earlier launches itself.
#define CAUSEWAY_KERNEL(name, threads, blocks_per_unit, buffer_count, size_count, map_count) \
  CAUSEWAY_KERNEL_WITH(wait_for_launches(), name, threads, blocks_per_unit, buffer_count, size_count, map_count)
#define CAUSEWAY_EARLY_KERNEL(name, threads, blocks_per_unit, buffer_count, size_count, map_count) \
  CAUSEWAY_KERNEL_WITH((void)0, name, threads, blocks_per_unit, buffer_count, size_count, map_count)
#define CAUSEWAY_KERNEL_WITH(begin, name, threads, blocks_per_unit, buffer_count, size_count, map_count)          \
  static CAUSEWAY_INLINE void name##_body(void* const* buffers, const int64_t* sizes, const TensorMapBytes* maps, \
                                          int task);                                                              \
  extern "C" CAUSEWAY_KERNEL_ENTRY(threads, blocks_per_unit) void name(                                           \
      CAUSEWAY_KERNEL_PARAMETER(KernelArguments<buffer_count, size_count, map_count>) arguments) {                \
    const auto& a = CAUSEWAY_KERNEL_ARGUMENTS(arguments);                                                         \
    let_next_launch_begin();                                                                                      \
    begin;                                                                                                        \
    name##_body(a.buffers, a.sizes, a.maps, block_index());                                                       \
  }                                                                                                               \
  static CAUSEWAY_INLINE void name##_body(void* const* buffers, const int64_t* sizes, const TensorMapBytes* maps, \
                                          int task)

// CAUSEWAY_ALIKE_KERNELS(name, threads, blocks_per_unit, buffers, kernels) { body } defines a kernel that does what
// `kernels` kernels of this body would do, each with `buffers` buffers of its own: those of one follow those of the one
// before. Blocks deal themselves out to them round-robin, so that all have as many.
#define CAUSEWAY_ALIKE_KERNELS(name, threads, blocks_per_unit, buffer_count, kernel_count)                        \
  static CAUSEWAY_INLINE void name##_body(void* const* buffers, const int64_t* sizes, const TensorMapBytes* maps, \
                                          int task);                                                              \
  extern "C" CAUSEWAY_KERNEL_ENTRY(threads, blocks_per_unit) void name(                                           \
      CAUSEWAY_KERNEL_PARAMETER(KernelArguments<(buffer_count) * (kernel_count), 0, 0>) arguments) {              \
    const auto& a = CAUSEWAY_KERNEL_ARGUMENTS(arguments);                                                         \
    let_next_launch_begin();                                                                                      \
    wait_for_launches();                                                                                          \
    const int kernel = block_index() % (kernel_count);                                                            \
    name##_body(a.buffers + kernel * (buffer_count), a.sizes, a.maps, block_index() / (kernel_count));            \
  }                                                                                                               \
  static CAUSEWAY_INLINE void name##_body(void* const* buffers, const int64_t* sizes, const TensorMapBytes* maps, \
                                          int task)

#if defined(CAUSEWAY_EMULATOR)
#include "causeway/kernels/gpu/emulator.h"
#elif defined(CAUSEWAY_NVIDIA)
#include "causeway/kernels/gpu/nvidia.h"
#else
#include "causeway/kernels/gpu/amd.h"
#endif

CAUSEWAY_INLINE int lane_index() { return thread_index() % kWaveWidth; }
CAUSEWAY_INLINE int wave_index() { return thread_index() / kWaveWidth; }

// Chiplets, each with a second-level cache of its own, to which a launch's blocks go round-robin ("AMD CDNA 3
// Architecture", white paper: 8 of an MI300X).
#if defined(CAUSEWAY_AMD) && CAUSEWAY_AMD == 0x942
constexpr int kChiplets = 8;
#else
constexpr int kChiplets = 1;
#endif
// A block's task, so that each chiplet has a run of neighbouring ones, which share what they read. What is left when
// all have as many follows in order.
CAUSEWAY_INLINE int task_of_chiplet(int block, int blocks) {
  const int each = blocks / kChiplets;
  return kChiplets == 1 || block >= each * kChiplets ? block : block % kChiplets * each + block / kChiplets;
}
