// Byte-pair encoding proper: the merges, and their application to one piece of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::formats {

// Which two adjacent tokens merge, at which rank, into which token: a hash table with open addressing, sized once.
class MergeTable {
 public:
  struct Merge {
    int32_t rank = -1;  // -1: the pair does not merge
    int32_t result = -1;
  };

  explicit MergeTable(size_t merge_count);

  // False when the pair is already there. Ids must not be negative; at most `merge_count` pairs.
  bool insert(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t pair;
    Merge merge;
  };

  size_t slot_of(uint64_t pair) const;

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

// Merges `symbols` until no adjacent pair is in the table, always the pair of lowest rank and of those the leftmost,
// and appends what is left to `ids`. Time O(n log n) in the number of symbols, however long the piece.
void apply_merges(const MergeTable& merges, std::span<const int32_t> symbols, std::vector<int32_t>& ids);

}  // namespace causeway::formats
