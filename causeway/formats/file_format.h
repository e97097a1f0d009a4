// What a file is, told by its first bytes: so that what is not text is not tokenized, and what is not a stream of token
// ids is not trained on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "causeway/namespaces.h"

namespace causeway::formats {

// How many of the first bytes the functions below want to see; fewer are enough where the file has no more.
constexpr size_t kFormatHeadBytes = size_t{1} << 16;

// The format that begins with these bytes, as a message names it ("a Parquet table"), among those that hold no text:
// archives, tables, tensors, images, programs, token shards. Empty for any other beginning, text included.
// `file_bytes` is the size of the whole file, 0 where it is not known.
std::string_view binary_format(std::string_view head, uint64_t file_bytes);

enum class Compression { kNone, kGzip, kZstd };
Compression compression_of(std::string_view head);

// Text in UTF-16 or UTF-32 with a byte order mark: its name, "UTF-16" or "UTF-32"; else empty.
std::string_view wide_text_encoding(std::string_view head);

// The byte order mark that some programs begin UTF-8 with; it is no part of the text.
constexpr std::string_view kUtf8ByteOrderMark = "\xEF\xBB\xBF";

}  // namespace causeway::formats
