// The index that Megatron (NVIDIA/Megatron-LM, megatron/core/datasets/indexed_dataset.py) writes beside a file of token
// ids: NAME.idx beside NAME.bin. Little-endian: "MMIDIDX\0\0", u64 version 1, u8 type of the ids, u64 sequences, u64
// entries of the document index, i32 length of each sequence, i64 offset of each in the .bin, i64 document index (the
// first sequence of each document, and at last the number of sequences).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

struct MegatronIndex {
  int token_bytes = 0;  // 1, 2 or 4, unsigned or never negative
  uint64_t token_count = 0;
  std::vector<uint64_t> document_starts;  // the index of each document's first token, increasing; without empty ones
};

// The index beside `bin`, a file of `bin_bytes`; nothing where there is no .idx or one that does not begin as
// Megatron's. Throws Error naming the .idx where it is damaged, does not describe a file of that size, or has ids of a
// type that is not read.
std::optional<MegatronIndex> read_megatron_index(const std::filesystem::path& bin, uint64_t bin_bytes);

}  // namespace causeway::formats
