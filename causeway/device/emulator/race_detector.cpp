#include "causeway/device/emulator/race_detector.h"

#include <algorithm>

namespace causeway::device {
namespace {

constexpr uint32_t kWordBytes = 4;

// Bytes [begin, end) as a mask of the word that starts at `word`.
uint8_t word_mask(uintptr_t word, uintptr_t begin, uintptr_t end) {
  const uintptr_t first = std::max(begin, word) - word;
  const uintptr_t last = std::min(end, word + kWordBytes) - word;
  return static_cast<uint8_t>((1u << last) - (1u << first));
}

void join(std::span<uint32_t> into, std::span<const uint32_t> from) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

bool is_same_moment(const AccessRecord& a, const AccessRecord& b) {
  return a.thread == b.thread && a.epoch == b.epoch && a.cluster == b.cluster;
}

}  // namespace

GlobalHistory::Page& GlobalHistory::page(uintptr_t word) {
  const uintptr_t number = word / kPageWords;
  Shard& shard = shards_[number % kShards];
  const std::lock_guard lock(shard.mutex);
  std::unique_ptr<Page>& page = shard.pages[number];
  if (page == nullptr) page = std::make_unique<Page>();
  return *page;
}

void RaceDetector::begin(uint32_t cluster, int threads, int blocks, size_t shared_bytes, GlobalHistory& global) {
  cluster_ = cluster;
  threads_ = static_cast<size_t>(threads);
  clocks_.assign(threads_ * threads_, 0);
  for (int thread = 0; thread < threads; ++thread) clock(thread)[static_cast<size_t>(thread)] = 1;
  joined_.resize(threads_);
  channels_.clear();
  shared_.resize(static_cast<size_t>(blocks));
  for (auto& words : shared_) words.assign((shared_bytes + kWordBytes - 1) / kWordBytes, WordHistory());
  global_ = &global;
  last_page_ = nullptr;
}

bool RaceDetector::is_ordered(const AccessRecord& record, int thread) const {
  if (record.cluster != cluster_) return false;
  return clocks_[static_cast<size_t>(thread) * threads_ + record.thread - 1u] >= record.epoch;
}

std::optional<Race> RaceDetector::access(WordHistory& word, const AccessRecord& now, bool writes, uintptr_t address) {
  const int thread = now.thread - 1;
  const auto conflicts = [&](const AccessRecord& other) {
    return other.thread != 0 && (other.bytes & now.bytes) != 0 && !is_ordered(other, thread);
  };
  if (conflicts(word.write)) return Race{word.write, true, address};
  if (writes) {
    for (const AccessRecord& read : word.reads)
      if (conflicts(read)) return Race{read, false, address};
    const uint8_t kept = is_same_moment(word.write, now) ? word.write.bytes : uint8_t{0};
    word.write = now;
    word.write.bytes |= kept;
    return std::nullopt;
  }
  // Reads that a later write could be compared with in this one's place are replaced first.
  AccessRecord* place = nullptr;
  for (AccessRecord& read : word.reads) {
    if (is_same_moment(read, now)) {
      read.bytes |= now.bytes;
      return std::nullopt;
    }
    if (place == nullptr && (read.thread == 0 || is_ordered(read, thread))) place = &read;
  }
  if (place != nullptr) *place = now;
  return std::nullopt;
}

std::optional<Race> RaceDetector::shared_access(int block, uint32_t offset, uint32_t bytes, bool writes, int thread,
                                                uint32_t place) {
  const uint32_t epoch = clock(thread)[static_cast<size_t>(thread)];
  auto& words = shared_[static_cast<size_t>(block)];
  for (uint32_t word = offset / kWordBytes; word * kWordBytes < offset + bytes; ++word) {
    const AccessRecord now{cluster_, epoch, place, static_cast<uint16_t>(thread + 1),
                           word_mask(word * kWordBytes, offset, offset + bytes)};
    if (auto race = access(words[word], now, writes, word * kWordBytes)) return race;
  }
  return std::nullopt;
}

std::optional<Race> RaceDetector::global_access(uintptr_t address, size_t bytes, bool writes, int thread,
                                                uint32_t place) {
  const uint32_t epoch = clock(thread)[static_cast<size_t>(thread)];
  for (uintptr_t word = address / kWordBytes; word * kWordBytes < address + bytes; ++word) {
    const uintptr_t number = word / GlobalHistory::kPageWords;
    if (last_page_ == nullptr || number != last_page_number_) {
      last_page_ = &global_->page(word);
      last_page_number_ = number;
    }
    const AccessRecord now{cluster_, epoch, place, static_cast<uint16_t>(thread + 1),
                           word_mask(word * kWordBytes, address, address + bytes)};
    const std::lock_guard lock(last_page_->mutex);
    WordHistory& history = last_page_->words[word % GlobalHistory::kPageWords];
    if (auto race = access(history, now, writes, word * kWordBytes)) return race;
  }
  return std::nullopt;
}

void RaceDetector::synchronize(int first, int count) {
  std::fill(joined_.begin(), joined_.end(), 0);
  for (int thread = first; thread < first + count; ++thread) join(joined_, clock(thread));
  for (int thread = first; thread < first + count; ++thread) {
    std::copy(joined_.begin(), joined_.end(), clock(thread).begin());
    ++clock(thread)[static_cast<size_t>(thread)];
  }
}

void RaceDetector::release(int thread, Channel channel) {
  std::vector<uint32_t>& seen = channels_[channel];
  seen.resize(threads_);
  join(seen, clock(thread));
  ++clock(thread)[static_cast<size_t>(thread)];
}

void RaceDetector::acquire(int thread, Channel channel) {
  const auto found = channels_.find(channel);
  if (found != channels_.end()) join(clock(thread), found->second);
}

}  // namespace causeway::device
