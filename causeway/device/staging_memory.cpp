#include "causeway/device/staging_memory.h"

#include <algorithm>
#include <cstring>

namespace causeway::device {
namespace {

constexpr size_t kRingBytes = size_t{32} << 20;
constexpr size_t kPieceBytes = size_t{8} << 20;  // of a copy, in one transfer
constexpr size_t kAlignment = 256;
// Events in flight: small copies should not make thousands.
constexpr size_t kMaxRegions = 256;

}  // namespace

StagingMemory::~StagingMemory() {
  for (const Region& region : busy_) events_.push_back(region.event);
  for (const GpuQueues::Event event : events_) queues_->release_event(event);
  if (ring_ != nullptr) queues_->release_pinned(ring_);
  if (landing_ != nullptr) queues_->release_pinned(landing_);
}

GpuQueues::Event StagingMemory::free_event() {
  if (events_.empty()) return queues_->make_event();
  const GpuQueues::Event event = events_.back();
  events_.pop_back();
  return event;
}

void StagingMemory::wait_for_oldest() {
  queues_->wait_for_event(busy_.front().event);
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
  if (ring_ == nullptr) ring_ = static_cast<std::byte*>(queues_->allocate_pinned(kRingBytes));
  for (size_t done = 0; done < bytes;) {
    const size_t piece = std::min(bytes - done, kPieceBytes);
    const size_t place = take(piece);
    std::memcpy(ring_ + place, static_cast<const std::byte*>(host) + done, piece);
    queues_->copy(static_cast<std::byte*>(to) + done, ring_ + place, piece, GpuQueues::Direction::kToDevice);
    const GpuQueues::Event event = free_event();
    busy_.push_back({place, place + piece, event});
    queues_->record_event(event);
    done += piece;
  }
}

void StagingMemory::copy_to_host(void* host, const void* from, size_t bytes) {
  if (landing_ == nullptr) landing_ = static_cast<std::byte*>(queues_->allocate_pinned(2 * kPieceBytes));
  const auto request = [&](size_t offset, size_t half) {
    const size_t piece = std::min(bytes - offset, kPieceBytes);
    queues_->copy(landing_ + half * kPieceBytes, static_cast<const std::byte*>(from) + offset, piece,
                  GpuQueues::Direction::kToHost);
    const GpuQueues::Event event = free_event();
    queues_->record_event(event);
    return event;
  };
  GpuQueues::Event event = request(0, 0);
  for (size_t done = 0, half = 0; done < bytes; half = 1 - half) {
    const size_t piece = std::min(bytes - done, kPieceBytes);
    const GpuQueues::Event next = done + piece < bytes ? request(done + piece, 1 - half) : nullptr;
    queues_->wait_for_event(event);
    events_.push_back(event);
    std::memcpy(static_cast<std::byte*>(host) + done, landing_ + half * kPieceBytes, piece);
    event = next;
    done += piece;
  }
}

}  // namespace causeway::device
