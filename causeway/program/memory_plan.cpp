#include "causeway/program/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace causeway::program {
namespace {

// The first and the last use in each queue that has any: they decide for those between them.
struct Span {
  InstructionOrder::Position first, last;
};

std::vector<Span> spans_by_queue(const PlannedBuffer& buffer, const InstructionOrder& order) {
  std::vector<Span> spans;
  std::vector<DeviceQueue> queues;
  for (const InstructionOrder::Position use : buffer.uses) {
    const auto known = std::find(queues.begin(), queues.end(), order.queue_of(use));
    if (known == queues.end()) {
      queues.push_back(order.queue_of(use));
      spans.push_back({use, use});
    } else {
      spans[static_cast<size_t>(known - queues.begin())].last = use;
    }
  }
  return spans;
}

bool ended_before(const std::vector<Span>& first, const std::vector<Span>& second, const InstructionOrder& order) {
  return std::all_of(first.begin(), first.end(), [&](const Span& a) {
    return std::all_of(second.begin(), second.end(), [&](const Span& b) { return order.before(a.last, b.first); });
  });
}

int64_t aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

}  // namespace

int64_t plan_memory(std::span<PlannedBuffer> buffers, const InstructionOrder& order) {
  std::vector<std::vector<Span>> spans;
  spans.reserve(buffers.size());
  for (const PlannedBuffer& buffer : buffers) spans.push_back(spans_by_queue(buffer, order));
  std::vector<size_t> by_size(buffers.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::sort(by_size.begin(), by_size.end(),
            [&](size_t a, size_t b) { return std::pair(-buffers[a].bytes, a) < std::pair(-buffers[b].bytes, b); });
  std::vector<size_t> placed;  // by offset
  int64_t total = 0;
  for (const size_t current : by_size) {
    PlannedBuffer& buffer = buffers[current];
    const int64_t bytes = aligned(buffer.bytes);
    int64_t offset = 0;
    for (const size_t other : placed) {
      if (ended_before(spans[other], spans[current], order) || ended_before(spans[current], spans[other], order))
        continue;
      if (offset + bytes <= buffers[other].offset) break;
      offset = std::max(offset, buffers[other].offset + aligned(buffers[other].bytes));
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
