// The vocabulary of hopper.h for the emulator. What each call may do, and when, is imitated by the host
// (device/emulator/mbarrier.h, async_copy.h, warpgroup_unit.h).
#pragma once

#include "causeway/kernels/gpu/intrinsics.h"

typedef uint64_t Mbarrier;

CAUSEWAY_INLINE void barrier_init(Mbarrier* barrier, int arrivals) {
  emulator_runtime()->barrier_init(barrier, arrivals);
}
CAUSEWAY_INLINE void barrier_init_fence() { emulator_runtime()->barrier_init_fence(); }
CAUSEWAY_INLINE void barrier_expect_bytes(Mbarrier* barrier, int bytes) {
  emulator_runtime()->barrier_expect_bytes(barrier, bytes);
}
CAUSEWAY_INLINE int cluster_rank() { return emulator_runtime()->cluster_rank(); }
CAUSEWAY_INLINE void cluster_barrier() { emulator_runtime()->cluster_barrier(); }
CAUSEWAY_INLINE void cluster_begin() { cluster_barrier(); }
CAUSEWAY_INLINE void store_in_block(float* same_offset, int cluster_rank, float value) {
  emulator_runtime()->store_in_block(same_offset, cluster_rank, value);
}
// Not the first lane: whoever takes them for the same is found out.
CAUSEWAY_INLINE bool elects_lane() { return lane_index() == wave_shuffle(lane_index(), 31); }
CAUSEWAY_INLINE void prefetch_global(const void*, int) {}
CAUSEWAY_INLINE int take_task(uint32_t* counter, int tasks, int refusals, bool in_order = false) {
  return emulator_runtime()->take_task(counter, tasks, refusals, in_order);
}
CAUSEWAY_INLINE void barrier_arrive_in_block(Mbarrier* same_offset, int cluster_rank) {
  emulator_runtime()->barrier_arrive(same_offset, cluster_rank);
}
CAUSEWAY_INLINE void barrier_arrive(Mbarrier* barrier) { barrier_arrive_in_block(barrier, cluster_rank()); }
CAUSEWAY_INLINE void barrier_wait(Mbarrier* barrier, int parity) { emulator_runtime()->barrier_wait(barrier, parity); }
CAUSEWAY_INLINE bool barrier_test(Mbarrier* barrier, int parity) {
  return emulator_runtime()->barrier_test(barrier, parity) != 0;
}

template <class... Coordinates>
CAUSEWAY_INLINE void emulator_tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, uint32_t mask,
                                          Coordinates... coordinates) {
  const int first[5] = {coordinates...};
  emulator_runtime()->tensor_load(shared, map, barrier, first, sizeof...(coordinates), mask);
}
CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1) {
  emulator_tensor_load(shared, map, barrier, 0, c0, c1);
}
CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1, int c2) {
  emulator_tensor_load(shared, map, barrier, 0, c0, c1, c2);
}
CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1, int c2,
                                 int c3) {
  emulator_tensor_load(shared, map, barrier, 0, c0, c1, c2, c3);
}
CAUSEWAY_INLINE void tensor_load(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1, int c2,
                                 int c3, int c4) {
  emulator_tensor_load(shared, map, barrier, 0, c0, c1, c2, c3, c4);
}
CAUSEWAY_INLINE void tensor_load_multicast(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1,
                                           uint16_t block_mask) {
  emulator_tensor_load(shared, map, barrier, block_mask, c0, c1);
}
CAUSEWAY_INLINE void tensor_load_multicast(void* shared, const TensorMapBytes* map, Mbarrier* barrier, int c0, int c1,
                                           int c2, uint16_t block_mask) {
  emulator_tensor_load(shared, map, barrier, block_mask, c0, c1, c2);
}
CAUSEWAY_INLINE void tensor_store(const TensorMapBytes* map, const void* shared, int c0, int c1) {
  const int first[5] = {c0, c1};
  emulator_runtime()->tensor_store(map, shared, first, 2);
}
CAUSEWAY_INLINE void tensor_store(const TensorMapBytes* map, const void* shared, int c0, int c1, int c2) {
  const int first[5] = {c0, c1, c2};
  emulator_runtime()->tensor_store(map, shared, first, 3);
}
CAUSEWAY_INLINE void tensor_store_commit() { emulator_runtime()->tensor_store_commit(); }
template <int N>
CAUSEWAY_INLINE void tensor_store_wait() {
  emulator_runtime()->tensor_store_wait(N);
}
CAUSEWAY_INLINE void bulk_store(float* to, const void* shared, int bytes) {
  emulator_runtime()->bulk_store(to, shared, bytes, 0);
}
CAUSEWAY_INLINE void bulk_add(float* to, const void* shared, int bytes) {
  emulator_runtime()->bulk_store(to, shared, bytes, 1);
}
template <int N>
CAUSEWAY_INLINE void bulk_wait() {
  emulator_runtime()->bulk_wait(N);
}
CAUSEWAY_INLINE void wait_for_turn(const uint32_t* turn, uint32_t value) {
  emulator_runtime()->wait_for_turn(turn, value);
}
CAUSEWAY_INLINE void pass_turn(uint32_t* turn, uint32_t value) { emulator_runtime()->pass_turn(turn, value); }
CAUSEWAY_INLINE void prefetch_tensor_map(const TensorMapBytes* map) { emulator_runtime()->prefetch_tensor_map(map); }
CAUSEWAY_INLINE void store_matrices_transposed(void* row, const uint32_t* registers) {
  const int own = static_cast<int>(static_cast<char*>(row) - shared_memory()), lane = thread_index() % 32;
#pragma clang loop unroll(full)
  for (int i = 0; i < 8; ++i) {
    const int offset = wave_shuffle(own, i / 2 * 8 + lane % 4 * 2 + i % 2);
    const auto element = static_cast<uint16_t>(registers[i / 2] >> i % 2 * 16);
    __builtin_memcpy(shared_memory() + offset + lane / 4 * 2, &element, sizeof element);
  }
}
CAUSEWAY_INLINE void fence_async_shared() { emulator_runtime()->fence_async_shared(); }

