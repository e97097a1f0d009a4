#include "causeway/device/emulator/async_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace causeway::device {

namespace {

constexpr size_t kCopyBytes = 16;
constexpr int kBoxAlignment = 128;

}  // namespace

std::vector<std::byte>& AsyncView::view(int block_rank) {
  std::vector<std::byte>& view = views_[block_rank];
  if (view.empty()) view.assign(host_.shared(block_rank).size(), kPoison);
  return view;
}

void AsyncView::stored(int offset, int bytes) {
  reports_stores_ = true;
  copied(offset, bytes);
}

void AsyncView::copied(int offset, int bytes) {
  int& length = stores_[{host_.block_rank(), host_.thread()}][offset];
  length = std::max(length, bytes);
}

void AsyncView::publish() {
  const int rank = host_.block_rank();
  const std::span<const std::byte> shared = host_.shared(rank);
  auto& stores = stores_[{rank, host_.thread()}];
  if (!reports_stores_) {
    std::copy(shared.begin(), shared.end(), view(rank).begin());
    stores.clear();
    return;
  }
  for (const auto& [offset, bytes] : stores) written(rank, offset, bytes);
  stores.clear();
}

void AsyncView::written(int block_rank, int offset, int bytes) {
  std::memcpy(view(block_rank).data() + offset, host_.shared(block_rank).data() + offset, static_cast<size_t>(bytes));
}

void AsyncView::check(int block_rank, int offset, int bytes, const std::string& reader) {
  const std::byte* seen = view(block_rank).data() + offset;
  const std::byte* shared = host_.shared(block_rank).data() + offset;
  if (std::memcmp(seen, shared, static_cast<size_t>(bytes)) == 0) return;
  const auto at = std::mismatch(seen, seen + bytes, shared).first - seen;
  host_.fail(
      fmt::format("{} reads shared memory {:#x}, where ordinary stores wrote after the last fence_async_shared()",
                  reader, offset + at));
}

void ThreadCopies::apply(const Copy& copy) {
  if (copy.valid) {
    std::memcpy(copy.shared, copy.global, kCopyBytes);
  } else {
    std::memset(copy.shared, 0, kCopyBytes);
  }
  const auto offset = static_cast<const std::byte*>(copy.shared) - host_.shared(host_.block_rank()).data();
  view_.copied(static_cast<int>(offset), kCopyBytes);
}

void ThreadCopies::copy_16(void* shared, const void* global, bool valid) {
  const std::span<const std::byte> memory = host_.shared(host_.block_rank());
  const auto offset = static_cast<const std::byte*>(shared) - memory.data();
  if (offset < 0 || offset + static_cast<ptrdiff_t>(kCopyBytes) > static_cast<ptrdiff_t>(memory.size()) ||
      offset % static_cast<ptrdiff_t>(kCopyBytes) != 0) {
    host_.fail(
        fmt::format("copy_async_16() to shared memory {:#x}, which is misaligned or outside of the block's {} bytes",
                    offset, memory.size()));
  }
  if (valid && reinterpret_cast<uintptr_t>(global) % kCopyBytes != 0) {
    host_.fail("copy_async_16() from an address that is not a multiple of 16");
  }
  const Copy copy{shared, global, valid};
  if (host_.random(4) == 0) {
    apply(copy);
    return;
  }
  std::memset(shared, std::to_integer<int>(kPoison), kCopyBytes);
  current().open.push_back(copy);
}

void ThreadCopies::commit() {
  Thread& thread = current();
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}

void ThreadCopies::wait(int groups) {
  Thread& thread = current();
  while (thread.groups.size() > static_cast<size_t>(groups)) {
    for (const Copy& copy : thread.groups.front()) apply(copy);
    thread.groups.pop_front();
  }
}

const EmulatedTensorMap& TensorCopies::decode(const void* map, const std::string& by) {
  const auto* decoded = static_cast<const EmulatedTensorMap*>(map);
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0 || !decoded->is_valid()) {
    host_.fail(fmt::format("{} is given something that is not a tensor map", by));
  }
  return *decoded;
}

int TensorCopies::box_offset(const EmulatedTensorMap& map, const void* shared, int rank, const std::string& by) {
  if (map.rank != rank) {
    host_.fail(fmt::format("{} has {} coordinates for a tensor map of rank {}", by, rank, map.rank));
  }
  const std::span<const std::byte> memory = host_.shared(host_.block_rank());
  const auto offset = static_cast<const std::byte*>(shared) - memory.data();
  if (offset < 0 || offset + map.shared_bytes() > static_cast<ptrdiff_t>(memory.size())) {
    host_.fail(fmt::format("{} of {} bytes at shared memory {:#x} leaves the block's {} bytes", by, map.shared_bytes(),
                           offset, memory.size()));
  }
  if (offset % kBoxAlignment != 0) {
    host_.fail(fmt::format("{} at shared memory {:#x}, which is not a multiple of {}", by, offset, kBoxAlignment));
  }
  return static_cast<int>(offset);
}

