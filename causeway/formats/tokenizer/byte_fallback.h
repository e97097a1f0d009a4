// The tokens "<0x00>" to "<0xFF>" of SentencePiece's vocabularies, which stand for single bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

std::string byte_token(unsigned char byte);

// The byte that a token stands for; its digits may be in lower case.
std::optional<unsigned char> byte_of_token(std::string_view token);

}  // namespace causeway::formats
