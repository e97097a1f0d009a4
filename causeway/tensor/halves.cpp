#include "causeway/tensor/halves.h"

#include <cstdint>
#include <cstring>

#include "causeway/base/error.h"

namespace causeway::tensor {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000, kNanBits = 0x7fc00000, kMagnitude = 0x7fffffff, kRoundsUp = 0x8000;

template <class T>
T load(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

std::vector<std::byte> split_halves(std::span<const std::byte> elements) {
  const size_t count = elements.size() / sizeof(uint32_t);
  std::vector<std::byte> halves(elements.size());
  for (size_t i = 0; i < count; ++i) {
    const auto bits = load<uint32_t>(elements, i);
    const bool is_nan = (bits & kMagnitude) > kInfinityBits;
    const auto upper = static_cast<uint16_t>((is_nan ? kNanBits : bits + kRoundsUp) >> 16U);
    const auto lower = static_cast<uint16_t>(bits);
    std::memcpy(halves.data() + i * sizeof upper, &upper, sizeof upper);
    std::memcpy(halves.data() + (count + i) * sizeof lower, &lower, sizeof lower);
  }
  return halves;
}

void join_halves(std::span<const std::byte> halves, size_t offset, std::span<std::byte> elements) {
  CAUSEWAY_CHECK(offset + elements.size() <= halves.size() && offset % sizeof(uint32_t) == 0);
  const std::span<const std::byte> uppers = halves.first(halves.size() / 2), lowers = halves.subspan(halves.size() / 2);
  const size_t first = offset / sizeof(uint32_t);
  for (size_t i = 0; i < elements.size() / sizeof(uint32_t); ++i) {
    const auto lower = static_cast<int32_t>(load<int16_t>(lowers, first + i));
    const uint32_t bits =
        (static_cast<uint32_t>(load<uint16_t>(uppers, first + i)) << 16U) + static_cast<uint32_t>(lower);
    std::memcpy(elements.data() + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace causeway::tensor
