#include "causeway/model/initial_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "causeway/base/error.h"
#include "causeway/base/hash.h"
#include "causeway/graph/philox.h"

namespace causeway::model {
namespace {

// Fused multiply-adds, where the compiler would use them, round differently.
#pragma STDC FP_CONTRACT OFF

constexpr size_t kBlock = 256;         // values computed together; four a Philox call
constexpr size_t kPairs = kBlock / 2;  // two words give two values
constexpr size_t kTaskBlocks = 64;

// -ln((word + 1) / 2^32). The mantissa is brought to [sqrt(1/2), sqrt(2)), where ln m = 2 atanh((m - 1) / (m + 1)).
inline double minus_log_uniform(uint32_t word) {
  // Taking away the bits of sqrt(1/2) first makes the exponent step at sqrt(2) in place of 2.
  constexpr uint64_t kRootHalf = 0x3FE6A09E667F3BCD, kMantissa = (uint64_t{1} << 52) - 1;
  const uint64_t bits = std::bit_cast<uint64_t>(static_cast<double>(word) + 1.0) - kRootHalf;
  const double exponent = static_cast<double>(static_cast<int32_t>(bits >> 52));
  const double m = std::bit_cast<double>((bits & kMantissa) + kRootHalf);
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 1.0 / 15;
  for (const double coefficient : {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0})
    series = series * z + coefficient;
  return (32 - exponent) * std::numbers::ln2 - 2 * s * series;
}

struct Point {
  double x, y;
};

// Cosine and sine of word / 2^32 turns: the nearest quarter turn, and the Taylor series of what is left, at most pi/4.
inline Point on_circle(uint32_t word) {
  const uint32_t quarter = (word + 0x20000000u) >> 30;
  const double angle =
      static_cast<double>(static_cast<int32_t>(word - (quarter << 30))) * (2 * std::numbers::pi / 4294967296.0);
  const double z = angle * angle;
  double cosine = 1.0 / 87178291200, sine = 1.0 / 6227020800;  // 1 / 14! and 1 / 13!
  for (const double inverse : {1.0 / 479001600, 1.0 / 3628800, 1.0 / 40320, 1.0 / 720, 1.0 / 24, 1.0 / 2, 1.0})
    cosine = inverse - cosine * z;
  for (const double inverse : {1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6, 1.0})
    sine = inverse - sine * z;
  sine *= angle;
  const bool odd = (quarter & 1) != 0;
  const double x = odd ? sine : cosine, y = odd ? cosine : sine;
  return {quarter == 1 || quarter == 2 ? -x : x, quarter >= 2 ? -y : y};
}

void fill_block(uint64_t block, std::array<uint32_t, 2> key, uint64_t stream, double deviation, float* values) {
  uint32_t radius[kPairs], angle[kPairs];
  for (size_t i = 0; i < kPairs / 2; ++i) {
    const uint64_t counter = block * (kBlock / 4) + i;
    const std::array<uint32_t, 4> words =
        philox_4x32_10({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                        static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)},
                       key);
    radius[2 * i] = words[0];
    angle[2 * i] = words[1];
    radius[2 * i + 1] = words[2];
    angle[2 * i + 1] = words[3];
  }
  for (size_t i = 0; i < kPairs; ++i) {
    const double length = deviation * std::sqrt(2 * minus_log_uniform(radius[i]));
    const Point point = on_circle(angle[i]);
    values[2 * i] = static_cast<float>(length * point.x);
    values[2 * i + 1] = static_cast<float>(length * point.y);
  }
}

// The elements of a box, which lie in the tensor as runs of neighbours.
class BoxRuns {
 public:
  BoxRuns(std::span<const int64_t> shape, const Box& box) : box_(box), strides_(shape.size(), 1) {
    for (size_t d = shape.size(); d-- > 1;) strides_[d - 1] = strides_[d] * static_cast<size_t>(shape[d]);
    // The last dimensions that the box has whole, and one more.
    dims_ = shape.size();
    while (dims_ > 0) {
      --dims_;
      length_ *= static_cast<size_t>(box.shape[dims_]);
      if (box.shape[dims_] != shape[dims_]) break;
    }
  }
  size_t length() const { return length_; }
  // Of the element of this index in the box.
  size_t index_in_tensor(size_t index) const {
    size_t run = index / length_, result = index % length_;
    for (size_t d = box_.shape.size(); d-- > 0;) {
      result += static_cast<size_t>(box_.offset[d]) * strides_[d];
      if (d >= dims_) continue;
      const auto size = static_cast<size_t>(box_.shape[d]);
      result += run % size * strides_[d];
      run /= size;
    }
    return result;
  }

 private:
  const Box& box_;
  std::vector<size_t> strides_;
  size_t dims_ = 0;  // that count runs
  size_t length_ = 1;
};

}  // namespace

void InitialValues::fill_normal(std::string_view name, double standard_deviation, std::span<const int64_t> shape,
                                const Box& box, std::span<float> values) {
  CAUSEWAY_CHECK(box_inside(box, shape) && checked_volume(box.shape) == values.size(), "{}: box {}", name,
                 describe_box(box));
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)};
  const uint64_t stream = hash_text(name).low;
  const BoxRuns runs(shape, box);
  constexpr size_t kTask = kBlock * kTaskBlocks;
  pool_.run(static_cast<int64_t>((values.size() + kTask - 1) / kTask), [&](int64_t task, int) {
    const size_t end = std::min(values.size(), (static_cast<size_t>(task) + 1) * kTask);
    for (size_t begin = static_cast<size_t>(task) * kTask; begin < end;) {
      const size_t index = runs.index_in_tensor(begin), offset = index % kBlock;
      const size_t count = std::min({end - begin, runs.length() - begin % runs.length(), kBlock - offset});
      if (count == kBlock) {
        fill_block(index / kBlock, key, stream, standard_deviation, values.data() + begin);
      } else {
        float part[kBlock];
        fill_block(index / kBlock, key, stream, standard_deviation, part);
        std::copy_n(part + offset, count, values.data() + begin);
      }
      begin += count;
    }
  });
}

}  // namespace causeway::model
