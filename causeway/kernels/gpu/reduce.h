// Sums and maxima over the threads of a team, in an order that is fixed: the result is the same in every thread of the
// team and in every run. A team is a power of two of neighbouring threads within a wave, or the whole block.
#pragma once

#include "causeway/kernels/gpu/intrinsics.h"

struct SumOf {
  template <class T>
  CAUSEWAY_INLINE T operator()(T a, T b) const {
    return add_integers(a, b);
  }
  CAUSEWAY_INLINE float operator()(float a, float b) const { return a + b; }
};
struct LargerOf {
  template <class T>
  CAUSEWAY_INLINE T operator()(T a, T b) const {
    return a > b ? a : b;
  }
  CAUSEWAY_INLINE float operator()(float a, float b) const { return max_f32(a, b); }  // keeps NaN
};

// wave_shuffle for values of 1, 4 or 8 bytes.
template <class T>
CAUSEWAY_INLINE T exchange(T value, int lane) {
  if constexpr (sizeof(T) == 4) {
    return wave_shuffle(value, lane);
  } else if constexpr (sizeof(T) == 8) {
    const uint64_t bits = __builtin_bit_cast(uint64_t, value);
    const uint64_t low = wave_shuffle(static_cast<uint32_t>(bits), lane);
    const uint64_t high = wave_shuffle(static_cast<uint32_t>(bits >> 32), lane);
    return __builtin_bit_cast(T, high << 32 | low);
  } else {
    return static_cast<T>(wave_shuffle(static_cast<int32_t>(value), lane));
  }
}
template <class T>
CAUSEWAY_INLINE T exchange_xor(T value, int mask) {
  if constexpr (sizeof(T) == 4) {
    return wave_shuffle_xor(value, mask);
  } else {
    return exchange(value, lane_index() ^ mask);
  }
}

// All threads of the block take part. A team wider than a wave is the block, of kTeam threads, and uses the first
// kTeam * 8 / kWaveWidth bytes of shared memory.
template <int kTeam, class Operation, class T>
CAUSEWAY_INLINE T team_reduce(T value, Operation operation) {
#pragma clang loop unroll(full)
  for (int mask = 1; mask < (kTeam < kWaveWidth ? kTeam : kWaveWidth); mask *= 2)
    value = operation(value, exchange_xor(value, mask));
  if constexpr (kTeam > kWaveWidth) {
    T* partials = reinterpret_cast<T*>(shared_memory());
    block_barrier();  // the partial results of the reduction before have been read
    if (lane_index() == 0) partials[wave_index()] = value;
    block_barrier();
    value = partials[0];
#pragma clang loop unroll(full)
    for (int wave = 1; wave < kTeam / kWaveWidth; ++wave) value = operation(value, partials[wave]);
  }
  return value;
}

// Two at once, of no more than 4 bytes each, into the same variables: where the team is the block, for the barriers of
// one and in the same shared memory.
template <int kTeam, class Operation, class T>
CAUSEWAY_INLINE void team_reduce_two(T& first, T& second, Operation operation) {
  static_assert(sizeof(T) <= 4);
  constexpr int kPart = kTeam < kWaveWidth ? kTeam : kWaveWidth;
  first = team_reduce<kPart>(first, operation);
  second = team_reduce<kPart>(second, operation);
  if constexpr (kTeam == kPart) return;
  T* partials = reinterpret_cast<T*>(shared_memory());
  block_barrier();  // the partial results of the reduction before have been read
  if (lane_index() == 0) {
    partials[2 * wave_index()] = first;
    partials[2 * wave_index() + 1] = second;
  }
  block_barrier();
  // Of at most 16 waves at a time: reads of all 32 would take a register each, of the 64 that so many threads have.
  constexpr int kWaves = kTeam / kWaveWidth, kAtOnce = kWaves < 16 ? kWaves : 16;
  static_assert(kWaves % kAtOnce == 0);
#pragma clang loop unroll(disable)
  for (int begin = 0; begin < kWaves; begin += kAtOnce) {
#pragma clang loop unroll(full)
    for (int i = 0; i < kAtOnce; ++i) {
      const T* pair = partials + 2 * (begin + i);
      first = begin + i == 0 ? pair[0] : operation(first, pair[0]);
      second = begin + i == 0 ? pair[1] : operation(second, pair[1]);
    }
  }
}

