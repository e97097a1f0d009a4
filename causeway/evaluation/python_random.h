// The draws of Python's random.Random, which the evaluation harness takes its few-shot examples with: the Mersenne
// Twister MT19937 (Matsumoto and Nishimura, 1998), seeded by an array, and Python's way from its numbers to samples.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::evaluation {

class PythonRandom {
 public:
  // random.Random(seed)
  explicit PythonRandom(uint64_t seed);

  // The positions that sample(population, count) takes of a list of `size`, in its order; count <= size < 2^32.
  std::vector<size_t> sample(size_t size, size_t count);

 private:
  static constexpr size_t kWords = 624;

  uint32_t next();
  // Of 0 .. limit - 1.
  uint32_t below(uint32_t limit);

  std::array<uint32_t, kWords> state_;
  size_t position_ = kWords;
};

}  // namespace causeway::evaluation
