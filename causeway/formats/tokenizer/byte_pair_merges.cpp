#include "causeway/formats/tokenizer/byte_pair_merges.h"

#include <algorithm>
#include <bit>

#include "causeway/base/error.h"

namespace causeway::formats {
namespace {

constexpr uint64_t kEmptySlot = ~uint64_t{0};

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

struct Symbol {
  int32_t id;
  int32_t previous;
  int32_t next;
};

struct MergeCandidate {
  int32_t rank;
  int32_t position;
  int32_t left;
  int32_t right;
  int32_t result;
};

bool comes_later(const MergeCandidate& a, const MergeCandidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

MergeTable::MergeTable(size_t merge_count)
    : slots_(std::bit_ceil(2 * merge_count + 2), Slot{kEmptySlot, Merge{}}), mask_(slots_.size() - 1) {}

size_t MergeTable::slot_of(uint64_t pair) const {
  size_t slot = (pair * 0x9E3779B97F4A7C15) >> 20 & mask_;
  while (slots_[slot].pair != pair && slots_[slot].pair != kEmptySlot) slot = (slot + 1) & mask_;
  return slot;
}

bool MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  CAUSEWAY_CHECK(left >= 0 && right >= 0);
  const uint64_t pair = pair_key(left, right);
  Slot& slot = slots_[slot_of(pair)];
  if (slot.pair == pair) return false;
  slot = {pair, merge};
  return true;
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_key(left, right))].merge;
}

void apply_merges(const MergeTable& merges, std::span<const int32_t> symbols, std::vector<int32_t>& ids) {
  const auto count = static_cast<int32_t>(symbols.size());
  thread_local std::vector<Symbol> list;
  thread_local std::vector<MergeCandidate> heap;
  list.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i) list.push_back({symbols[static_cast<size_t>(i)], i - 1, i + 1});
  const auto at = [](int32_t position) -> Symbol& { return list[static_cast<size_t>(position)]; };
  const auto candidate_at = [&](int32_t position, bool& found) {
    const int32_t left = at(position).id;
    const int32_t right = at(at(position).next).id;
    const MergeTable::Merge merge = merges.find(left, right);
    found = merge.rank >= 0;
    return MergeCandidate{merge.rank, position, left, right, merge.result};
  };
  for (int32_t i = 0; i + 1 < count; ++i) {
    bool found = false;
    const MergeCandidate candidate = candidate_at(i, found);
    if (found) heap.push_back(candidate);
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);
  const auto offer = [&](int32_t position) {
    bool found = false;
    const MergeCandidate candidate = candidate_at(position, found);
    if (!found) return;
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  constexpr int32_t kMergedAway = -1;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const MergeCandidate best = heap.back();
    heap.pop_back();
    Symbol& left = at(best.position);
    if (left.id != best.left || left.next == count || at(left.next).id != best.right) continue;
    Symbol& right = at(left.next);
    right.id = kMergedAway;
    left.id = best.result;
    left.next = right.next;
    if (left.next < count) {
      at(left.next).previous = best.position;
      offer(best.position);
    }
    if (left.previous >= 0) offer(left.previous);
  }
  for (int32_t i = 0; i < count; i = at(i).next) ids.push_back(at(i).id);
}

}  // namespace causeway::formats
