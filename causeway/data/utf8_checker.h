// Whether bytes that arrive in pieces are UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing beyond U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::data {

class Utf8Checker {
 public:
  // The index in `bytes` of the first byte that cannot follow those before it; bytes.size() where there is none.
  size_t add(std::string_view bytes);
  // Whether the bytes so far end with a whole character.
  bool is_complete() const { return continuations_ == 0; }

 private:
  int continuations_ = 0;  // bytes to come of the character begun
  uint8_t lowest_ = 0x80;  // what the next of them may be
  uint8_t highest_ = 0xBF;
};

}  // namespace causeway::data
