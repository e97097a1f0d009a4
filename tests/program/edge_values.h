// Values at the edges of each dtype, and every pair and triple of them, for comparing devices with the reference
// interpreter.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "causeway/graph/host_tensor.h"

namespace causeway::program {

struct FloatEdges {
  double largest, smallest_normal, smallest;
};

inline FloatEdges float_edges(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return {0x1.fep127, 0x1p-126, 0x1p-133};
    case DType::kF16:
      return {65504, 0x1p-14, 0x1p-24};
    case DType::kF8E4M3:
      return {448, 0x1p-6, 0x1p-9};
    case DType::kF8E5M2:
      return {57344, 0x1p-14, 0x1p-16};
    default:
      return {0x1.fffffep127, 0x1p-126, 0x1p-149};
  }
}

// Zeros of both signs, infinities, NaN, subnormals, halves, the largest and the smallest, and where functions turn
// (exp2 at +-126 to 150, tanh at 9, erf at 4); of integers their ends, -1, 0, 1 and widths of types.
inline std::vector<double> edge_values(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  std::vector<double> values;
  if (!is_float(dtype)) {
    for (const double value : {0., 1., 2., 3., 7., 8., 31., 32., 33., 63., 64., 127., 128., 255., 65536.}) {
      values.push_back(value);
      if (dtype != DType::kU8) values.push_back(-value);
    }
    if (dtype != DType::kU8)
      for (const double value : {2147483646., 2147483647., -2147483647., -2147483648.}) values.push_back(value);
    if (dtype == DType::kI64)
      for (const double value : {2147483648., -2147483649., 4294967296., 4294967297., -4294967295., 0x1p53, -0x1p53,
                                 0x1p62, 0x1.fffffffffffffp62, 0x1p63, -0x1p63})
        values.push_back(value);
    for (double& value : values) value = round_to_dtype(dtype, value + 0.0);
  } else {
    const FloatEdges edges = float_edges(dtype);
    for (const double magnitude : {0.,
                                   edges.smallest,
                                   2 * edges.smallest,
                                   edges.smallest_normal - edges.smallest,
                                   edges.smallest_normal,
                                   1.5 * edges.smallest_normal,
                                   1e-30,
                                   1e-5,
                                   0.25,
                                   0.5,
                                   0.75,
                                   1.,
                                   1 + 0x1p-7,
                                   1.5,
                                   2.,
                                   2.5,
                                   3.,
                                   3.5,
                                   4.2,
                                   9.2,
                                   16.5,
                                   88.5,
                                   126.,
                                   127.5,
                                   128.,
                                   149.,
                                   150.,
                                   4194304.5,
                                   8388609.,
                                   edges.largest / 2,
                                   edges.largest,
                                   std::numeric_limits<double>::infinity()})
      for (const double value : {magnitude, -magnitude}) values.push_back(round_to_dtype(dtype, value));
    values.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  // Rounding has made some of them equal.
  std::vector<double> distinct;
  for (const double value : values) {
    const auto same = [&](double other) {
      return (std::isnan(other) && std::isnan(value)) || (other == value && std::signbit(other) == std::signbit(value));
    };
    if (std::none_of(distinct.begin(), distinct.end(), same)) distinct.push_back(value);
  }
  return distinct;
}

// Where conversions round or saturate: ties between neighbours of the narrow types and just beside them, in f32.
inline std::vector<double> conversion_edges() {
  std::vector<double> values;
  const auto around = [&](double value) {
    const float exact = static_cast<float>(value);
    for (const float near : {exact, std::nextafter(exact, 0.0f), std::nextafter(exact, 2 * exact)})
      for (const float x : {near, -near}) values.push_back(x);
  };
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2}) {
    const FloatEdges edges = float_edges(dtype);
    const double unit = dtype == DType::kBF16     ? 0x1p-7
                        : dtype == DType::kF16    ? 0x1p-10
                        : dtype == DType::kF8E4M3 ? 0x1p-3
                                                  : 0x1p-2;  // of the last place at 1
    for (const double scale : {1.0, 2.0, 8.0}) {
      around(scale * (1 + unit / 2));
      around(scale * (1 + 3 * unit / 2));
    }
    for (const double steps : {0.5, 1.0, 1.5, 2.5}) around(steps * edges.smallest);
    around(edges.smallest_normal - edges.smallest / 2);
    around(edges.largest);
    // Half a step beyond the largest is where rounding gives infinity.
    const double step = std::ldexp(unit, std::ilogb(edges.largest));
    if (edges.largest + step / 2 < 0x1p128) around(edges.largest + step / 2);
    if (edges.largest + step < 0x1p128) around(edges.largest + step);
  }
  for (const double integer : {0.5, 1.5, 2.5, 255.5, 256.0, 2147483648.0, 9223372036854775808.0}) around(integer);
  return values;
}

// Each of `values` with each, `arity` at a time: tensor i holds the i-th of every combination.
inline std::vector<HostTensor> combinations(DType dtype, const std::vector<double>& values, int arity) {
  size_t count = 1;
  for (int i = 0; i < arity; ++i) count *= values.size();
  std::vector<HostTensor> tensors;
  size_t repeat = 1;
  for (int i = 0; i < arity; ++i) {
    HostTensor tensor = fill_host_tensor(dtype, {static_cast<int64_t>(count)}, 0);
    for (size_t j = 0; j < count; ++j) tensor.values[j] = values[j / repeat % values.size()];
    repeat *= values.size();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace causeway::program
