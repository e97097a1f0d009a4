// Rows of groups that follow each other (grouped_dot), for kernels of every device and the host that launches them:
// which tile of rows a task has. Sizes of groups are data: there are as many tasks as any sizes can need, and a task
// finds its tile from the groups' offsets.
#pragma once

#include "causeway/kernels/types.h"

// Tiles that `groups` groups of together at most `rows` rows, and the rows of no group behind them, can have in one
// slab: a tile has rows of one group, and only the last one of a group has fewer than `tile`.
constexpr int64_t grouped_row_tiles(int64_t rows, int64_t groups, int64_t tile) {
  return (rows + tile - 1) / tile + groups;
}

// Rows begin .. end - 1 of a slab.
struct GroupRows {
  int64_t begin, end;
};

// Rows of the group; offset(i): element i of the slab's line of offsets. Whatever it says, they are rows of the slab.
template <class Offset>
CAUSEWAY_INLINE GroupRows rows_of_group(int64_t group, int64_t rows, const Offset& offset) {
  const int64_t first = offset(group), last = offset(group + 1);
  const int64_t begin = first < 0 ? 0 : first < rows ? first : rows;
  return {begin, last < begin ? begin : last < rows ? last : rows};
}

struct GroupTile {
  int64_t group;       // `groups`: rows of no group
  int64_t begin, end;  // from the tile's first row to the group's end; equal: the task has nothing to do
};

// The tile of number `tile` of a slab.
template <class Offset>
CAUSEWAY_INLINE GroupTile find_group_tile(int64_t tile, int64_t tile_rows, int64_t groups, int64_t rows,
                                          const Offset& offset) {
  int64_t begin = 0;
#pragma clang loop unroll(disable)
  for (int64_t group = 0; group <= groups; ++group) {
    int64_t end = group < groups ? offset(group + 1) : rows;
    end = end < begin ? begin : end < rows ? end : rows;
    const int64_t tiles = (end - begin + tile_rows - 1) / tile_rows;
    if (tile < tiles) return {group, begin + tile * tile_rows, end};
    tile -= tiles;
    begin = end;
  }
  return {groups, rows, rows};
}
