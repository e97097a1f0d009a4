// The tile through which transpose.h copies, for the kernel and for the host that launches it.
#pragma once

constexpr int kTransposeBytes = 128;  // of a side of the tile
constexpr int kTransposeThreads = 256;
// A row of the tile and four bytes, which spread its columns over the banks.
constexpr int kTransposeRowBytes = kTransposeBytes + 4;

// Elements of a side.
constexpr int transpose_tile_elements(int element_bytes) { return kTransposeBytes / element_bytes; }
constexpr int transpose_shared_bytes(int element_bytes) {
  return kTransposeRowBytes * transpose_tile_elements(element_bytes);
}
