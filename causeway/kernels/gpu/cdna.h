// AMD's own vocabulary, beside intrinsics.h: waves of a block that take turns at the matrix units (ISA documents of
// MI200 and MI300: S_BARRIER, S_SETPRIO).
//
//   void turn_barrier()         all threads of the block, each wherever in the text it is: a wave's n-th call meets the
//                               n-th of every other. Orders shared memory within the block; loads from device memory
//                               into registers stay under way. The compiler moves nothing across it
//   void ping_pong_barrier_after_mma()
//                               the same, for a turn in which MMAs have taken all that was loaded from shared
//                               memory and nothing was stored there: there is nothing to wait for
//   void wave_priority<N>()     0..3: which of a SIMD's waves issues first
//   void schedule_fence()       the compiler moves no instruction across it
//   int same_in_wave(int)       the same, of which the compiler knows that all lanes of the wave have it
#pragma once

#include "causeway/kernels/gpu/intrinsics.h"

#if defined(CAUSEWAY_EMULATOR)

CAUSEWAY_INLINE void turn_barrier() { emulator_runtime()->block_barrier("turn_barrier", 0); }
CAUSEWAY_INLINE void ping_pong_barrier_after_mma() { turn_barrier(); }
template <int kPriority>
CAUSEWAY_INLINE void wave_priority() {}
CAUSEWAY_INLINE void schedule_fence() {}
CAUSEWAY_INLINE int same_in_wave(int value) { return value; }

#else

CAUSEWAY_INLINE void schedule_fence() { __builtin_amdgcn_sched_barrier(0); }
CAUSEWAY_INLINE void turn_barrier() {
  schedule_fence();
  block_barrier();
  schedule_fence();
}
CAUSEWAY_INLINE void ping_pong_barrier_after_mma() {
  schedule_fence();
  fenced_barrier();
  schedule_fence();
}
template <int kPriority>
CAUSEWAY_INLINE void wave_priority() {
  __builtin_amdgcn_s_setprio(kPriority);
}
CAUSEWAY_INLINE int same_in_wave(int value) { return __builtin_amdgcn_readfirstlane(value); }

#endif
