// Splits text into the pieces that GPT-2's byte-pair encoding works on: the matches, from left to right, of
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// (openai/gpt-2, src/encoder.py) with the classes of unicode_classes.h. Bytes that are not UTF-8 count as characters
// that are neither space, letter nor number, so that every byte is in exactly one piece.
#pragma once

#include <cstddef>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

// The size in bytes (at least 1) of the piece that starts at `position`, which must be inside `text`.
size_t gpt2_piece_size(std::string_view text, size_t position);

// The smallest position >= `from` where `text` may be cut without changing its pieces: between a character that is not
// space and an ASCII space or line break. text.size() when there is none.
size_t gpt2_cut_position(std::string_view text, size_t from);

}  // namespace causeway::formats
