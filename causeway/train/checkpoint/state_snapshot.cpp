#include "causeway/train/checkpoint/state_snapshot.h"

#include <chrono>

#include "causeway/base/error.h"
#include "causeway/program/held_memory.h"

namespace causeway::train {
namespace {

// Large enough that pinning pays, small enough that the first tensors are free to be overwritten long before the last.
constexpr size_t kBlockBytes = size_t{256} << 20;
constexpr size_t kAlignment = 256;

}  // namespace

StateSnapshot::StateSnapshot(std::shared_ptr<Context> context, std::vector<Tensor> tensors)
    : context_(std::move(context)), tensors_(std::move(tensors)) {
  for (const Tensor& tensor : tensors_) {
    const auto bytes = static_cast<size_t>(tensor.local_bytes());
    if (blocks_.empty() || (blocks_.back().bytes > 0 && blocks_.back().bytes + bytes > kBlockBytes))
      blocks_.emplace_back();
    Block& block = blocks_.back();
    by_memory_[tensor.buffer().data()] = places_.size();
    places_.push_back({blocks_.size() - 1, block.bytes, bytes});
    block.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (const Block& block : blocks_) bytes_ += static_cast<int64_t>(block.bytes);
}

StateSnapshot::~StateSnapshot() {
  if (!copying_) return;
  try {
    finish();
  } catch (const std::exception&) {
    // A device that fails copies no more.
  }
}

void StateSnapshot::prepare() {
  if (hurries_ || preparing_.joinable()) return;
  preparing_ = std::jthread([this](const std::stop_token& stop) {
    try {
      allocate_blocks(stop);
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
    }
  });
}

void StateSnapshot::allocate() {
  if (preparing_.joinable()) {
    {
      const std::scoped_lock lock(mutex_);
      hurries_ = true;
    }
    hurried_.notify_all();
    preparing_.join();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  hurries_ = true;
  allocate_blocks({});
}

void StateSnapshot::allocate_blocks(const std::stop_token& stop) {
  using Clock = std::chrono::steady_clock;
  for (Block& block : blocks_) {
    if (stop.stop_requested()) return;
    if (block.memory.bytes >= block.bytes) continue;
    const Clock::time_point start = Clock::now();
    block.memory = context_->device().allocate_host(block.bytes);
    std::unique_lock lock(mutex_);
    if (!hurries_) hurried_.wait_for(lock, stop, Clock::now() - start, [this] { return hurries_; });
  }
}

void StateSnapshot::begin() {
  CAUSEWAY_CHECK(!copying_);
  Device& device = context_->device();
  copying_ = true;
  const std::shared_ptr<DeviceEvent> now = device.make_event();
  device.signal(*now, kComputeQueue);
  device.wait(*now, kSaveQueue);
  std::shared_ptr<DeviceEvent> copied;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Place& place = places_[i];
    const void* const from = tensors_[i].buffer().data();
    if (copied == nullptr) copied = device.make_event();
    device.queue_copy_to_host(blocks_[place.block].memory.data() + place.offset, from, place.bytes, kSaveQueue);
    context_->held_memory().hold(from, copied);
    if (i + 1 < tensors_.size() && places_[i + 1].block == place.block) continue;
    device.signal(*copied, kSaveQueue);
    copied = nullptr;
  }
}

double StateSnapshot::finish() {
  if (!copying_) return 0;
  context_->device().synchronize();
  copying_ = false;
  return context_->held_memory().release(context_->device());
}

std::span<const std::byte> StateSnapshot::of(const Tensor& tensor) const {
  const Place& place = places_[by_memory_.at(tensor.buffer().data())];
  return {blocks_[place.block].memory.data() + place.offset, place.bytes};
}

}  // namespace causeway::train
