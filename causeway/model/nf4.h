// NF4 with double quantization (Dettmers et al., "QLoRA", arXiv 2305.14314), as bitsandbytes lays it out.
//
// Elements are taken in blocks of 64, one after another. Each block has a scale, its largest magnitude, and each
// element a code of 4 bits: which of 16 values, the quantiles of a normal distribution, is nearest to element / scale.
// Two codes are a byte, the first in its upper half. Of the scales, which are positive, their mean is taken off; what
// is left is taken in blocks of 256, each with a scale of its own, and coded in 8 bits: which of the 256 values of the
// signed dynamic code (Dettmers, arXiv 1511.04561) is nearest. So an element takes 4 + 8 / 64 + 32 / (64 x 256) bits.
//
// An element is, each operation rounded to f32,
//   nf4_values()[code] * (signed_dynamic_values()[scale code] * scale of the scale + mean)
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "causeway/base/thread_pool.h"
#include "causeway/namespaces.h"

namespace causeway::model {

inline constexpr int64_t kNf4Block = 64;         // elements that share a scale
inline constexpr int64_t kNf4ScalesBlock = 256;  // scales that share a scale

// Ascending, from -1 to 1.
const std::array<float, 16>& nf4_values();
// Ascending: seven decades of each sign, 0 and 1, in the order of bitsandbytes' codes. The codes of 8-bit moments
// (causeway/optimizer/kept_moment.h) number the same values in another order, and are computed to within their
// rounding; here all bits count.
const std::array<float, 256>& signed_dynamic_values();

struct Nf4Values {
  std::vector<uint8_t> codes;           // [elements / 2]
  std::vector<uint8_t> scale_codes;     // [elements / 64]
  std::vector<float> scales_of_scales;  // [scales / 256, rounded up]
  float mean = 0;                       // of the scales: summed in f64
};

// A multiple of kNf4Block elements, all finite.
Nf4Values quantize_nf4(std::span<const float> values, ThreadPool& pool);

}  // namespace causeway::model
