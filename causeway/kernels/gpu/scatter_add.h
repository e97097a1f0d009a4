// Sums of updates by their index, in an order that is fixed: no atomics, and nothing depends on the time at which a
// block runs. First a stable sort of the updates by their keys, digit by digit from the lowest, two launches each; then
// teams add neighbouring updates of the sorted list, and at last what the teams have of runs that lie in several of
// their windows; or each team whole runs, whose sums do not depend then on what other runs there are.
#pragma once

#include "causeway/kernels/gpu/lanes.h"
#include "causeway/kernels/gpu/reduce.h"
#include "causeway/kernels/gpu/scatter_add_layout.h"

CAUSEWAY_INLINE int digit_of(int64_t key, int pass) {
  return static_cast<int>(key >> (pass * kDigitBits) & ((1 << kDigitBits) - 1));
}

// What a block of kSortThreads threads, each of them with one element in a tile, keeps in shared memory.
template <class Index>
struct SortTile {
  static constexpr int kWaves = kSortThreads / kWaveWidth;
  Index* next = reinterpret_cast<Index*>(shared_memory());
  int32_t* counts = reinterpret_cast<int32_t*>(shared_memory() + kSortThreads * 8);  // of each wave and digit

  // Where this thread's element goes among all. `sum` belongs to the digit that is the thread's number: how many
  // elements go before the tile's first one of that digit; afterwards, before the next tile's. All threads take part.
  CAUSEWAY_INLINE Index place(Index& sum, int digit, bool valid) const {
    block_barrier();  // the tile before, or what else was in shared memory, has been read
#pragma clang loop unroll(full)
    for (int wave = 0; wave < kWaves; ++wave) counts[wave * kSortThreads + thread_index()] = 0;
    next[thread_index()] = sum;
    uint64_t equal = wave_ballot(valid);
#pragma clang loop unroll(full)
    for (int bit = 0; bit < kDigitBits; ++bit) {
      const bool set = (digit >> bit & 1) != 0;
      const uint64_t lanes = wave_ballot(set);
      equal &= set ? lanes : ~lanes;
    }
    const uint64_t before = equal & ((uint64_t{1} << lane_index()) - 1);
    block_barrier();
    if (valid && before == 0) counts[wave_index() * kSortThreads + digit] = __builtin_popcountll(equal);
    block_barrier();
    int32_t tile = 0;
#pragma clang loop unroll(full)
    for (int wave = 0; wave < kWaves; ++wave) {
      int32_t& count = counts[wave * kSortThreads + thread_index()];
      const int32_t of_wave = count;
      count = tile;
      tile += of_wave;
    }
    sum += tile;
    block_barrier();
    return next[digit] + counts[wave_index() * kSortThreads + digit] + __builtin_popcountll(before);
  }
};

// counts[task][digit]: of the elements of the block's chunk. key_at(i) is the key of the i-th element so far.
template <class Index, class KeyAt>
CAUSEWAY_INLINE void count_digits(Index updates, int task, int pass, Index* counts, KeyAt key_at) {
  const SortTile<Index> tile;
  const Index chunk = static_cast<Index>(sort_chunk(updates)), begin = task * chunk;
  const Index end = begin + chunk < updates ? begin + chunk : updates;
  Index sum = 0;
  for (Index first = begin; first < end; first += kSortThreads) {
    const Index i = first + thread_index();
    const bool valid = i < end;
    tile.place(sum, valid ? digit_of(key_at(i), pass) : 0, valid);
  }
  counts[static_cast<Index>(task) * kSortThreads + thread_index()] = sum;
}

// Writes the list in the order of the digit, equal ones in the order that they had. update_at(i) is the number of the
// i-th update so far.
template <class Index, class KeyAt, class UpdateAt>
CAUSEWAY_INLINE void order_by_digit(Index updates, int task, int pass, const Index* counts, Index* order, Index* keys,
                                    KeyAt key_at, UpdateAt update_at) {
  const int blocks = static_cast<int>(sort_blocks(updates));
  Index of_blocks_before = 0, of_all = 0;
#pragma clang loop unroll_count(16)
  for (int block = 0; block < blocks; ++block) {
    const Index count = counts[static_cast<Index>(block) * kSortThreads + thread_index()];
    of_all += count;
    of_blocks_before += block < task ? count : 0;
  }
  Index all;
  Index sum = team_sum_before<kSortThreads>(of_all, all) + of_blocks_before;
  const SortTile<Index> tile;
  const Index chunk = static_cast<Index>(sort_chunk(updates)), begin = task * chunk;
  const Index end = begin + chunk < updates ? begin + chunk : updates;
  for (Index first = begin; first < end; first += kSortThreads) {
    const Index i = first + thread_index();
    const bool valid = i < end;
    const Index key = valid ? static_cast<Index>(key_at(i)) : 0;
    const Index at = tile.place(sum, digit_of(key, pass), valid);
    if (valid) {
      order[at] = update_at(i);
      keys[at] = key;
    }
  }
}

