#include "causeway/data/utf8_checker.h"

#include <cstring>

namespace causeway::data {

size_t Utf8Checker::add(std::string_view bytes) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  for (size_t i = 0; i < bytes.size();) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (continuations_ > 0) {
      if (byte < lowest_ || byte > highest_) return i;
      --continuations_;
      lowest_ = 0x80;
      highest_ = 0xBF;
      ++i;
      continue;
    }
    if (byte < 0x80) {
      for (uint64_t eight; i + 8 <= bytes.size(); i += 8) {
        std::memcpy(&eight, bytes.data() + i, sizeof eight);
        if ((eight & kHighBits) != 0) break;
      }
      while (i < bytes.size() && static_cast<uint8_t>(bytes[i]) < 0x80) ++i;
      continue;
    }
    if (byte < 0xC2 || byte > 0xF4) return i;
    continuations_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    if (byte == 0xE0) lowest_ = 0xA0;
    if (byte == 0xED) highest_ = 0x9F;
    if (byte == 0xF0) lowest_ = 0x90;
    if (byte == 0xF4) highest_ = 0x8F;
    ++i;
  }
  return bytes.size();
}

}  // namespace causeway::data
