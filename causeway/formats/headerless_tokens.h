// Token ids in a file that says nothing of itself (a .bin without a header): how wide they are. nanoGPT's are 16 bits
// wide; Megatron's and numpy's files of 32 or 64 bits look the same from outside, and read as 16-bit ids every second
// one is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Reads the bytes at an offset of the file.
using ReadAt = std::function<void(uint64_t offset, std::span<std::byte> bytes)>;

// Looks at the beginning and at samples from all over the file. Throws Error(kUnsupported) where the file is of a known
// format that is not a stream of ids, or is text; Error(kInvalidArgument) where its content is not what 16-bit ids look
// like: ids of 32 or 64 bits, or nothing but zeros. `bytes` is the size of the file.
void require_16_bit_ids(const std::filesystem::path& path, uint64_t bytes, const ReadAt& read_at);

}  // namespace causeway::formats