// The threads of a block as kRows rows of kColumns, each with kLanes neighbouring columns: reduces over the rows, in
// their order, into row 0. All threads take part; uses kRows * kColumns * kLanes * sizeof(T) bytes of shared memory.
template <int kColumns, int kRows, int kLanes, class Operation, class T>
CAUSEWAY_INLINE void reduce_rows(T (&values)[kLanes], Operation operation) {
  if constexpr (kRows > 1) {
    T* all = reinterpret_cast<T*>(shared_memory());
    const int row = thread_index() / kColumns, column = thread_index() % kColumns;
    block_barrier();
#pragma clang loop unroll(full)
    for (int lane = 0; lane < kLanes; ++lane) all[(row * kLanes + lane) * kColumns + column] = values[lane];
    block_barrier();
    if (row == 0) {
      for (int other = 1; other < kRows; ++other) {
#pragma clang loop unroll(full)
        for (int lane = 0; lane < kLanes; ++lane)
          values[lane] = operation(values[lane], all[(other * kLanes + lane) * kColumns + column]);
      }
    }
  }
}

// The sum of `value` over the threads of the team before this one, and in `all` that of the whole team. All threads of
// the block take part. A team has at most 32 threads or is the block; then it uses kTeam / 32 * sizeof(T) bytes of
// shared memory.
template <int kTeam, class T>
CAUSEWAY_INLINE T team_sum_before(T value, T& all) {
  constexpr int kPart = kTeam < 32 ? kTeam : 32;
  const int place = thread_index() % kPart;
  T sum = value;
#pragma clang loop unroll(full)
  for (int distance = 1; distance < kPart; distance *= 2) {
    const T other = exchange(sum, place >= distance ? lane_index() - distance : lane_index());
    if (place >= distance) sum = static_cast<T>(other + sum);
  }
  all = exchange(sum, lane_index() - place + kPart - 1);
  const T through_previous = exchange(sum, place >= 1 ? lane_index() - 1 : lane_index());
  T before = place >= 1 ? through_previous : T(0);
  if constexpr (kTeam > kPart) {
    T* parts = reinterpret_cast<T*>(shared_memory());
    block_barrier();
    if (place == 0) parts[thread_index() / kPart] = all;
    block_barrier();
    T sum_before = T(0);
    all = T(0);
#pragma clang loop unroll(full)
    for (int part = 0; part < kTeam / kPart; ++part) {
      if (part == thread_index() / kPart) sum_before = all;
      all = static_cast<T>(all + parts[part]);
    }
    before = static_cast<T>(sum_before + before);
  }
  return before;
}

// Keys in the order of values, NaN above all and zeros equal.
CAUSEWAY_INLINE int32_t rank_key(float x) { return order_key(x == 0.0f ? 0.0f : x); }
CAUSEWAY_INLINE int32_t rank_key(int32_t x) { return x; }
CAUSEWAY_INLINE int32_t rank_key(int16_t x) { return x; }
CAUSEWAY_INLINE int32_t rank_key(uint8_t x) { return x; }
CAUSEWAY_INLINE int32_t rank_key(bool x) { return x; }
CAUSEWAY_INLINE int64_t rank_key(int64_t x) { return x; }

// An element of a line. Of equal elements the one at the lower index counts as the greater.
template <class Key>
struct Candidate {
  Key key = lowest_value<Key>();
  int32_t index = 0x7fffffff;  // beyond every element: less than all

  CAUSEWAY_INLINE bool exceeds(const Candidate& other) const {
    return key > other.key || (key == other.key && index < other.index);
  }
};

// The greatest candidate of the team, in all of its threads; as team_reduce.
template <int kTeam, class Key>
CAUSEWAY_INLINE Candidate<Key> team_greatest(Candidate<Key> greatest) {
#pragma clang loop unroll(full)
  for (int mask = 1; mask < (kTeam < kWaveWidth ? kTeam : kWaveWidth); mask *= 2) {
    const Candidate<Key> other = {exchange_xor(greatest.key, mask), exchange_xor(greatest.index, mask)};
    if (other.exceeds(greatest)) greatest = other;
  }
  if constexpr (kTeam > kWaveWidth) {
    Candidate<Key>* all = reinterpret_cast<Candidate<Key>*>(shared_memory());
    block_barrier();
    if (lane_index() == 0) all[wave_index()] = greatest;
    block_barrier();
    greatest = all[0];
#pragma clang loop unroll(full)
    for (int wave = 1; wave < kTeam / kWaveWidth; ++wave)
      if (all[wave].exceeds(greatest)) greatest = all[wave];
  }
  return greatest;
}