// Sums of the parts of runs in windows, for one vector of columns: of a window's first run, where it began in a window
// before, and of its last one, where it began in the window and goes on in the next. `stride`: from window to window.
template <class T, class Index>
struct PartialSums {
  T* first;
  Index stride;
  CAUSEWAY_INLINE T* head(Index window) const { return first + window * 2 * stride; }
  CAUSEWAY_INLINE T* tail(Index window) const { return first + (window * 2 + 1) * stride; }
};

// Adds the updates of a window to the rows, one after the other, for one vector of columns. load_update(j, values),
// load_row(key, values), store_row(key, values). Keys that are `outside` come last and go nowhere.
template <int kLanes, class T, class Index, class LoadUpdate, class LoadRow, class StoreRow>
CAUSEWAY_INLINE void add_window(Index updates, Index window, Index outside, const Index* order, const Index* keys,
                                const PartialSums<T, Index>& partials, LoadUpdate load_update, LoadRow load_row,
                                StoreRow store_row) {
  constexpr int kAtOnce = 4;  // loads that a thread waits for together
  const Index begin = window * kSumWindow;
  const Index end = begin + kSumWindow < updates ? begin + kSumWindow : updates;
  Index key = keys[begin];
  if (key == outside) return;
  bool began_before = begin > 0 && keys[begin - 1] == key;
  T sums[kLanes];
  if (began_before) {
#pragma clang loop unroll(full)
    for (int e = 0; e < kLanes; ++e) sums[e] = T(0);
  } else {
    load_row(key, sums);
  }
  const auto close = [&] {
    if (began_before) {
      store_lanes(partials.head(window), sums);
    } else {
      store_row(key, sums);
    }
  };
  for (Index first = begin; first < end; first += kAtOnce) {
    T values[kAtOnce][kLanes], rows[kAtOnce][kLanes];
    Index found[kAtOnce];
#pragma clang loop unroll(full)
    for (int u = 0; u < kAtOnce; ++u) {
      const Index at = first + u < end ? first + u : end - 1;
      found[u] = keys[at];
      load_update(order[at], values[u]);
      if (at > begin && keys[at - 1] != found[u] && found[u] != outside) load_row(found[u], rows[u]);
    }
#pragma clang loop unroll(full)
    for (int u = 0; u < kAtOnce; ++u) {
      if (first + u >= end) continue;
      if (found[u] != key) {
        close();
        if (found[u] == outside) return;
        began_before = false;
        key = found[u];
#pragma clang loop unroll(full)
        for (int e = 0; e < kLanes; ++e) sums[e] = rows[u][e];
      }
#pragma clang loop unroll(full)
      for (int e = 0; e < kLanes; ++e) sums[e] = SumOf()(sums[e], values[u][e]);
    }
  }
  if (!began_before && end < updates && keys[end] == key) {
    store_lanes(partials.tail(window), sums);
  } else {
    close();
  }
}

// Adds all updates of each run that begins in the window to its row, one after the other: nothing is left for others.
// The arguments are those of add_window.
template <int kLanes, class T, class Index, class LoadUpdate, class LoadRow, class StoreRow>
CAUSEWAY_INLINE void add_whole_runs(Index updates, Index window, Index outside, const Index* order, const Index* keys,
                                    LoadUpdate load_update, LoadRow load_row, StoreRow store_row) {
  Index at = window * kSumWindow;
  const Index end = at + kSumWindow < updates ? at + kSumWindow : updates;
  while (at > 0 && at < end && keys[at] == keys[at - 1]) ++at;
  while (at < end && keys[at] != outside) {
    const Index key = keys[at];
    T sums[kLanes];
    load_row(key, sums);
    do {
      T values[kLanes];
      load_update(order[at], values);
#pragma clang loop unroll(full)
      for (int e = 0; e < kLanes; ++e) sums[e] = SumOf()(sums[e], values[e]);
      ++at;
    } while (at < updates && keys[at] == key);
    store_row(key, sums);
  }
}

// The row of the run that begins in the window and goes on in the next, if there is one.
template <int kLanes, class T, class Index, class StoreRow>
CAUSEWAY_INLINE void add_partial_sums(Index updates, Index window, Index outside, const Index* keys,
                                      const PartialSums<T, Index>& partials, StoreRow store_row) {
  const Index begin = window * kSumWindow, next = begin + kSumWindow;
  if (next >= updates) return;
  const Index key = keys[next];
  if (key == outside || keys[next - 1] != key || (begin > 0 && keys[begin - 1] == key)) return;
  Index last = window + 1;  // the last window that begins with the key
  for (Index beyond = static_cast<Index>(sum_windows(updates)); last + 1 < beyond;) {
    const Index middle = last + (beyond - last) / 2;
    if (keys[middle * kSumWindow] == key) {
      last = middle;
    } else {
      beyond = middle;
    }
  }
  T sums[kLanes];
#pragma clang loop unroll(full)
  for (int e = 0; e < kLanes; ++e) sums[e] = partials.tail(window)[e];
#pragma clang loop unroll_count(8)
  for (Index part = window + 1; part <= last; ++part) {
#pragma clang loop unroll(full)
    for (int e = 0; e < kLanes; ++e) sums[e] = SumOf()(sums[e], partials.head(part)[e]);
  }
  store_row(key, sums);
}
