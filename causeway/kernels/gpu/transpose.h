// Tensors whose neighbouring elements lie along another axis than those of what they are copied from, or computed with:
// through a square tile of shared memory, so that whole sectors are read and written.
#pragma once

#include "causeway/kernels/gpu/lanes.h"
#include "causeway/kernels/gpu/transpose_layout.h"

// A tile whose row w, of elements r, is in shared memory at tile + w * kTransposeRowBytes, in the other order:
// to[r * to_stride + w] for r < rows, w < columns, at most a tile of each, in pieces of 16 bytes. All threads of a
// block of kTransposeThreads, after a barrier.
template <class T>
CAUSEWAY_INLINE void store_transposed_tile(const char* tile, T* to, int64_t to_stride, int64_t rows, int64_t columns) {
  constexpr int kPiece = 16 / static_cast<int>(sizeof(T)), kPieces = kTransposeBytes / 16;
  constexpr int kTile = transpose_tile_elements(static_cast<int>(sizeof(T)));
  constexpr int kRounds = kTile * kPieces / kTransposeThreads;
  static_assert(kTile * kPieces % kTransposeThreads == 0);
#pragma clang loop unroll(full)
  for (int round = 0; round < kRounds; ++round) {
    // Sixteen rows and two neighbouring pieces of each side by side: sectors of 32 bytes.
    const int item = round * kTransposeThreads + thread_index();
    const int row = item / 2 % 16 + item / (32 * (kPieces / 2)) * 16;
    const int column = (item % 2 + item / 32 % (kPieces / 2) * 2) * kPiece;
    if (column >= columns || row >= rows) continue;
    T elements[kPiece];
#pragma clang loop unroll(full)
    for (int i = 0; i < kPiece; ++i)
      elements[i] =
          *reinterpret_cast<const T*>(tile + (column + i) * kTransposeRowBytes + row * static_cast<int>(sizeof(T)));
    store_lanes(to + row * to_stride + column, elements);
  }
}

// Neighbouring elements of a row of the tile, whole words of four bytes each.
template <class T, int kLanes>
CAUSEWAY_INLINE void put_in_tile(char* tile, int row, int column, const T (&values)[kLanes]) {
  static_assert(sizeof(T) == 1 && kLanes % 4 == 0);
  auto* words = reinterpret_cast<uint32_t*>(tile + row * kTransposeRowBytes + column);
#pragma clang loop unroll(full)
  for (int i = 0; i < kLanes; i += 4) {
    uint32_t word = 0;
#pragma clang loop unroll(full)
    for (int j = 0; j < 4; ++j) word |= static_cast<uint32_t>(__builtin_bit_cast(uint8_t, values[i + j])) << j * 8;
    words[i / 4] = word;
  }
}

// to[r * to_stride + w] = from[w * from_stride + r] for r < rows, w < columns, at most a tile of each. Everything is
// in pieces of 16 bytes: pointers, strides, rows and columns.
template <class T>
CAUSEWAY_INLINE void transpose_tile(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
                                    int64_t columns) {
  constexpr int kPiece = 16 / static_cast<int>(sizeof(T)), kPieces = kTransposeBytes / 16;
  constexpr int kTile = transpose_tile_elements(static_cast<int>(sizeof(T)));
  constexpr int kRounds = kTile * kPieces / kTransposeThreads;
  char* tile = shared_memory();
  typedef Vector<uint32_t, 4> Piece;
  // All of a thread's loads before the first is waited for.
  Piece pieces[kRounds];
#pragma clang loop unroll(full)
  for (int round = 0; round < kRounds; ++round) {
    const int item = round * kTransposeThreads + thread_index();
    const int column = item / kPieces, row = item % kPieces * kPiece;
    if (column < columns && row < rows)
      pieces[round] = *reinterpret_cast<const Piece*>(from + column * from_stride + row);
  }
#pragma clang loop unroll(full)
  for (int round = 0; round < kRounds; ++round) {
    const int item = round * kTransposeThreads + thread_index();
    const int column = item / kPieces, row = item % kPieces * kPiece;
    if (column >= columns || row >= rows) continue;
    auto* words = reinterpret_cast<uint32_t*>(tile + column * kTransposeRowBytes + row * static_cast<int>(sizeof(T)));
#pragma clang loop unroll(full)
    for (int i = 0; i < 4; ++i) words[i] = pieces[round][i];
  }
  block_barrier();
  store_transposed_tile(tile, to, to_stride, rows, columns);
}
