#include "causeway/program/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace causeway::program {

int64_t plan_memory(std::vector<PlannedBuffer>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::pair(-buffers[a].bytes, a) < std::pair(-buffers[b].bytes, b); });
  std::vector<size_t> placed;  // by offset
  int64_t total = 0;
  for (const size_t current : order) {
    PlannedBuffer& buffer = buffers[current];
    const int64_t bytes = (buffer.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    int64_t offset = 0;
    for (const size_t other_index : placed) {
      const PlannedBuffer& other = buffers[other_index];
      if (other.last_step < buffer.first_step || buffer.last_step < other.first_step) continue;
      if (offset + bytes <= other.offset) break;
      offset = std::max(offset, other.offset + (other.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment);
    }
    buffer.offset = offset;
    total = std::max(total, offset + bytes);
    const auto position = std::upper_bound(placed.begin(), placed.end(), current,
                                           [&](size_t a, size_t b) { return buffers[a].offset < buffers[b].offset; });
    placed.insert(position, current);
  }
  return total;
}

}  // namespace causeway::program
