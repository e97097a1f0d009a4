#include "causeway/device/staging_memory.h"

#include <algorithm>
#include <cstring>

namespace causeway::device {
namespace {

constexpr size_t kAlignment = 256;
// Events in flight: small copies should not make thousands.
constexpr size_t kMaxRegions = 256;

}  // namespace

StagingMemory::~StagingMemory() {
  for (const Region& region : busy_) events_.push_back(region.event);
  for (const GpuQueue::Event event : events_) queue_->release_event(event);
  if (ring_ != nullptr) queue_->release_pinned(ring_);
  if (landing_ != nullptr) queue_->release_pinned(landing_);
}

GpuQueue::Event StagingMemory::free_event() {
  if (events_.empty()) return queue_->make_event();
  const GpuQueue::Event event = events_.back();
  events_.pop_back();
  return event;
}

void StagingMemory::wait_for_oldest() {
  queue_->wait_for_event(busy_.front().event);
  events_.push_back(busy_.front().event);
  busy_.pop_front();
}

size_t StagingMemory::take(size_t bytes) {
  if (head_ + bytes > kRingBytes) {
    // What lies behind the head was taken in the lap before: the front of the queue is this lap's first again.
    while (!busy_.empty() && busy_.front().begin >= head_) wait_for_oldest();
    head_ = 0;
  }
  const size_t begin = head_, end = head_ + bytes;
  while (!busy_.empty() && (busy_.size() >= kMaxRegions || (busy_.front().begin < end && begin < busy_.front().end)))
    wait_for_oldest();
  head_ = std::min(kRingBytes, (end + kAlignment - 1) / kAlignment * kAlignment);
  return begin;
}

void StagingMemory::copy_to_device(void* to, const void* host, size_t bytes) {
  if (ring_ == nullptr) ring_ = static_cast<std::byte*>(queue_->allocate_pinned(kRingBytes));
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, kPieceBytes);
    const size_t place = take(piece);
    std::memcpy(ring_ + place, static_cast<const std::byte*>(host) + done, piece);
    queue_->copy(static_cast<std::byte*>(to) + done, ring_ + place, piece, GpuQueue::Direction::kToDevice);
    const GpuQueue::Event event = free_event();
    busy_.push_back({place, place + piece, event});
    queue_->record_event(event);
    done += piece;
  }
}

void StagingMemory::copy_to_host(void* host, const void* from, size_t bytes) {
  if (landing_ == nullptr) landing_ = static_cast<std::byte*>(queue_->allocate_pinned(2 * kPieceBytes));
  const auto request = [&](size_t offset, size_t half) {
    const size_t piece = std::min(bytes - offset, kPieceBytes);
    queue_->copy(landing_ + half * kPieceBytes, static_cast<const std::byte*>(from) + offset, piece,
                 GpuQueue::Direction::kToHost);
    const GpuQueue::Event event = free_event();
    queue_->record_event(event);
    return event;
  };
  GpuQueue::Event event = request(0, 0);
  for (size_t done = 0, half = 0; done < bytes; half = 1 - half) {
    const size_t piece = std::min(bytes - done, kPieceBytes);
    const GpuQueue::Event next = done + piece < bytes ? request(done + piece, 1 - half) : nullptr;
    queue_->wait_for_event(event);
    events_.push_back(event);
    std::memcpy(static_cast<std::byte*>(host) + done, landing_ + half * kPieceBytes, piece);
    event = next;
    done += piece;
  }
}

}  // namespace causeway::device