// Addresses in a descriptor are offsets in the block's shared memory.
CAUSEWAY_INLINE uint64_t matrix_descriptor(const void* shared, int leading_bytes, int stride_bytes, int swizzle_bytes) {
  const uint64_t address = static_cast<uint64_t>(static_cast<const char*>(shared) - shared_memory());
  const uint64_t mode = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 3 : 0;
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(leading_bytes >> 4 & 0x3fff) << 16 |
         static_cast<uint64_t>(stride_bytes >> 4 & 0x3fff) << 32 | mode << 62;
}
CAUSEWAY_INLINE uint64_t matrix_descriptor_at(uint64_t descriptor, int bytes) {
  return descriptor + static_cast<uint64_t>(bytes >> 4);
}

template <class T, int kN, bool kATransposed, bool kBTransposed>
CAUSEWAY_INLINE void emulator_warpgroup_multiply(float* c, const uint32_t* a_registers, uint64_t a, uint64_t b,
                                                 bool accumulate) {
  static_assert(kN % 8 == 0 && kN >= 8 && kN <= 256);
  static_assert(sizeof(T) == 2 || __is_same(T, tf32));
  static_assert((!kIsF8Pair<T> && !__is_same(T, tf32)) || (!kATransposed && !kBTransposed),
                "operands that are not of 16 bits have to be K-major");
  LaneWarpgroupMultiply operands = {
      c, a_registers, a, b, kMatrixElementA<T>, kMatrixElementB<T>, kN, kATransposed, kBTransposed, accumulate};
  emulator_runtime()->warpgroup_multiply(&operands);
}
template <class T, int kN, bool kATransposed, bool kBTransposed>
CAUSEWAY_INLINE void warpgroup_multiply_add(float (&c)[kN / 2], uint64_t a, uint64_t b, bool accumulate) {
  emulator_warpgroup_multiply<T, kN, kATransposed, kBTransposed>(c, nullptr, a, b, accumulate);
}
template <class T, int kN, bool kBTransposed>
CAUSEWAY_INLINE void warpgroup_multiply_add(float (&c)[kN / 2], const uint32_t (&a)[4], uint64_t b, bool accumulate) {
  emulator_warpgroup_multiply<T, kN, false, kBTransposed>(c, a, 0, b, accumulate);
}
CAUSEWAY_INLINE void warpgroup_fence() { emulator_runtime()->warpgroup_fence(); }
CAUSEWAY_INLINE void warpgroup_commit() { emulator_runtime()->warpgroup_commit(); }
template <int N>
CAUSEWAY_INLINE void warpgroup_wait() {
  emulator_runtime()->warpgroup_wait(N);
}

CAUSEWAY_INLINE int warpgroup_row(int i) {
  return thread_index() % 128 / 32 * 16 + thread_index() % 32 / 4 + (i & 2) * 4;
}
CAUSEWAY_INLINE int warpgroup_column(int i) { return i / 4 * 8 + thread_index() % 4 * 2 + (i & 1); }

// Registers are not imitated.
template <int N>
CAUSEWAY_INLINE void registers_increase() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256);
}
template <int N>
CAUSEWAY_INLINE void registers_decrease() {
  static_assert(N % 8 == 0 && N >= 24 && N <= 256);
}
CAUSEWAY_INLINE void named_barrier(int id, int threads) { emulator_runtime()->named_barrier(id, threads); }
CAUSEWAY_INLINE void named_barrier_arrive(int id, int threads) {
  emulator_runtime()->named_barrier_arrive(id, threads);
}
