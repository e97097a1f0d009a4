// Hopper's own vocabulary, beside intrinsics.h: TMA, mbarriers, clusters and the MMAs of warpgroups
// (wgmma); PTX ISA 8.0, sm_90a. For kernel text where CAUSEWAY_NVIDIA >= 90; emulator_hopper.h defines the
// same for the emulator.
//
//   Mbarrier                       an mbarrier in shared memory, 8 bytes. Its phases count from 0; a phase
//                                         completes when the announced arrivals and bytes have come.
//   barrier_init(barrier, arrivals)       then barrier_init_fence() by the same thread, then a barrier of the block (of
//                                         the cluster, where its other blocks use it)
//   barrier_expect_bytes(barrier, bytes)  arrives and announces bytes
//   barrier_arrive(barrier)
//   barrier_arrive_in_block(barrier, rank)
//                                         at the same place in that block of the cluster. What this thread wrote is not
//                                         ordered for the other block: that would wait until all of it is in memory
//   barrier_wait(barrier, parity)         until the phase of that parity has completed; of a fresh barrier, 1 has
//   barrier_test(barrier, parity)         whether it has; false may only mean that it is not known yet
//   tensor_load(shared, map, barrier, c0, c1 [, c2 [, c3 [, c4]]])
//                                         by one thread: the box whose first element has these coordinates, dimension 0
//                                         first; its bytes count on the barrier
//   tensor_load_multicast(..., block_mask)
//                                         2 or 3 coordinates; to the same place in every block of the mask
//   tensor_store(map, shared, c0, c1 [, c2]), tensor_store_commit(), tensor_store_wait<N>()
//                                         the wait: until all but the newest N groups of this thread have read shared
//                                         memory
//   bulk_store(global, shared, bytes), bulk_add(global, shared, bytes)
//                                         by one thread: to memory, or floats added to those there; in groups as above.
//                                         bulk_wait<N>(): until all but the newest N groups are in memory
//   wait_for_turn(turn, value), pass_turn(turn, value)
//                                         by one thread: until a number in memory is `value`, and gives it one. What
//                                         the thread that gave it had in memory then is seen, by TMA too.
//                                         Who is waited for must have begun: tasks are taken in order
//   store_matrices_transposed(row, registers)
//                                         by a wave: four 8 x 8 matrices of two bytes, to shared memory. A lane has
//                                         registers[4], of matrix j elements lane % 4 * 2 and the next of row lane / 4;
//                                         column r of matrix j goes to where lane 8 j + r says, 16 bytes
//   fence_async_shared()                  makes this thread's writes to shared memory visible to TMA and wgmma
//   matrix_descriptor(shared, leading_bytes, stride_bytes, swizzle_bytes)    operand in shared memory. Lines along k,
//                                         128-byte swizzle: stride_bytes from 8 lines to the next 8. Lines side by side
//                                         (transposed): stride_bytes from 8 of k to the next 8, leading_bytes from 64
//                                         lines to the next 64
//   matrix_descriptor_at(descriptor, bytes)    the operand so many bytes after it, a multiple of 16
//   warpgroup_fence(), warpgroup_commit(), warpgroup_wait<N>()    around MMAs: a fence before the first, then a
//                                         commit, then a wait before anything touches c
//   warpgroup_multiply_add<T, kN, kATransposed, kBTransposed>(c, a, b, accumulate)
//   warpgroup_multiply_add<T, kN, kBTransposed>(c, a_registers, b, accumulate)
//                                         c (+)= A B, 64 x kN, 32 bytes of k
//                                         T: bf16, f16; tf32 (lines along k, A in registers or not), whose lower 13
//                                         bits are dropped; F8Pair (lines along k, A not in registers). kN: a multiple
//                                         of 16, or 8
//   warpgroup_row(i), warpgroup_column(i) which element of the result c[i] is, for this thread
//   registers_increase<N>(), registers_decrease<N>()    by all threads of a warpgroup; N a multiple of 8
//   named_barrier(id, threads), named_barrier_arrive(id, threads)     id 1..15; threads a multiple of 32
//   cluster_rank(), cluster_barrier()     this block's number in its cluster; all threads of its blocks
//   cluster_begin()                       all threads of its blocks: they have begun, and barriers initialised before
//                                         barrier_init_fence() can be used; orders nothing else, and does not wait for
//                                         memory as a barrier does
//   store_in_block(same_offset, rank, value)
//                                         a float, at the same place in that block of the cluster, which has to have
//                                         begun; seen there after a barrier of the cluster
//   elects_lane()                         by a wave, all of it: true for one of its lanes, always the same. Unlike an
//                                         index that is 0, the assembler knows that to be a single lane, and writes no
//                                         loop over lanes around what is asked of TMA
//   prefetch_global(address, bytes)       into the second-level cache; both multiples of 16
//   take_task(counter, tasks, refusals [, in_order])
//                                         by one thread: the next number of a counter in device memory that all blocks
//                                         of the launch take from; `tasks` or more when none is left. It was 0 when the
//                                         launch began, and is 0 again when every block has been told `refusals` times
//                                         that none is left. No block asks more often. in_order: tasks wait for earlier
//                                         ones, which the emulator then gives to earlier blocks
#pragma once

