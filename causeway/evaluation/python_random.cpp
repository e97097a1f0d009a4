#include "causeway/evaluation/python_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "causeway/base/error.h"

namespace causeway::evaluation {

PythonRandom::PythonRandom(uint64_t seed) {
  state_[0] = 19650218;
  for (uint32_t i = 1; i < kWords; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  const uint32_t length = key[1] != 0 ? 2 : 1;
  uint32_t i = 1;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (uint32_t k = 0, j = 0; k < kWords; ++k, j = (j + 1) % length) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1664525u)) + key[j] + j;
    advance();
  }
  for (uint32_t k = 1; k < kWords; ++k) {
    state_[i] = (state_[i] ^ ((state_[i - 1] ^ (state_[i - 1] >> 30)) * 1566083941u)) - i;
    advance();
  }
  state_[0] = 0x80000000u;
}

uint32_t PythonRandom::next() {
  if (position_ == kWords) {
    constexpr size_t kMiddle = 397;
    for (size_t k = 0; k < kWords; ++k) {
      const uint32_t y = (state_[k] & 0x80000000u) | (state_[(k + 1) % kWords] & 0x7FFFFFFFu);
      state_[k] = state_[(k + kMiddle) % kWords] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908B0DFu : 0);
    }
    position_ = 0;
  }
  uint32_t y = state_[position_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9D2C5680u;
  y ^= (y << 15) & 0xEFC60000u;
  return y ^ (y >> 18);
}

uint32_t PythonRandom::below(uint32_t limit) {
  const int bits = std::bit_width(limit);
  uint32_t drawn = 0;
  do drawn = next() >> (32 - bits);
  while (drawn >= limit);
  return drawn;
}

std::vector<size_t> PythonRandom::sample(size_t size, size_t count) {
  CAUSEWAY_CHECK(count <= size && size < (uint64_t{1} << 32));
  std::vector<size_t> chosen;
  // Python keeps a list of what is left, or a set of what is taken, whichever it takes to be smaller; the two draw
  // differently.
  double set_size = 21;
  if (count > 5) set_size += std::pow(4, std::ceil(std::log(static_cast<double>(count) * 3) / std::log(4.0)));
  if (static_cast<double>(size) <= set_size) {
    std::vector<size_t> left(size);
    std::iota(left.begin(), left.end(), size_t{0});
    for (size_t i = 0; i < count; ++i) {
      const size_t drawn = below(static_cast<uint32_t>(size - i));
      chosen.push_back(left[drawn]);
      left[drawn] = left[size - i - 1];
    }
    return chosen;
  }
  std::set<size_t> taken;
  while (chosen.size() < count) {
    const size_t drawn = below(static_cast<uint32_t>(size));
    if (taken.insert(drawn).second) chosen.push_back(drawn);
  }
  return chosen;
}

}  // namespace causeway::evaluation
