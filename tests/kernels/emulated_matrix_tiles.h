// Matrix registers by plain code, in place of those of kernels/x86/matrix_tiles.h: for tests that are compiled for any
// machine. To be included before the kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "causeway/kernels/types.h"

#define CAUSEWAY_MATRIX_TILES

namespace {

// As kernels/x86/matrix_tiles.h describes them. Before begin_matrix_tiles() and after end_matrix_tiles() there are
// none.
struct EmulatedTiles {
  uint32_t words[8][16][16];
  bool configured = false;
};
thread_local EmulatedTiles emulated_tiles;

void begin_matrix_tiles() {
  EXPECT_FALSE(emulated_tiles.configured);
  std::memset(emulated_tiles.words, 0xff, sizeof emulated_tiles.words);
  emulated_tiles.configured = true;
}
void end_matrix_tiles() {
  EXPECT_TRUE(emulated_tiles.configured);
  emulated_tiles.configured = false;
}
template <int kTile>
void matrix_tile_zero() {
  ASSERT_TRUE(emulated_tiles.configured);
  std::memset(emulated_tiles.words[kTile], 0, sizeof emulated_tiles.words[kTile]);
}
template <int kTile>
void matrix_tile_load(const void* from, int64_t stride_bytes) {
  ASSERT_TRUE(emulated_tiles.configured);
  for (int row = 0; row < 16; ++row)
    std::memcpy(emulated_tiles.words[kTile][row], static_cast<const char*>(from) + row * stride_bytes, 64);
}
template <int kTile>
void matrix_tile_store(void* to, int64_t stride_bytes) {
  ASSERT_TRUE(emulated_tiles.configured);
  for (int row = 0; row < 16; ++row)
    std::memcpy(static_cast<char*>(to) + row * stride_bytes, emulated_tiles.words[kTile][row], 64);
}
template <int kSum, int kA, int kB>
void matrix_tile_multiply_pairs() {
  ASSERT_TRUE(emulated_tiles.configured);
  const auto term = [](uint32_t word, int odd) {
    return to_float(bf16{static_cast<uint16_t>(odd == 0 ? word & 0xffff : word >> 16)});
  };
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 16; ++column) {
      float sum = __builtin_bit_cast(float, emulated_tiles.words[kSum][row][column]);
      for (int pair = 0; pair < 16; ++pair)
        for (int odd = 0; odd < 2; ++odd)
          sum += term(emulated_tiles.words[kA][row][pair], odd) * term(emulated_tiles.words[kB][pair][column], odd);
      emulated_tiles.words[kSum][row][column] = __builtin_bit_cast(uint32_t, sum);
    }
}

}  // namespace