#if defined(CAUSEWAY_EMULATOR)
#include "causeway/kernels/gpu/emulator_hopper.h"
#else

#include "causeway/kernels/gpu/intrinsics.h"

typedef uint64_t Mbarrier;

CAUSEWAY_INLINE void barrier_init(Mbarrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
CAUSEWAY_INLINE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}
CAUSEWAY_INLINE void barrier_expect_bytes(Mbarrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
CAUSEWAY_INLINE void barrier_arrive(Mbarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
CAUSEWAY_INLINE void barrier_arrive_in_block(Mbarrier* same_offset, int cluster_rank) {
  asm volatile(
      "{\n\t.reg .b32 remote;\n\tmapa.shared::cluster.u32 remote, %0, %1;\n\t"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n\t}" ::"r"(shared_address(same_offset)),
      "r"(cluster_rank)
      : "memory");
}
CAUSEWAY_INLINE void barrier_wait(Mbarrier* barrier, int parity) {
  asm volatile(
      "{\n\t.reg .pred done;\n\tWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
      "@!done bra WAIT;\n\t}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
CAUSEWAY_INLINE bool barrier_test(Mbarrier* barrier, int parity) {
  uint32_t done;
  asm volatile(
      "{\n\t.reg .pred done;\n\tmbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n\t"
      "selp.u32 %0, 1, 0, done;\n\t}"
      : "=r"(done)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return done != 0;
}

CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1)
      : "memory");
}
CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1, int c2) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1, int c2,
                                 int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1, int c2,
                                 int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}
CAUSEWAY_INLINE void tensor_load_multicast(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1,
                                           uint16_t block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%4, %5}], [%2], %3;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "h"(block_mask), "r"(c0), "r"(c1)
      : "memory");
}
CAUSEWAY_INLINE void tensor_load_multicast(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1,
                                           int c2, uint16_t block_mask) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(shared_address(shared)),
      "l"(map), "r"(shared_address(barrier)), "h"(block_mask), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}
CAUSEWAY_INLINE void tensor_store(const TensorMapBytes* map, const void* shared, int c0, int c1) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%1, {%2, %3}], [%0];" ::"r"(shared_address(shared)),
      "l"(map), "r"(c0), "r"(c1)
      : "memory");
}
CAUSEWAY_INLINE void tensor_store(const TensorMapBytes* map, const void* shared, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%1, {%2, %3, %4}], [%0];" ::"r"(
                   shared_address(shared)),
               "l"(map), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