void TensorCopies::load(void* shared, const void* map_bytes, void* barrier, const BoxCoordinates& first, int rank,
                        uint32_t block_mask) {
  const std::string by = block_mask == 0 ? "tensor_load()" : "tensor_load_multicast()";
  const EmulatedTensorMap map = decode(map_bytes, by);
  const int offset = box_offset(map, shared, rank, by);
  const int barrier_offset = barriers_.offset_for_transfer(barrier);
  if (block_mask >> host_.cluster_size() != 0) {
    host_.fail(fmt::format("{} to blocks {:#x} of a cluster of {}", by, block_mask, host_.cluster_size()));
  }
  const uint32_t blocks = block_mask == 0 ? 1u << host_.block_rank() : block_mask;
  for (int block = 0; block < host_.cluster_size(); ++block) {
    if ((blocks >> block & 1) == 0) continue;
    std::memset(host_.shared(block).data() + offset, std::to_integer<int>(kPoison),
                static_cast<size_t>(map.shared_bytes()));
    view_.written(block, offset, map.shared_bytes());
    effects_.add([this, map, first, block, offset, barrier_offset] {
      load_box(map, first, host_.shared(block).data(), offset);
      view_.written(block, offset, map.shared_bytes());
      barriers_.complete_bytes(block, barrier_offset, map.box_bytes());
    });
  }
}

void TensorCopies::read(Store& store) {
  if (store.read) return;
  const int bytes = store.bytes;
  view_.check(store.block_rank, store.offset, bytes, fmt::format("tensor_store() of thread {}", store.thread));
  const std::byte* from = host_.shared(store.block_rank).data() + store.offset;
  store.box.assign(from, from + bytes);
  store.read = true;
}

// A store is read at one moment and written at a later one.
void TensorCopies::advance(const StorePointer& store) {
  if (store->written) return;
  if (!store->read) {
    read(*store);
    effects_.add([this, store] { advance(store); });
    return;
  }
  store->written = true;
  if (store->to == nullptr) {
    store_box(store->map, store->first, store->box.data(), store->offset);
  } else if (!store->adds) {
    std::memcpy(store->to, store->box.data(), store->box.size());
  } else {
    for (size_t i = 0; i < store->box.size() / sizeof(float); ++i) {
      float term = 0;
      std::memcpy(&term, store->box.data() + i * sizeof(float), sizeof(float));
      store->to[i] += term;
    }
  }
}

void TensorCopies::store(const void* map_bytes, const void* shared, const BoxCoordinates& first, int rank) {
  const EmulatedTensorMap map = decode(map_bytes, "tensor_store()");
  auto store = std::make_shared<Store>();
  store->map = map;
  store->bytes = map.shared_bytes();
  store->first = first;
  store->block_rank = host_.block_rank();
  store->thread = host_.thread();
  store->offset = box_offset(map, shared, rank, "tensor_store()");
  threads_[{store->block_rank, store->thread}].open.push_back(store);
  effects_.add([this, store] { advance(store); });
}

void TensorCopies::store(float* to, const void* shared, int bytes, bool adds) {
  constexpr int kAlignment = 16;
  const std::span<const std::byte> memory = host_.shared(host_.block_rank());
  const auto offset = static_cast<const std::byte*>(shared) - memory.data();
  if (offset < 0 || offset + bytes > static_cast<ptrdiff_t>(memory.size()) || offset % kAlignment != 0 ||
      bytes % kAlignment != 0 || reinterpret_cast<uintptr_t>(to) % kAlignment != 0) {
    host_.fail(
        fmt::format("a bulk store of {} bytes at shared memory {:#x} of {} bytes: addresses and sizes have to be "
                    "multiples of {}",
                    bytes, offset, memory.size(), kAlignment));
  }
  auto store = std::make_shared<Store>();
  store->to = to;
  store->bytes = bytes;
  store->adds = adds;
  store->block_rank = host_.block_rank();
  store->thread = host_.thread();
  store->offset = static_cast<int>(offset);
  threads_[{store->block_rank, store->thread}].open.push_back(store);
  effects_.add([this, store] { advance(store); });
}

void TensorCopies::store_commit() {
  Thread& thread = threads_[{host_.block_rank(), host_.thread()}];
  drop_written(thread);
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}

void TensorCopies::store_wait(int groups) {
  Thread& thread = threads_[{host_.block_rank(), host_.thread()}];
  for (size_t i = 0; i + static_cast<size_t>(groups) < thread.groups.size(); ++i) {
    // The effects that are still queued then write.
    for (const StorePointer& store : thread.groups[i]) read(*store);
  }
}

void TensorCopies::write_wait(int groups) {
  Thread& thread = threads_[{host_.block_rank(), host_.thread()}];
  for (size_t i = 0; i + static_cast<size_t>(groups) < thread.groups.size(); ++i) {
    for (const StorePointer& store : thread.groups[i]) {
      read(*store);
      advance(store);
    }
  }
  drop_written(thread);
}

void TensorCopies::drop_written(Thread& thread) {
  const auto written = [](const StorePointer& store) { return store->written; };
  while (!thread.groups.empty() && std::ranges::all_of(thread.groups.front(), written)) thread.groups.pop_front();
}

void TensorCopies::thread_ended() {
  const auto found = threads_.find({host_.block_rank(), host_.thread()});
  if (found == threads_.end()) return;
  const auto unread = [](const StorePointer& store) { return !store->read; };
  const auto has_unread = [&](const std::vector<StorePointer>& group) { return std::ranges::any_of(group, unread); };
  if (!found->second.open.empty() || std::ranges::any_of(found->second.groups, has_unread)) {
    host_.fail("ends before tensor_store_wait<0>() has covered its tensor stores");
  }
}

}  // namespace causeway::device
