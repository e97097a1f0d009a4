// What attention on CDNA (attention_cdna.h, attention_cdna_gradient.h) loads fragments from: rows of operands in shared
// memory, along a head's elements or across, in pieces of 16 bytes that are exchanged so that eight lanes, which read
// or write at once, do so in different banks. A lane's 16 bytes are of two instructions: of operands along a head's
// elements both factors are exchanged alike, and of what lies across, rows of scores are.
#pragma once

#include "causeway/kernels/gpu/attention_tile.h"
#include "causeway/kernels/gpu/attention_tile_layout.h"
#include "causeway/kernels/gpu/cdna.h"
#include "causeway/kernels/gpu/gemm.h"

namespace attention_tile {

constexpr int kPieceElements = 8;  // of 16 bytes

// Of scores, two neighbouring blocks of 16 have 32 others: a lane's rows of the first are four of eight neighbours, of
// the second the rest.
struct OthersInPairs {
  CAUSEWAY_INLINE static constexpr int of_block(int n) { return n / 2 * 32 + n % 2 * 4; }
  // Of element i of the lane's n-th accumulator.
  CAUSEWAY_INLINE static int of(int n, int i) { return of_block(n) + lane_index() / 16 * 8 + i; }
  // Of row `row` of block n.
  CAUSEWAY_INLINE static int of_row(int n, int row) { return of_block(n) + row / 4 * 8 + row % 4; }
};

// Others along a head's kDim elements, 64 or 128: [other][element].
template <int kDim>
CAUSEWAY_INLINE int row_place(int other, int d) {
  static_assert(kDim == 64 || kDim == 128);
  const int exchange = other % 4 + other / 8 % 2 * 4;
  return other * kDim + ((d / kPieceElements) ^ exchange) * kPieceElements + d % kPieceElements;
}
// The same, as a lane reads them for MMAs with its lines: block n of 16 others, 32 elements from `step` on. Only
// the exchange of one 32 elements with the next differs by more than a constant.
template <int kDim, class T>
struct RowReader {
  const T* from[2];
  CAUSEWAY_INLINE explicit RowReader(const T* rows) {
    const int other = OthersInPairs::of_row(0, lane_index() % 16), d = lane_index() / 16 * kPieceElements;
    from[0] = rows + row_place<kDim>(other, d);
    from[1] = rows + row_place<kDim>(other, d + 32);
  }
  CAUSEWAY_INLINE GemmPiece load(int n, int step) const {
    return load_piece(from[step % 2] + OthersInPairs::of_block(n) * kDim + step / 2 * 64);
  }
};

// Others across: [element][other], kOthers of them, 32 or 64.
template <int kOthers>
CAUSEWAY_INLINE int cross_place(int other, int d) {
  static_assert(kOthers == 32 || kOthers == 64);
  const int exchange = kOthers == 64 ? (d ^ d / 8) % 8 : (d / 2 ^ d / 8) % 4;
  return d * kOthers + ((other / kPieceElements) ^ exchange) * kPieceElements + other % kPieceElements;
}
// The same, as a lane reads them for sums over others: 32 of them from 32 n on, elements 16 d to 16 d + 15.
template <int kOthers, class T>
struct CrossReader {
  static constexpr int kExchanges = kOthers / 16;
  const T* from[kExchanges];
  CAUSEWAY_INLINE explicit CrossReader(const T* across) {
    const int line = lane_index() % 16, other = lane_index() / 16 * kPieceElements;
#pragma clang loop unroll(full)
    for (int i = 0; i < kExchanges; ++i)
      from[i] = across + cross_place<kOthers>(other, 16 * i + line) - 16 * i * kOthers;
  }
  CAUSEWAY_INLINE GemmPiece load(int n, int d) const {
    // 32 others further change the same bit of the exchange as 32 elements do.
    return load_piece(from[(d + 2 * n) % kExchanges] + d * 16 * kOthers);
  }
};

// Two others' pieces from element d on, across.
template <int kOthers, class T>
CAUSEWAY_INLINE void put_across(T* across, int other, int d, const GemmPiece (&held)[2]) {
  T pieces[2][kPieceElements];
  __builtin_memcpy(pieces, held, sizeof(pieces));
#pragma clang loop unroll(full)
  for (int e = 0; e < kPieceElements; ++e) {
    const T pair[2] = {pieces[0][e], pieces[1][e]};
    __builtin_memcpy(__builtin_assume_aligned(across + cross_place<kOthers>(other, d + e), 4), pair, 4);
  }
}

// A row's fragments for MMAs along a head's elements, exchanged as those of others are: of each 32 elements a lane
// has eight neighbours.
template <class Row, class Fragment, int kInner>
CAUSEWAY_INLINE void load_line_fragments(Row row, Fragment (&fragments)[kInner]) {
#pragma clang loop unroll(full)
  for (int d = 0; d < kInner; d += 2) {
    const GemmPiece piece = row(16 * d + lane_index() / 16 * kPieceElements);
    __builtin_memcpy(&fragments[d], &piece, sizeof(piece));
  }
}

// Before the first turn: slice 0 is stored, and each row of waves is as far as its first turn of MMAs asks, row 1 a
// turn later. fetch() brings a thread's part of the next slice into registers, put(stage) stores what it brought.
template <class Fetch, class Put>
CAUSEWAY_INLINE void begin_ping_pong(int row, Fetch fetch, Put put) {
  fetch();
  put(0);
  fetch();
  turn_barrier();
  if (row == 1) {
    put(1);
    fetch();
    turn_barrier();
  }
}

// Calls load(i) and then multiply(i, its first fragment, its second) for each i below kCount, the loads two or three
// ahead.
template <int kCount, class Fragment, class Load, class Multiply>
CAUSEWAY_INLINE void load_ahead(Load load, Multiply multiply) {
  constexpr int kTogether = 2;
  static_assert(kCount % kTogether == 0 && 2 * sizeof(Fragment) == sizeof(GemmPiece));
  GemmPiece pieces[2][kTogether];
#pragma clang loop unroll(full)
  for (int i = 0; i < kTogether; ++i) pieces[0][i] = load(i);
#pragma clang loop unroll(full)
  for (int first = 0; first < kCount; first += kTogether) {
    const int group = first / kTogether;
#pragma clang loop unroll(full)
    for (int i = 0; i < kTogether && first + kTogether < kCount; ++i)
      pieces[(group + 1) % 2][i] = load(first + kTogether + i);
    schedule_fence();
#pragma clang loop unroll(full)
    for (int i = 0; i < kTogether; ++i) {
      Fragment halves[2];
      __builtin_memcpy(halves, &pieces[group % 2][i], sizeof(halves));
      multiply(first + i, halves[0], halves[1]);
    }
    schedule_fence();
  }
}

}  // namespace attention_tile
