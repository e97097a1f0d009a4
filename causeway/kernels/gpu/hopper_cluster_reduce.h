// Sums and maxima over the blocks of a cluster that share a row (reduce.h has those of a block). For architectures with
// clusters. Blocks' values are taken in by rank: the result is the same in every thread and in every run.
#pragma once

#include "causeway/kernels/gpu/hopper.h"
#include "causeway/kernels/gpu/reduce.h"

// `value` is a block's, in all of its threads. `sums` are kBlocks floats of shared memory, at the same place in every
// block, which nothing else of the launch uses: so one barrier does. All threads of the cluster take part, whose blocks
// have begun (cluster_begin()). After its last reduction no block is written to by another one, and may end.
template <int kBlocks>
CAUSEWAY_INLINE void cluster_share(float value, float* sums) {
  if (thread_index() < kBlocks) store_in_block(sums + cluster_rank(), thread_index(), value);
}
template <int kBlocks, class Operation>
CAUSEWAY_INLINE float cluster_gather(const float* sums, Operation operation) {
  float value = sums[0];
#pragma clang loop unroll(full)
  for (int rank = 1; rank < kBlocks; ++rank) value = operation(value, sums[rank]);
  return value;
}

template <int kBlocks, class Operation>
CAUSEWAY_INLINE float cluster_reduce(float value, float* sums, Operation operation) {
  cluster_share<kBlocks>(value, sums);
  cluster_barrier();
  return cluster_gather<kBlocks>(sums, operation);
}

// Two at once, into the same variables, for one barrier.
template <int kBlocks, class Operation>
CAUSEWAY_INLINE void cluster_reduce_two(float& first, float* first_sums, float& second, float* second_sums,
                                        Operation operation) {
  cluster_share<kBlocks>(first, first_sums);
  cluster_share<kBlocks>(second, second_sums);
  cluster_barrier();
  first = cluster_gather<kBlocks>(first_sums, operation);
  second = cluster_gather<kBlocks>(second_sums, operation);
}
