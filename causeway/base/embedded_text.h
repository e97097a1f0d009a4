// Text files embedded in the program when it is built, by causeway_embed_text (cmake/EmbedText.cmake).
#pragma once

#include <string_view>

namespace causeway {

struct EmbeddedText {
  std::string_view path;  // in the source tree, e.g. "causeway/kernels/types.h"
  std::string_view text;  // followed by a zero byte
};

}  // namespace causeway
