// The Unicode character classes that byte-level tokenizers split text by.
// Letters are general category L, numbers N, spaces the White_Space property, all of Unicode 16.0; every other code
// point, assigned or not, is kOther.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

enum class CharacterClass : uint8_t { kOther = 0, kLetter = 1, kNumber = 2, kSpace = 3 };

// The class of a code point; kOther beyond U+10FFFF.
CharacterClass character_class(uint32_t code_point);

}  // namespace causeway::formats
