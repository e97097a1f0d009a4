// What the forward and backward attention kernels share on x86-64: operands packed for the multiply units, a tile
// multiply held in registers, and base-2 exponential and logarithm.
//
// Packed elements live in 32-bit words: two bf16 consecutive along the contraction where the machine multiplies pairs
// (AVX512_BF16, AMX), one float otherwise (a bf16 operand is then rounded to bf16 and kept as a float, so that results
// agree). Vectors are 16 lanes everywhere; the compiler splits them on narrower machines. Matrix registers take the
// same words, 16 rows of a left operand at a time.
#pragma once

#include "causeway/kernels/attention_layout.h"
#include "causeway/kernels/x86/matrix_tiles.h"
#include "causeway/kernels/x86/simd.h"

// 16-lane vectors cross only calls that are always inlined, so how a narrower machine would pass them is no matter.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpsabi"

namespace attention_tile {

using Floats = Vector<float, 16>;
using Words = Vector<uint32_t, 16>;

constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kLn2 = 0.69314718055994530942f;
constexpr float kInfinity = __builtin_inff();

CAUSEWAY_INLINE Floats load_floats(const float* from) {
  Floats lanes;
  __builtin_memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

CAUSEWAY_INLINE Words load_words(const uint32_t* from) {
  Words lanes;
  __builtin_memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

CAUSEWAY_INLINE void store_floats(float* to, Floats lanes) { __builtin_memcpy(to, &lanes, sizeof(lanes)); }
CAUSEWAY_INLINE void store_words(uint32_t* to, Words lanes) { __builtin_memcpy(to, &lanes, sizeof(lanes)); }

// Clears `words` 32-bit words, a multiple of 16.
CAUSEWAY_INLINE void clear(void* to, int64_t words) {
  for (int64_t i = 0; i < words; i += 16) store_words(static_cast<uint32_t*>(to) + i, Words(0));
}

// a * b + c.
CAUSEWAY_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if CAUSEWAY_X86_LEVEL >= 1
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// The larger of each lane; where b is NaN, NaN. One instruction.
CAUSEWAY_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// 2^x, exactly 0 where that is below 2^-126 (a subnormal result would cost processors as much as ten others); NaN stays
// NaN. Relative error under 8e-8 (degree 5, for float operands) or 3e-6 (degree 4, for bf16 operands, whose own
// rounding is 2e-3); minimax polynomials on [-1/2, 1/2]. Without AVX-512, x must be at most 127.
template <class Operand>
CAUSEWAY_INLINE Floats exp2(Floats x) {
#if CAUSEWAY_X86_LEVEL >= 2
  constexpr auto kAll = static_cast<uint16_t>(-1);
  constexpr int kNotLess = 5, kAsRounded = 4;
  const uint16_t is_normal = __builtin_ia32_cmpps512_mask(x, Floats(-126.0f), kNotLess, kAll, kAsRounded);  // or NaN
#endif
  x = larger(Floats(-127.0f), x);
  const Floats whole = __builtin_elementwise_roundeven(x);
  const Floats f = x - whole;
  Floats y;
  if constexpr (sizeof(Operand) == 2) {
    y = Floats(0x1.3997d6p-7f);
    y = multiply_add(y, f, Floats(0x1.ca1442p-5f));
    y = multiply_add(y, f, Floats(0x1.ec06dap-3f));
    y = multiply_add(y, f, Floats(0x1.62e0dcp-1f));
    y = multiply_add(y, f, Floats(0x1.ffffe8p-1f));
  } else {
    y = Floats(0x1.5c08e6p-10f);
    y = multiply_add(y, f, Floats(0x1.3d0c54p-7f));
    y = multiply_add(y, f, Floats(0x1.c6b6e4p-5f));
    y = multiply_add(y, f, Floats(0x1.ebf918p-3f));
    y = multiply_add(y, f, Floats(0x1.62e428p-1f));
    y = multiply_add(y, f, Floats(0x1.000002p+0f));
  }
#if CAUSEWAY_X86_LEVEL >= 2
  return __builtin_ia32_scalefps512_mask(y, whole, Floats(0.0f), is_normal, kAsRounded);
#else
  using Ints = Vector<int32_t, 16>;
  const Ints exponent = __builtin_convertvector(x == x ? whole : Floats(0.0f), Ints);
  return y * __builtin_bit_cast(Floats, (exponent + 127) << 23);
#endif
}

// log2 of positive finite lanes, absolute error about 1e-7; 0 gives -inf. The series of 2 atanh((m - 1) / (m + 1)) on
// mantissas m in [1/sqrt(2), sqrt(2)).
CAUSEWAY_INLINE Floats log2(Floats x) {
  using Ints = Vector<int32_t, 16>;
  const Ints bits = __builtin_bit_cast(Ints, x);
  const Ints exponent = (bits - 0x3f3504f3) >> 23;
  const Floats mantissa = __builtin_bit_cast(Floats, bits - (exponent << 23));
  const Floats s = (mantissa - 1.0f) / (mantissa + 1.0f);
  const Floats square = s * s;
  Floats y = Floats(2.0f / 9.0f);
  y = multiply_add(y, square, Floats(2.0f / 7.0f));
  y = multiply_add(y, square, Floats(2.0f / 5.0f));
  y = multiply_add(y, square, Floats(2.0f / 3.0f));
  y = multiply_add(y, square, Floats(2.0f));
  const Floats result = multiply_add(y * s, Floats(kLog2E), __builtin_convertvector(exponent, Floats));
  const Floats nan_or_infinity = x + x;
  return x == 0.0f ? Floats(-kInfinity) : (x < kInfinity ? result : nan_or_infinity);
}

// Four rows folded at once: lanes 4r to 4r + 3 of the result hold `fold` over the lanes of row r, in a fixed order.
template <class Fold>
CAUSEWAY_INLINE Floats fold_rows(Floats row0, Floats row1, Floats row2, Floats row3, Fold fold) {
  const Floats first =
      fold(__builtin_shufflevector(row0, row1, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
           __builtin_shufflevector(row0, row1, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
  const Floats second =
      fold(__builtin_shufflevector(row2, row3, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
           __builtin_shufflevector(row2, row3, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31));
  Floats all = fold(__builtin_shufflevector(first, second, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                    __builtin_shufflevector(first, second, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31));
  all = fold(all, __builtin_shufflevector(all, all, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return fold(all, __builtin_shufflevector(all, all, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
}

template <class T>
inline constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<bf16> = true;

// Elements in a packed word.
template <class Operand>
constexpr int kPack = kIsBf16<Operand> && (kHasPairDot || kHasMatrixTiles) ? 2 : 1;

// Whether GEMMs go through matrix registers: those whose contractions are of whole registers, 32 elements.
template <class Operand>
constexpr bool use_matrix_tiles(int lane_width, int block) {
  return kHasMatrixTiles && kIsBf16<Operand> && lane_width % 32 == 0 && block % 32 == 0;
}

#if CAUSEWAY_X86_LEVEL >= 3
using Bf16Vector = Vector<__bf16, 32>;
CAUSEWAY_INLINE Bf16Vector narrow(Floats low, Floats high) { return __builtin_ia32_cvtne2ps2bf16_512(high, low); }
#endif

// The words of one element each: float, or bf16 kept as a float.
template <class Operand>
CAUSEWAY_INLINE Words single_words(Floats lanes) {
  Words bits = __builtin_bit_cast(Words, lanes);
  if constexpr (kIsBf16<Operand>) {
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
#if CAUSEWAY_X86_LEVEL == 1
    bits = lanes != lanes ? bits : rounded;  // AVX2 compares no unsigned integers
#else
    bits = (bits & 0x7fffffffu) > 0x7f800000u ? bits : rounded;
#endif
  }
  return bits;
}

// Packs `kCount` floats, a multiple of 16 * kPack, into kCount / kPack words in order.
template <class Operand, int kCount>
CAUSEWAY_INLINE void pack_along(uint32_t* to, const float* from) {
  static_assert(kCount % (16 * kPack<Operand>) == 0);
  if constexpr (kPack<Operand> == 2) {
#if CAUSEWAY_X86_LEVEL >= 3
    for (int i = 0; i < kCount; i += 32) {
      store_words(to + i / 2, __builtin_bit_cast(Words, narrow(load_floats(from + i), load_floats(from + i + 16))));
    }
#else
    for (int i = 0; i < kCount; i += 32) {
      const Words low = single_words<bf16>(load_floats(from + i)),
                  high = single_words<bf16>(load_floats(from + i + 16));
      const Words even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const Words odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
      store_words(to + i / 2, even >> 16 | odd);
    }
#endif
  } else {
    for (int i = 0; i < kCount; i += 16) store_words(to + i, single_words<Operand>(load_floats(from + i)));
  }
}

// The words whose elements are (row0[lane], row1[lane]).
CAUSEWAY_INLINE Words pair_words(Floats row0, Floats row1) {
#if CAUSEWAY_X86_LEVEL >= 3
  const Bf16Vector both = narrow(row0, row1);
  return __builtin_bit_cast(
      Words, __builtin_shufflevector(both, both, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25,
                                     10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
#else
  return single_words<bf16>(row0) >> 16 | single_words<bf16>(row1);
#endif
}

// Calls load(d) for the kDim elements of a row, in a loop the compiler can vectorise, and clears the rest up to kWidth.
template <int kDim, int kWidth, class Load>
CAUSEWAY_INLINE void load_row(float* __restrict row, Load load) {
  for (int d = 0; d < kDim; ++d) row[d] = load(d);
  for (int d = kDim; d < kWidth; ++d) row[d] = 0.0f;
}

// Transposes 16 rows of 16 words in place.
CAUSEWAY_INLINE void transpose_block(Words (&block)[16]) {
#pragma clang loop unroll(full)
  for (int stage = 0; stage < 4; ++stage) {
    Words mixed[16];
#pragma clang loop unroll(full)
    for (int i = 0; i < 8; ++i) {
      mixed[2 * i] =
          __builtin_shufflevector(block[i], block[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      mixed[2 * i + 1] =
          __builtin_shufflevector(block[i], block[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < 16; ++i) block[i] = mixed[i];
  }
}

// Packs rows 0 to count - 1, given by fill(row, float*) with kWidth floats each, for contraction along the row:
// word (w, row) goes to [w][kRows]. Rows from count to kRows are zero. kDepth words of a row are kept.
template <class Operand, int kWidth, int kDepth, int kRows, class Fill>
CAUSEWAY_INLINE void pack_transposed(uint32_t* to, int count, Fill fill) {
  constexpr int kWords = kWidth / kPack<Operand>;
  alignas(64) float row[kWidth];
  alignas(64) uint32_t words[16][kWords];
  for (int group = 0; group < kRows; group += 16) {
    for (int i = 0; i < 16; ++i) {
      if (group + i < count) {
        fill(group + i, row);
        pack_along<Operand, kWidth>(words[i], row);
      } else {
        clear(words[i], kWords);
      }
    }
    for (int w = 0; w < kDepth; w += 16) {
      Words block[16];
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i) block[i] = load_words(&words[i][w]);
      transpose_block(block);
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i) {
        if (w + i < kDepth) store_words(to + (w + i) * kRows + group, block[i]);
      }
    }
  }
}

// Packs rows for contraction over the rows: the words of rows kPack * i, ... go to [i][kLanesWide].
template <class Operand, int kWidth, int kLanesWide, int kRows, class Fill>
CAUSEWAY_INLINE void pack_rows(uint32_t* to, int count, Fill fill) {
  alignas(64) float rows[kPack<Operand>][kWidth];
  for (int first = 0; first < kRows; first += kPack<Operand>) {
    for (int i = 0; i < kPack<Operand>; ++i) {
      if (first + i < count) {
        fill(first + i, rows[i]);
      } else {
        clear(rows[i], kWidth);
      }
    }
    uint32_t* packed = to + first / kPack<Operand> * kLanesWide;
    for (int lane = 0; lane < kLanesWide; lane += 16) {
      Words words;
      if constexpr (kPack<Operand> == 2) {
        words = pair_words(load_floats(rows[0] + lane), load_floats(rows[1] + lane));
      } else {
        words = single_words<Operand>(load_floats(rows[0] + lane));
      }
      store_words(packed + lane, words);
    }
  }
}

template <class Operand>
CAUSEWAY_INLINE Floats multiply_words(Words a, Words b, Floats sum) {
  if constexpr (kPack<Operand> == 2) {
#if CAUSEWAY_X86_LEVEL >= 3
    return accumulate_pairs(a, b, sum);
#else
    sum = multiply_add(__builtin_bit_cast(Floats, a << 16), __builtin_bit_cast(Floats, b << 16), sum);
    return multiply_add(__builtin_bit_cast(Floats, a & 0xffff0000u), __builtin_bit_cast(Floats, b & 0xffff0000u), sum);
#endif
  } else {
    return multiply_add(__builtin_bit_cast(Floats, a), __builtin_bit_cast(Floats, b), sum);
  }
}

// As pack_rows, then transposed for a left operand: the words of lane l go to [l][kRows / kPack].
template <class Operand, int kWidth, int kRows, class Fill>
CAUSEWAY_INLINE void pack_columns(uint32_t* to, int count, Fill fill) {
  constexpr int kWords = kRows / kPack<Operand>, kRowsOfGroup = 16 * kPack<Operand>;
  static_assert(kWords % 16 == 0 && kWidth % 16 == 0);
  alignas(64) uint32_t words[16 * kWidth];
  for (int group = 0; group < kWords; group += 16) {
    const int first = group * kPack<Operand>;
    pack_rows<Operand, kWidth, kWidth, kRowsOfGroup>(words, count - first,
                                                     [&](int i, float* row) { fill(first + i, row); });
    for (int lane = 0; lane < kWidth; lane += 16) {
      Words block[16];
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i) block[i] = load_words(words + i * kWidth + lane);
      transpose_block(block);
#pragma clang loop unroll(full)
      for (int i = 0; i < 16; ++i) store_words(to + (lane + i) * kWords + group, block[i]);
    }
  }
}

// The widest strip of vectors that divides `vectors` and whose accumulators fit the registers.
constexpr int strip_vectors(int vectors) {
  for (int width = CAUSEWAY_X86_LEVEL >= 2 ? 6 : 1; width > 1; --width) {
    if (vectors % width == 0) return width;
  }
  return 1;
}

// c[4][kColumns] = (or += with kAccumulate) a b over kDepth words. a: word (row, k) at row * row_stride + k * k_stride.
// b: [kDepth][kColumns]. c has rows of c_stride floats.
template <class Operand, int kColumns, int kDepth, bool kAccumulate>
CAUSEWAY_INLINE void multiply_strip(float* c, int64_t c_stride, const uint32_t* a, int64_t row_stride, int64_t k_stride,
                                    const uint32_t* b) {
  constexpr int kRows = kAttentionStripRows;
  constexpr int kVectors = strip_vectors(kColumns / 16);
#pragma clang loop unroll(disable)
  for (int column = 0; column < kColumns; column += kVectors * 16) {
    Floats sums[kRows][kVectors];
#pragma clang loop unroll(full)
    for (int r = 0; r < kRows; ++r) {
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = kAccumulate ? load_floats(c + r * c_stride + column + v * 16) : Floats(0.0f);
      }
    }
#pragma clang loop unroll_count(2)
    for (int k = 0; k < kDepth; ++k) {
      Words right[kVectors];
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v) right[v] = load_words(b + k * kColumns + column + v * 16);
#pragma clang loop unroll(full)
      for (int r = 0; r < kRows; ++r) {
        const Words left = Words(a[r * row_stride + k * k_stride]);
#pragma clang loop unroll(full)
        for (int v = 0; v < kVectors; ++v) sums[r][v] = multiply_words<Operand>(left, right[v], sums[r][v]);
      }
    }
#pragma clang loop unroll(full)
    for (int r = 0; r < kRows; ++r) {
#pragma clang loop unroll(full)
      for (int v = 0; v < kVectors; ++v) store_floats(c + r * c_stride + column + v * 16, sums[r][v]);
    }
  }
}

// Around the use of matrix registers, where there are any.
CAUSEWAY_INLINE void begin_tiles() {
#ifdef CAUSEWAY_MATRIX_TILES
  begin_matrix_tiles();
#endif
}
CAUSEWAY_INLINE void end_tiles() {
#ifdef CAUSEWAY_MATRIX_TILES
  end_matrix_tiles();
#endif
}

// As multiply_strip by matrix registers, for 16 rows of `a` whose words lie side by side: as many of the next 16
// columns as `kTile` has numbers. Between begin_matrix_tiles() and end_matrix_tiles().
template <int kColumns, int kDepth, bool kAccumulate, int... kTile>
CAUSEWAY_INLINE void multiply_tile_columns(float* c, int64_t c_stride, const uint32_t* a, int64_t row_stride,
                                           const uint32_t* b, LaneNumbers<int, kTile...>) {
#ifdef CAUSEWAY_MATRIX_TILES
  if constexpr (kAccumulate) {
    (matrix_tile_load<kTile>(c + kTile * 16, c_stride * 4), ...);
  } else {
    (matrix_tile_zero<kTile>(), ...);
  }
#pragma clang loop unroll(full)
  for (int k = 0; k < kDepth; k += 16) {
    matrix_tile_load<4>(a + k, row_stride * 4);
    // Registers of `b` alternate, so that one is loaded while another is multiplied.
    ((matrix_tile_load<5 + kTile % 3>(b + k * kColumns + kTile * 16, kColumns * 4),
      matrix_tile_multiply_pairs<kTile, 4, 5 + kTile % 3>()),
     ...);
  }
  (matrix_tile_store<kTile>(c + kTile * 16, c_stride * 4), ...);
#endif
}

// c[kRows][kColumns] as multiply_strip has it, for kRows of kAttentionStripRows or, by matrix registers, 16.
template <class Operand, int kRows, int kColumns, int kDepth, bool kAccumulate>
CAUSEWAY_INLINE void multiply_rows(float* c, int64_t c_stride, const uint32_t* a, int64_t row_stride,
                                   const uint32_t* b) {
  if constexpr (kRows == kAttentionStripRows) {
    multiply_strip<Operand, kColumns, kDepth, kAccumulate>(c, c_stride, a, row_stride, 1, b);
  } else {
    static_assert(kRows == 16 && kColumns % 16 == 0 && kDepth % 16 == 0);
    constexpr int kWhole = kColumns / 64 * 64, kRest = kColumns % 64 / 16;
    for (int column = 0; column < kWhole; column += 64) {
      multiply_tile_columns<kColumns, kDepth, kAccumulate>(c + column, c_stride, a, row_stride, b + column,
                                                           __make_integer_seq<LaneNumbers, int, 4>());
    }
    if constexpr (kRest > 0) {
      multiply_tile_columns<kColumns, kDepth, kAccumulate>(c + kWhole, c_stride, a, row_stride, b + kWhole,
                                                           __make_integer_seq<LaneNumbers, int, kRest>());
    }
  }
}

}  // namespace attention_tile

#pragma clang diagnostic pop
