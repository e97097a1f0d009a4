#include "causeway/device/gpu_memory_pool.h"

#include <algorithm>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"

namespace causeway::device {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

size_t GpuMemoryPool::rounded(size_t bytes) { return round_up(bytes, bytes <= kMiB ? 512 : 2 * kMiB); }

GpuMemoryPool::~GpuMemoryPool() { release_cached_locked(); }

DeviceBuffer GpuMemoryPool::allocate(size_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  std::byte* memory = nullptr;
  // Beyond half of the address space, rounding up would wrap.
  if (bytes < SIZE_MAX / 2) {
    const size_t size = rounded(bytes);
    const auto blocks = free_.find(size);
    if (blocks != free_.end()) {
      memory = *blocks->second.begin();
      blocks->second.erase(blocks->second.begin());
      if (blocks->second.empty()) free_.erase(blocks);
      cached_ -= static_cast<int64_t>(size);
    } else {
      memory = allocate_locked(size);
      if (memory == nullptr && cached_ > 0) {
        queues_->synchronize();
        release_cached_locked();
        memory = allocate_locked(size);
      }
    }
  }
  if (memory == nullptr && bytes < SIZE_MAX / 2 && !is_within_limit(rounded(bytes)))
    require_below_limit(rounded(bytes), reserved_, limit_, queues_->device());
  if (memory == nullptr) {
    const GpuQueues::Memory state = queues_->memory();
    throw Error(
        ErrorKind::kResource,
        fmt::format("cannot allocate {} bytes ({}) of GPU memory: {} in use here, {} of {} free", bytes,
                    format_gib(static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX))), format_gib(in_use_),
                    format_gib(state.free), format_gib(state.total)),
        queues_->device(),
        "Use a smaller batch with more accumulation, recompute activations, a smaller model, or a GPU with more "
        "memory. What is neither free nor in use here belongs to other processes.");
  }
  CAUSEWAY_CHECK(reinterpret_cast<uintptr_t>(memory) % 256 == 0, "the driver returned memory at {}", fmt::ptr(memory));
  in_use_ += static_cast<int64_t>(bytes);
  peak_ = std::max(peak_, in_use_);
  const auto release = [pool = shared_from_this(), bytes](std::byte* block) { pool->give_back(block, bytes); };
  return {std::shared_ptr<std::byte>(memory, release), bytes};
}

std::byte* GpuMemoryPool::allocate_locked(size_t size) {
  if (!is_within_limit(size)) return nullptr;
  auto* const memory = static_cast<std::byte*>(queues_->allocate(size));
  if (memory == nullptr) return nullptr;
  reserved_ += static_cast<int64_t>(size);
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return memory;
}

void GpuMemoryPool::give_back(std::byte* memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t size = rounded(bytes);
  free_[size].insert(memory);
  cached_ += static_cast<int64_t>(size);
  in_use_ -= static_cast<int64_t>(bytes);
}

void GpuMemoryPool::release_cached() {
  const std::lock_guard lock(mutex_);
  queues_->synchronize();
  release_cached_locked();
}

void GpuMemoryPool::release_cached_locked() {
  for (const auto& [size, blocks] : free_)
    for (std::byte* block : blocks) queues_->release(block);
  free_.clear();
  reserved_ -= cached_;
  cached_ = 0;
}

void GpuMemoryPool::limit(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

int64_t GpuMemoryPool::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

int64_t GpuMemoryPool::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

int64_t GpuMemoryPool::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return cached_;
}

int64_t GpuMemoryPool::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

int64_t GpuMemoryPool::peak_reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_reserved_;
}

}  // namespace causeway::device
