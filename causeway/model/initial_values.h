// Initial weights: normal numbers that are a pure function of (seed, parameter name, element index), the same bits on
// every machine and for every number of threads. Counter-based (Philox-4x32-10) with the Box-Muller transform in double
// precision; logarithm, sine and cosine are computed here, because mathematics libraries differ in the last bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "causeway/base/thread_pool.h"
#include "causeway/formats/box.h"

namespace causeway::model {

class InitialValues {
 public:
  explicit InitialValues(uint64_t seed) : seed_(seed) {}

  // Fills `values` with one box of a tensor of independent normal numbers of mean 0, row-major: the same numbers
  // whatever boxes the tensor is made in. About 6.7 standard deviations is the largest possible.
  void fill_normal(std::string_view name, double standard_deviation, std::span<const int64_t> shape, const Box& box,
                   std::span<float> values);

  // Memory for the values of one parameter, valid until the next call. It is kept, since touching fresh pages for every
  // parameter takes as long as computing the values.
  std::span<float> buffer(size_t count) {
    if (buffer_.size() < count) buffer_.resize(count);
    return std::span<float>(buffer_).first(count);
  }

 private:
  std::vector<float> buffer_;
  uint64_t seed_;
  ThreadPool pool_;
};

}  // namespace causeway::model
