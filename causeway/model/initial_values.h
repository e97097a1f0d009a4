// Initial weights: normal numbers that are a pure function of (seed, parameter name, element index), the same bits on
// every machine and for every number of threads. Counter-based (Philox-4x32-10) with the Box-Muller transform in double
// precision; logarithm, sine and cosine are computed here, because mathematics libraries differ in the last bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "causeway/base/thread_pool.h"

namespace causeway {

class InitialValues {
 public:
  explicit InitialValues(uint64_t seed) : seed_(seed) {}

  // Fills `values` with independent normal numbers of mean 0. About 6.7 standard deviations is the largest possible.
  void fill_normal(std::string_view name, double standard_deviation, std::span<float> values);

 private:
  uint64_t seed_;
  ThreadPool pool_;
};

}  // namespace causeway