CAUSEWAY_INLINE void tensor_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N>
CAUSEWAY_INLINE void tensor_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
CAUSEWAY_INLINE void bulk_store(float* to, const void* shared, int bytes) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"((__attribute__((address_space(1))) float*)to),
      "r"(shared_address(shared)), "r"(bytes)
      : "memory");
}
CAUSEWAY_INLINE void bulk_add(float* to, const void* shared, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
                   (__attribute__((address_space(1))) float*)to),
               "r"(shared_address(shared)), "r"(bytes)
               : "memory");
}
template <int N>
CAUSEWAY_INLINE void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
CAUSEWAY_INLINE void wait_for_turn(const uint32_t* turn, uint32_t value) {
  uint32_t now;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(now)
                 : "l"((__attribute__((address_space(1))) const uint32_t*)turn)
                 : "memory");
  } while (now != value);
  asm volatile("fence.proxy.async;" ::: "memory");
}
CAUSEWAY_INLINE void pass_turn(uint32_t* turn, uint32_t value) {
  asm volatile("fence.proxy.async;\n\tst.release.gpu.global.u32 [%0], %1;" ::"l"(
                   (__attribute__((address_space(1))) uint32_t*)turn),
               "r"(value)
               : "memory");
}
CAUSEWAY_INLINE void prefetch_tensor_map(const TensorMapBytes* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
CAUSEWAY_INLINE void store_matrices_transposed(void* row, const uint32_t* registers) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
               "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
               : "memory");
}
CAUSEWAY_INLINE void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// PTX ISA, "Matrix Descriptor Format".
CAUSEWAY_INLINE uint64_t matrix_descriptor(const void* shared, int leading_bytes, int stride_bytes, int swizzle_bytes) {
  const uint64_t mode = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 3 : 0;
  return static_cast<uint64_t>((shared_address(shared) & 0x3ffff) >> 4) |
         static_cast<uint64_t>(leading_bytes >> 4 & 0x3fff) << 16 |
         static_cast<uint64_t>(stride_bytes >> 4 & 0x3fff) << 32 | mode << 62;
}

// Addresses, in units of 16 bytes, do not leave their 14 bits: the upper word stays as it is.
CAUSEWAY_INLINE uint64_t matrix_descriptor_at(uint64_t descriptor, int bytes) {
  return (descriptor >> 32 << 32) | (static_cast<uint32_t>(descriptor) + static_cast<uint32_t>(bytes >> 4));
}

CAUSEWAY_INLINE void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
CAUSEWAY_INLINE void warpgroup_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
CAUSEWAY_INLINE void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Four asm operands of c, and their names in asm text.
#define CAUSEWAY_C4(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define CAUSEWAY_C8(i) CAUSEWAY_C4(i), CAUSEWAY_C4(i + 4)
#define CAUSEWAY_TEXT_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define CAUSEWAY_SUMS_16 CAUSEWAY_C8(0)
#define CAUSEWAY_TEXT_32 CAUSEWAY_TEXT_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define CAUSEWAY_SUMS_32 CAUSEWAY_SUMS_16, CAUSEWAY_C8(8)
#define CAUSEWAY_TEXT_48 CAUSEWAY_TEXT_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define CAUSEWAY_SUMS_48 CAUSEWAY_SUMS_32, CAUSEWAY_C8(16)
#define CAUSEWAY_TEXT_64 CAUSEWAY_TEXT_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define CAUSEWAY_SUMS_64 CAUSEWAY_SUMS_48, CAUSEWAY_C8(24)
#define CAUSEWAY_TEXT_80 CAUSEWAY_TEXT_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define CAUSEWAY_SUMS_80 CAUSEWAY_SUMS_64, CAUSEWAY_C8(32)
#define CAUSEWAY_TEXT_96 CAUSEWAY_TEXT_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define CAUSEWAY_SUMS_96 CAUSEWAY_SUMS_80, CAUSEWAY_C8(40)
#define CAUSEWAY_TEXT_112 CAUSEWAY_TEXT_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define CAUSEWAY_SUMS_112 CAUSEWAY_SUMS_96, CAUSEWAY_C8(48)
#define CAUSEWAY_TEXT_128 CAUSEWAY_TEXT_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define CAUSEWAY_SUMS_128 CAUSEWAY_SUMS_112, CAUSEWAY_C8(56)
#define CAUSEWAY_TEXT_144 CAUSEWAY_TEXT_128 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define CAUSEWAY_SUMS_144 CAUSEWAY_SUMS_128, CAUSEWAY_C8(64)
#define CAUSEWAY_TEXT_160 CAUSEWAY_TEXT_144 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define CAUSEWAY_SUMS_160 CAUSEWAY_SUMS_144, CAUSEWAY_C8(72)
#define CAUSEWAY_TEXT_176 CAUSEWAY_TEXT_160 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define CAUSEWAY_SUMS_176 CAUSEWAY_SUMS_160, CAUSEWAY_C8(80)
#define CAUSEWAY_TEXT_192 CAUSEWAY_TEXT_176 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define CAUSEWAY_SUMS_192 CAUSEWAY_SUMS_176, CAUSEWAY_C8(88)
#define CAUSEWAY_TEXT_208 CAUSEWAY_TEXT_192 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define CAUSEWAY_SUMS_208 CAUSEWAY_SUMS_192, CAUSEWAY_C8(96)
#define CAUSEWAY_TEXT_224 CAUSEWAY_TEXT_208 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define CAUSEWAY_SUMS_224 CAUSEWAY_SUMS_208, CAUSEWAY_C8(104)
#define CAUSEWAY_TEXT_240 CAUSEWAY_TEXT_224 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define CAUSEWAY_SUMS_240 CAUSEWAY_SUMS_224, CAUSEWAY_C8(112)
#define CAUSEWAY_TEXT_256 CAUSEWAY_TEXT_240 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define CAUSEWAY_SUMS_256 CAUSEWAY_SUMS_240, CAUSEWAY_C8(120)
#define CAUSEWAY_TEXT_8 "%0, %1, %2, %3"
#define CAUSEWAY_SUMS_8 CAUSEWAY_C4(0)

