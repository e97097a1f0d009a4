// What the blocks of a launch of attention on Hopper do, in which order.
#pragma once

#include "causeway/kernels/types.h"

namespace attention_hopper {

// A task for each tile of `lines` lines of each head, first those with the most to do under a causal mask. Blocks take
// them in this order, each the next one when it has room for it. All blocks go over the others of their heads at about
// the same time: where those of all heads are more than the cache holds, heads come in sections, of as many as fit
// where tasks take as long as each other or many heads fit, and otherwise where few blocks would have the same others,
// of as few as blocks get even shares of. Blocks that add to what their others get, in the order of their lines, have
// sections of three rounds where sequences are long: what neighbours add to is in the cache still when it is their
// turn.
template <class P>
struct TaskOrder {
  static constexpr int64_t kCachedBytes = int64_t{24} << 20;
  static constexpr int32_t kRounds = 3, kManyHeads = 16, kEvenRounds = 6, kFewBlocks = 4;
  static constexpr int32_t kManyTiles = 256;
  int32_t heads, tiles, section;

  // Of a launch of `blocks`. Heads are of all sequences; `shared` of them have the same others, of other_bytes.
  // in_order: blocks add to what others get, by turns.
  CAUSEWAY_INLINE TaskOrder(int blocks, int64_t all_heads, int64_t shared, int64_t length, int lines,
                            int64_t other_bytes, bool in_order = false)
      : heads(static_cast<int32_t>(all_heads)), tiles(static_cast<int32_t>((length + lines - 1) / lines)) {
    const int64_t groups = all_heads / shared, bytes = groups * other_bytes;
    const int32_t tasks = count();
    int64_t sections = 1;
    if (bytes > 2 * kCachedBytes) {
      const bool many_fit = other_bytes * kManyHeads <= kCachedBytes;
      const bool ordered = in_order && P::kHasMask && tiles >= kManyTiles;
      if (!ordered && (!P::kHasMask || many_fit)) {
        const int64_t most = P::kHasMask ? tasks / (kRounds * blocks) : groups;
        sections = (bytes + kCachedBytes - 1) / kCachedBytes;
        if (sections > most) sections = most > 1 ? most : 1;
      } else if (ordered || groups * kFewBlocks > blocks) {
        sections = tasks / ((ordered ? kRounds : kEvenRounds) * blocks);
        if (sections > groups) sections = groups;
        if (sections < 1) sections = 1;
      }
    }
    section = static_cast<int32_t>((groups + sections - 1) / sections * shared);
  }

  CAUSEWAY_INLINE int32_t count() const { return heads * tiles; }

  // Tiles in the order of what there is to do: 0 has the most. False where there is no such task.
  CAUSEWAY_INLINE bool locate(int32_t task, int32_t& head, int32_t& tile) const {
    if (task >= count()) return false;
    const int32_t first = task / (section * tiles) * section, rest = task % (section * tiles);
    const int32_t together = heads - first < section ? heads - first : section;
    tile = rest / together;
    head = first + rest % together;
    return true;
  }
};

// Queries shared out among tiles of `groups` warpgroups' 64. Where they do not fill all tiles, the first ones, which
// see the fewest keys under a causal mask, leave one warpgroup idle: 1,024 queries are 2 x 128 and 4 x 192, not 5 x 192
// and 64, for which one warpgroup alone would go over all keys.
class QueryTiles {
 public:
  CAUSEWAY_INLINE QueryTiles(int64_t length, int groups) : groups_(groups) {
    const auto parts = static_cast<int32_t>((length + 63) / 64);
    shorter_ = (parts + groups - 1) / groups * groups - parts;
  }
  CAUSEWAY_INLINE int32_t first_of(int32_t tile) const {
    return 64 * (groups_ * tile - (tile < shorter_ ? tile : shorter_));
  }
  // Whether the tile that begins with query `first` leaves the last warpgroup idle.
  CAUSEWAY_INLINE bool is_shorter(int32_t first) const { return first < 64 * (groups_ - 1) * shorter_; }

 private:
  int32_t groups_, shorter_;
};

}  // namespace attention_hopper
