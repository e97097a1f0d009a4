#include "causeway/train/checkpoint/state_snapshot.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "causeway/base/error.h"
#include "causeway/program/held_memory.h"

namespace causeway::train {
namespace {

// Large enough that pinning pays, small enough that the first tensors are free to be overwritten long before the last.
constexpr size_t kBlockBytes = size_t{256} << 20;
constexpr size_t kAlignment = 256;
// Of one copy to the host, which holds a copy engine until it is done: the steps' own copies come between.
constexpr size_t kPieceBytes = size_t{8} << 20;

}  // namespace

StateSnapshot::StateSnapshot(std::shared_ptr<Context> context, const std::vector<Tensor>& tensors)
    : context_(std::move(context)) {
  for (const bool on_host : {false, true}) {
    for (const Tensor& tensor : tensors)
      if (tensor.lies_on_host() == on_host) tensors_.push_back(tensor);
    if (!on_host) on_device_ = tensors_.size();
  }
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

// Those that come last are what a step would wait for longest.
void StateSnapshot::take_spare(int64_t bytes) {
  spare_.assign(blocks_.size(), {});
  const size_t used = on_device_ == 0 ? 0 : places_[on_device_ - 1].block + 1;
  for (size_t block = used; block > 0; --block) {
    const size_t needed = blocks_[block - 1].bytes;
    bytes -= static_cast<int64_t>(needed);
    if (bytes < 0) return;
    try {
      spare_[block - 1] = context_->device().allocate(needed);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kResource) throw;
      return;
    }
  }
}

bool StateSnapshot::passes_through_spare() const {
  return std::ranges::any_of(spare_, [](const DeviceBuffer& one) { return one.data() != nullptr; });
}

// At once, since the next step writes over it.
void StateSnapshot::copy_from_host() {
  if (on_device_ == tensors_.size()) return;
  context_->device().synchronize();
  for (size_t i = on_device_; i < tensors_.size(); ++i)
    std::memcpy(blocks_[places_[i].block].memory.data() + places_[i].offset, tensors_[i].buffer().data(),
                places_[i].bytes);
}

void StateSnapshot::begin(int64_t spare_bytes) {
  CAUSEWAY_CHECK(!copying_);
  Device& device = context_->device();
  copy_from_host();
  take_spare(spare_bytes);
  copying_ = true;
  if (passes_through_spare()) {
    const std::shared_ptr<DeviceMoment> from = device.mark();
    for (size_t i = 0; i < on_device_; ++i)
      if (std::byte* const spare = spare_[places_[i].block].data(); spare != nullptr)
        device.copy_on_device(spare + places_[i].offset, tensors_[i].buffer().data(), places_[i].bytes, kComputeQueue);
    context_->held_memory().note_wait(from, device.mark());
  }
  const std::shared_ptr<DeviceEvent> now = device.make_event();
  device.signal(*now, kComputeQueue);
  device.wait(*now, kSaveQueue);
  std::shared_ptr<DeviceEvent> copied;
  for (size_t i = 0; i < on_device_; ++i) {
    const Place& place = places_[i];
    const std::byte* const spare = spare_[place.block].data();
    const std::byte* const own = tensors_[i].buffer().data();
    const std::byte* const from = spare == nullptr ? own : spare + place.offset;
    std::byte* const to = blocks_[place.block].memory.data() + place.offset;
    for (size_t done = 0; done < place.bytes; done += kPieceBytes)
      device.queue_copy_to_host(to + done, from + done, std::min(kPieceBytes, place.bytes - done), kSaveQueue);
    if (spare != nullptr) continue;
    if (copied == nullptr) copied = device.make_event();
    context_->held_memory().hold(own, copied);
    if (i + 1 < on_device_ && places_[i + 1].block == place.block) continue;
    device.signal(*copied, kSaveQueue);
    copied = nullptr;
  }
  copied_ = device.make_event();
  device.signal(*copied_, kSaveQueue);
}

bool StateSnapshot::is_copied() const { return context_->device().has_passed(*copied_); }

double StateSnapshot::finish() {
  if (!copying_) return 0;
  context_->device().synchronize();
  copying_ = false;
  if (passes_through_spare()) {
    spare_.clear();
    context_->device().release_unused_memory();
  }
  return context_->held_memory().release(context_->device());
}

std::span<const std::byte> StateSnapshot::of(const Tensor& tensor) const {
  const Place& place = places_[by_memory_.at(tensor.buffer().data())];
  return {blocks_[place.block].memory.data() + place.offset, place.bytes};
}

}  // namespace causeway::train