#define CAUSEWAY_WGMMA(N, shape_k, type, a_text, transposes_text, ...)                        \
  asm volatile(                                                                               \
      "{\n\t.reg .pred add;\n\tsetp.ne.b32 add, %[accumulate], 0;\n\t"                        \
      "wgmma.mma_async.sync.aligned.m64n" #N "k" #shape_k ".f32." type " {" CAUSEWAY_TEXT_##N \
      "}, " a_text ", %[b], add, 1, 1" transposes_text ";\n\t}"                               \
      : CAUSEWAY_SUMS_##N                                                                     \
      : [accumulate] "r"(static_cast<int>(accumulate)), [b] "l"(b), __VA_ARGS__               \
      : "memory")
#define CAUSEWAY_WGMMA_SHARED(N, shape_k, type, transposes_text, ...) \
  CAUSEWAY_WGMMA(N, shape_k, type, "%[a]", transposes_text, [a] "l"(a)__VA_ARGS__)
#define CAUSEWAY_WGMMA_REGISTERS(N, shape_k, type, transposes_text, ...) \
  CAUSEWAY_WGMMA(N, shape_k, type, "{%[a0], %[a1], %[a2], %[a3]}",       \
                 transposes_text, [a0] "r"(a[0]), [a1] "r"(a[1]), [a2] "r"(a[2]), [a3] "r"(a[3])__VA_ARGS__)
// Only 16-bit operands may be transposed.
#define CAUSEWAY_TRANSPOSES , [ta] "n"(kATransposed ? 1 : 0), [tb] "n"(kBTransposed ? 1 : 0)
#define CAUSEWAY_TRANSPOSE_B , [tb] "n"(kBTransposed ? 1 : 0)

