// Normal numbers of mean 0 that are a pure function of seed, stream and index, the same bits on every device: Philox by
// counter and the transform of Box and Muller (1958) in double precision, of operations that IEEE 754 rounds in one way
// (+, -, x, /, square root). Logarithm, sine and cosine are computed here, because mathematics libraries differ in the
// last bit. Text that includes this has kSeparateRounding (compiler.h). About 6.7 standard deviations is the largest
// possible.
//
// Four neighbouring indices share the words of a counter. A tensor's part is made where it lies.
#pragma once

#if defined(CAUSEWAY_NVIDIA) || defined(CAUSEWAY_AMD)
#include "causeway/kernels/gpu/intrinsics.h"
#else
#include "causeway/kernels/elementwise.h"
#endif
#include "causeway/kernels/normal_values_layout.h"

// -ln((word + 1) / 2^32). The mantissa is brought to [sqrt(1/2), sqrt(2)), where ln m = 2 atanh((m - 1) / (m + 1)).
CAUSEWAY_INLINE double minus_log_uniform(uint32_t word) {
  // Taking away the bits of sqrt(1/2) first makes the exponent step at sqrt(2) in place of 2.
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCD, kMantissa = (uint64_t{1} << 52) - 1;
  const uint64_t bits = __builtin_bit_cast(uint64_t, static_cast<double>(word) + 1.0) - kRootHalf;
  const double exponent = static_cast<double>(static_cast<int32_t>(bits >> 52));
  const double m = __builtin_bit_cast(double, (bits & kMantissa) + kRootHalf);
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  series = series * z + 1.0;
  constexpr double kLn2 = 0.693147180559945309417232121458176568;
  return (32 - exponent) * kLn2 - 2 * s * series;
}

struct CirclePoint {
  double x, y;
};

// Cosine and sine of word / 2^32 turns: the nearest quarter turn, and the Taylor series of what is left, at most pi/4.
CAUSEWAY_INLINE CirclePoint point_on_circle(uint32_t word) {
  constexpr double kPi = 3.141592653589793238462643383279502884;
  const uint32_t quarter = (word + 0x20000000u) >> 30;
  const double angle = static_cast<double>(static_cast<int32_t>(word - (quarter << 30))) * (2 * kPi / 4294967296.0);
  const double z = angle * angle;
  double cosine = 1.0 / 87178291200;  // 1 / 14!
  cosine = 1.0 / 479001600 - cosine * z;
  cosine = 1.0 / 3628800 - cosine * z;
  cosine = 1.0 / 40320 - cosine * z;
  cosine = 1.0 / 720 - cosine * z;
  cosine = 1.0 / 24 - cosine * z;
  cosine = 1.0 / 2 - cosine * z;
  cosine = 1.0 - cosine * z;
  double sine = 1.0 / 6227020800;  // 1 / 13!
  sine = 1.0 / 39916800 - sine * z;
  sine = 1.0 / 362880 - sine * z;
  sine = 1.0 / 5040 - sine * z;
  sine = 1.0 / 120 - sine * z;
  sine = 1.0 / 6 - sine * z;
  sine = 1.0 - sine * z;
  sine *= angle;
  const bool odd = (quarter & 1) != 0;
  const double x = odd ? sine : cosine, y = odd ? cosine : sine;
  return {quarter == 1 || quarter == 2 ? -x : x, quarter >= 2 ? -y : y};
}

// The values of a pair of words.
CAUSEWAY_INLINE void normal_pair(uint32_t radius, uint32_t angle, double deviation, float* values) {
  const double length = deviation * __builtin_sqrt(2 * minus_log_uniform(radius));
  const CirclePoint point = point_on_circle(angle);
  values[0] = static_cast<float>(length * point.x);
  values[1] = static_cast<float>(length * point.y);
}

// The words of indices 4 `group` to 4 `group` + 3.
CAUSEWAY_INLINE PhiloxWords normal_words(const NormalValuesTask& task, int64_t group) {
  return philox_4x32_10({low_word(group), high_word(group), low_word(task.stream), high_word(task.stream)},
                        low_word(task.seed), high_word(task.seed));
}

// In halves as split_weights() has them: the upper one is rounded, ties away from zero, and the lower one is what it
// lacks.
CAUSEWAY_INLINE void store_normal(const NormalValuesTask& task, void* memory, int64_t index, float value) {
  if (task.halves == 0) {
    static_cast<float*>(memory)[index] = value;
    return;
  }
  uint16_t* const upper = static_cast<uint16_t*>(memory);
  const uint32_t bits = bits_from_float(value);
  upper[index] = static_cast<uint16_t>((bits + 0x8000u) >> 16);
  upper[task.halves + index] = static_cast<uint16_t>(bits);
}

#if defined(CAUSEWAY_NVIDIA) || defined(CAUSEWAY_AMD)
// A block's part: a thread makes the four values of a group, and stores those that are of its run.
CAUSEWAY_INLINE void make_normal_values(const NormalValuesTask& task, void* memory, int64_t block) {
  const double deviation = __builtin_bit_cast(double, task.deviation_bits);
  const int64_t groups = task.groups_of_run();
  for (int i = 0; i < kNormalGroupsOfThread; ++i) {
    const int64_t number = (block * kNormalGroupsOfThread + i) * kNormalThreads + thread_index();
    if (number >= task.runs * groups) return;
    const int64_t run = number / groups, begin = task.first + run * task.stride;
    const int64_t group = begin / 4 + number % groups;
    const PhiloxWords words = normal_words(task, group);
    float values[4];
    normal_pair(words.w0, words.w1, deviation, values);
    normal_pair(words.w2, words.w3, deviation, values + 2);
#pragma clang loop unroll(full)
    for (int k = 0; k < 4; ++k) {
      const int64_t at = 4 * group + k - begin;
      if (at >= 0 && at < task.length) store_normal(task, memory, task.place + run * task.length + at, values[k]);
    }
  }
}
#else
// So many neighbouring indices as vectors are filled with.
constexpr int kNormalBlock = 256;

CAUSEWAY_INLINE void make_normal_block(const NormalValuesTask& task, int64_t block, float* values) {
  const double deviation = __builtin_bit_cast(double, task.deviation_bits);
  uint32_t radius[kNormalBlock / 2], angle[kNormalBlock / 2];
  for (int i = 0; i < kNormalBlock / 4; ++i) {
    const PhiloxWords words = normal_words(task, block * (kNormalBlock / 4) + i);
    radius[2 * i] = words.w0;
    angle[2 * i] = words.w1;
    radius[2 * i + 1] = words.w2;
    angle[2 * i + 1] = words.w3;
  }
  for (int i = 0; i < kNormalBlock / 2; ++i) normal_pair(radius[i], angle[i], deviation, values + 2 * i);
}

// A piece of the part, by one worker.
CAUSEWAY_INLINE void make_normal_values(const NormalValuesTask& task, void* memory, int64_t piece) {
  const int64_t end = minimum((piece + 1) * kNormalPiece, task.runs * task.length);
  for (int64_t i = piece * kNormalPiece; i < end;) {
    const int64_t run = i / task.length, at = i % task.length;
    const int64_t index = task.first + run * task.stride + at, offset = index % kNormalBlock;
    const int64_t count = minimum(minimum(end - i, task.length - at), kNormalBlock - offset);
    float values[kNormalBlock];
    make_normal_block(task, index / kNormalBlock, values);
    for (int64_t k = 0; k < count; ++k) store_normal(task, memory, task.place + i + k, values[offset + k]);
    i += count;
  }
}
#endif
