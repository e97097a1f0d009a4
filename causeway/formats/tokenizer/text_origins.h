// Where the bytes of a text came from, through normalizers and pre-tokenizers that rewrite it: which part of the text
// as it was given each token covers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Bytes [begin, end) of a text; empty for what stands for nothing of it.
struct TextSpan {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextSpan&) const = default;
};

// For each byte of a text, what it was made of.
using TextOrigins = std::vector<TextSpan>;

// Each byte of a text of `size` bytes that begins at `begin`, of itself.
TextOrigins own_origins(size_t size, size_t begin = 0);

// What bytes with these origins were made of together; of none, nothing at `at`.
TextSpan joined_origin(std::span<const TextSpan> origins, size_t at);

// The origins of `made`, which is change(text) for a function that works on parts of a text by themselves: a byte of a
// part that is not changed is of the byte in its place, one of another part of the whole of that. Parts are characters
// with the marks behind them where that gives `made`, and otherwise all of the text.
TextOrigins origins_of_parts(std::string_view text, const TextOrigins& origins, std::string_view made,
                             const std::function<std::string(std::string)>& change);

}  // namespace causeway::formats
