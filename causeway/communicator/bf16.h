// bf16 as sums of collectives read and write it, fast enough for loops over buffers.
#pragma once

#include <bit>
#include <cstdint>

#include "causeway/namespaces.h"

namespace causeway::communicator {

inline float load_bf16(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

// To nearest even. A NaN keeps its sign and upper bits and is made quiet.
inline uint16_t store_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40;
  return static_cast<uint16_t>(value != value ? quiet : rounded);
}

}  // namespace causeway::communicator