template <int kN>
struct WarpgroupMultiply;
#define CAUSEWAY_WARPGROUP_MULTIPLY(N)                                                                        \
  template <>                                                                                                 \
  struct WarpgroupMultiply<N> {                                                                               \
    template <class T, bool kATransposed, bool kBTransposed>                                                  \
    CAUSEWAY_INLINE static void add(float (&c)[N / 2], uint64_t a, uint64_t b, bool accumulate) {             \
      if constexpr (__is_same(T, bf16)) {                                                                     \
        CAUSEWAY_WGMMA_SHARED(N, 16, "bf16.bf16", ", %[ta], %[tb]", CAUSEWAY_TRANSPOSES);                     \
      } else if constexpr (__is_same(T, f16)) {                                                               \
        CAUSEWAY_WGMMA_SHARED(N, 16, "f16.f16", ", %[ta], %[tb]", CAUSEWAY_TRANSPOSES);                       \
      } else if constexpr (__is_same(T, tf32)) {                                                              \
        CAUSEWAY_WGMMA_SHARED(N, 8, "tf32.tf32", "");                                                         \
      } else if constexpr (__is_same(T, F8Pair<f8e4m3, f8e4m3>)) {                                            \
        CAUSEWAY_WGMMA_SHARED(N, 32, "e4m3.e4m3", "");                                                        \
      } else if constexpr (__is_same(T, F8Pair<f8e4m3, f8e5m2>)) {                                            \
        CAUSEWAY_WGMMA_SHARED(N, 32, "e4m3.e5m2", "");                                                        \
      } else if constexpr (__is_same(T, F8Pair<f8e5m2, f8e4m3>)) {                                            \
        CAUSEWAY_WGMMA_SHARED(N, 32, "e5m2.e4m3", "");                                                        \
      } else {                                                                                                \
        CAUSEWAY_WGMMA_SHARED(N, 32, "e5m2.e5m2", "");                                                        \
      }                                                                                                       \
    }                                                                                                         \
    template <class T, bool kBTransposed>                                                                     \
    CAUSEWAY_INLINE static void add(float (&c)[N / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) { \
      if constexpr (__is_same(T, bf16)) {                                                                     \
        CAUSEWAY_WGMMA_REGISTERS(N, 16, "bf16.bf16", ", %[tb]", CAUSEWAY_TRANSPOSE_B);                        \
      } else if constexpr (__is_same(T, tf32)) {                                                              \
        CAUSEWAY_WGMMA_REGISTERS(N, 8, "tf32.tf32", "");                                                      \
      } else {                                                                                                \
        CAUSEWAY_WGMMA_REGISTERS(N, 16, "f16.f16", ", %[tb]", CAUSEWAY_TRANSPOSE_B);                          \
      }                                                                                                       \
    }                                                                                                         \
  };
CAUSEWAY_WARPGROUP_MULTIPLY(8)
CAUSEWAY_WARPGROUP_MULTIPLY(16)
CAUSEWAY_WARPGROUP_MULTIPLY(32)
CAUSEWAY_WARPGROUP_MULTIPLY(48)
CAUSEWAY_WARPGROUP_MULTIPLY(64)
CAUSEWAY_WARPGROUP_MULTIPLY(80)
CAUSEWAY_WARPGROUP_MULTIPLY(96)
CAUSEWAY_WARPGROUP_MULTIPLY(112)
CAUSEWAY_WARPGROUP_MULTIPLY(128)
CAUSEWAY_WARPGROUP_MULTIPLY(144)
CAUSEWAY_WARPGROUP_MULTIPLY(160)
CAUSEWAY_WARPGROUP_MULTIPLY(176)
CAUSEWAY_WARPGROUP_MULTIPLY(192)
CAUSEWAY_WARPGROUP_MULTIPLY(208)
CAUSEWAY_WARPGROUP_MULTIPLY(224)
CAUSEWAY_WARPGROUP_MULTIPLY(240)
CAUSEWAY_WARPGROUP_MULTIPLY(256)
#undef CAUSEWAY_WARPGROUP_MULTIPLY
#undef CAUSEWAY_TRANSPOSE_B
#undef CAUSEWAY_TRANSPOSES
#undef CAUSEWAY_WGMMA_REGISTERS
#undef CAUSEWAY_WGMMA_SHARED
#undef CAUSEWAY_WGMMA

template <class T, int kN, bool kATransposed, bool kBTransposed>
CAUSEWAY_INLINE void warpgroup_multiply_add(float (&c)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
  static_assert(__is_same(T, bf16) || __is_same(T, f16) || __is_same(T, tf32) || kIsF8Pair<T>);
  static_assert(__is_same(T, bf16) || __is_same(T, f16) || (!kATransposed && !kBTransposed),
                "operands that are not of 16 bits have to be K-major");
  WarpgroupMultiply<kN>::template add<T, kATransposed, kBTransposed>(c, a, b, accumulate);
}
template <class T, int kN, bool kBTransposed>
CAUSEWAY_INLINE void warpgroup_multiply_add(float (&c)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  static_assert(__is_same(T, bf16) || __is_same(T, f16) || (__is_same(T, tf32) && !kBTransposed));
  WarpgroupMultiply<kN>::template add<T, kBTransposed>(c, a, b, accumulate);
}

CAUSEWAY_INLINE int warpgroup_row(int i) {
  return thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4 + (i & 2) * 4;
}
CAUSEWAY_INLINE int warpgroup_column(int i) { return i / 4 * 8 + thread_index() % 4 * 2 + (i & 1); }

template <int N>
CAUSEWAY_INLINE void registers_increase() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256);
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
CAUSEWAY_INLINE void registers_decrease() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256);
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
CAUSEWAY_INLINE void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
CAUSEWAY_INLINE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

