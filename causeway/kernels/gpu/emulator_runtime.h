// What emulated kernel text and the emulator share: the table of functions that the text calls, and what threads bring
// to the matrix instructions. All functions are called on the fiber of the thread that calls; `file` and `line` are
// where in the text.
#pragma once

#include "causeway/kernels/types.h"

struct EmulatorRuntime {
  int (*thread_index)();
  int (*block_index)();
  int (*block_count)();
  char* (*shared_memory)();
  void (*check_arguments)(int64_t bytes);
  void (*block_barrier)(const char* file, int line);
  void (*wave_barrier)(const char* file, int line);
  uint32_t (*wave_shuffle)(uint32_t value, int lane, const char* file, int line);
  uint32_t (*wave_shuffle_xor)(uint32_t value, int mask, const char* file, int line);
  uint64_t (*wave_ballot)(int value, const char* file, int line);
  // Checked text: `bytes` at `address` are about to be read or written; `place` is an address in the image.
  void (*access)(const void* address, int64_t bytes, int writes, const void* place);

  void (*copy_async_16)(void* shared, const void* global, int valid);
  void (*copy_async_commit)();
  void (*copy_async_wait)(int groups);
  void (*load_matrices)(void* lane, int transposed);                    // LaneMatrixLoad
  void (*multiply_matrices)(void* lane, int a_element, int b_element);  // LaneMatrixMultiply

  void (*barrier_init)(void* barrier, int arrivals);
  void (*barrier_init_fence)();
  void (*barrier_expect_bytes)(void* barrier, int bytes);
  void (*barrier_arrive)(void* barrier, int block_rank);
  void (*barrier_wait)(void* barrier, int parity);
  int (*barrier_test)(void* barrier, int parity);
  void (*tensor_load)(void* shared, const void* map, void* barrier, const int* first, int rank, uint32_t block_mask);
  void (*tensor_store)(const void* map, const void* shared, const int* first, int rank);
  void (*tensor_store_commit)();
  void (*tensor_store_wait)(int groups);
  void (*bulk_store)(float* to, const void* shared, int bytes, int adds);
  void (*bulk_wait)(int groups);
  void (*wait_for_turn)(const uint32_t* turn, uint32_t value);
  void (*pass_turn)(uint32_t* turn, uint32_t value);
  void (*prefetch_tensor_map)(const void* map);
  void (*fence_async_shared)();
  void (*warpgroup_multiply)(void* lane);  // LaneWarpgroupMultiply
  void (*warpgroup_fence)();
  void (*warpgroup_commit)();
  void (*warpgroup_wait)(int groups);
  void (*named_barrier)(int id, int threads);
  void (*named_barrier_arrive)(int id, int threads);
  int (*cluster_rank)();
  void (*cluster_barrier)();
  void (*store_in_block)(float* same_offset, int block_rank, float value);
  int (*take_task)(const void* counter, int tasks, int refusals, int in_order);
};

// The element types of multiplicands.
enum class MatrixElement : int { kBF16, kF16, kF32, kF8E4M3, kF8E5M2, kF8E4M3Fnuz, kF8E5M2Fnuz, kTF32 };

// Of load_matrices.
struct LaneMatrixLoad {
  const void* row;
  uint32_t* registers;  // 4
};

// Of multiply_matrices.
struct LaneMatrixMultiply {
  const void* a;
  const void* b;
  float* c;
};

// What each thread of a warpgroup brings to one MMA of 64 x columns.
struct LaneWarpgroupMultiply {
  float* c;                     // columns / 2
  const uint32_t* a_registers;  // 4, or null: A is in shared memory
  uint64_t a;
  uint64_t b;
  int a_element;  // MatrixElement, of one size
  int b_element;
  int columns;
  int a_transposed;
  int b_transposed;
  int accumulate;
};