CAUSEWAY_INLINE int cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
CAUSEWAY_INLINE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
CAUSEWAY_INLINE void cluster_begin() {
  asm volatile("barrier.cluster.arrive.relaxed;\n\tbarrier.cluster.wait;" ::: "memory");
}
CAUSEWAY_INLINE void store_in_block(float* same_offset, int cluster_rank, float value) {
  asm volatile(
      "{\n\t.reg .b32 remote;\n\tmapa.shared::cluster.u32 remote, %0, %1;\n\t"
      "st.shared::cluster.f32 [remote], %2;\n\t}" ::"r"(shared_address(same_offset)),
      "r"(cluster_rank), "f"(value)
      : "memory");
}
CAUSEWAY_INLINE bool elects_lane() {
  uint32_t elected;
  asm volatile("{\n\t.reg .pred chosen;\n\telect.sync _|chosen, 0xffffffff;\n\tselp.u32 %0, 1, 0, chosen;\n\t}"
               : "=r"(elected));
  return elected != 0;
}
CAUSEWAY_INLINE void prefetch_global(const void* address, int bytes) {
  asm volatile(
      "cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"((__attribute__((address_space(1))) const void*)address),
      "r"(bytes)
      : "memory");
}
CAUSEWAY_INLINE int take_task(uint32_t* counter, int tasks, int refusals, bool = false) {
  uint32_t task;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(task)
               : "l"((__attribute__((address_space(1))) uint32_t*)counter), "r"(tasks + refusals * block_count() - 1));
  return static_cast<int>(task);
}

#endif

// A value that the compiler does not keep, with all that follows from it, in registers over a whole loop.
template <class T>
CAUSEWAY_INLINE T computed_here(T value) {
#if !defined(CAUSEWAY_EMULATOR)
  if constexpr (__is_same(T, float)) {
    asm volatile("" : "+f"(value));
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
#endif
  return value;
}

// A position, of which the compiler learns when `value` is known: what is loaded for it is loaded no earlier.
CAUSEWAY_INLINE int32_t known_after(int32_t position, [[maybe_unused]] float value) {
#if !defined(CAUSEWAY_EMULATOR)
  asm("" : "+r"(position) : "f"(value));
#endif
  return position;
}

// Values that MMAs are about to replace: until then they need no registers.
template <int N>
CAUSEWAY_INLINE void forget([[maybe_unused]] float (&values)[N]) {
#if !defined(CAUSEWAY_EMULATOR)
#pragma clang loop unroll(full)
  for (int i = 0; i < N; ++i) asm volatile("" : "=f"(values[i]));
#endif
}

// The stages in shared memory between those who fill them and those who read them: which one is next, and the parity of
// the phase that makes it full.
template <int kStages>
struct StageRing {
  int stage = 0;
  int parity = 0;

  CAUSEWAY_INLINE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  // Past `count` stages that others read.
  CAUSEWAY_INLINE void skip(int count) {
    const int next = stage + count;
    parity ^= next / kStages & 1;
    stage = next % kStages;
  }
};
