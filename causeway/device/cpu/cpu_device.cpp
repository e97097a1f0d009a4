#include "causeway/device/cpu/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "causeway/base/byte_size.h"
#include "causeway/base/error.h"
#include "causeway/device/cpu/host_memory.h"
#include "causeway/device/cpu/host_target.h"

namespace causeway::device {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMappedFrom = kHugePage;
constexpr size_t kPage = size_t{4} << 10;
constexpr size_t kCopyPiece = size_t{4} << 20;

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// What a buffer of so many bytes is mapped with: whole huge pages where they are filled well enough, else small pages
// behind those that it fills.
size_t mapped_bytes(size_t bytes) {
  const size_t whole = round_up(bytes, kHugePage);
  return whole - bytes <= bytes / 4 ? whole : round_up(bytes, kPage);
}

// A private mapping that begins on a huge page, or null.
std::byte* map_huge(size_t bytes) {
  void* address = ::mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t aligned = round_up(begin, kHugePage);
  if (aligned != begin) ::munmap(address, aligned - begin);
  const uintptr_t end = begin + bytes + kHugePage;
  if (end != aligned + bytes) ::munmap(reinterpret_cast<void*>(aligned + bytes), end - (aligned + bytes));
  ::madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return reinterpret_cast<std::byte*>(aligned);
}

}  // namespace

CpuDevice::CpuDevice(int thread_count) : CpuDevice(host_target(), thread_count) {}

CpuDevice::CpuDevice(const Target& target, int thread_count) : target_(target), pool_(thread_count) {
  scratch_.resize(static_cast<size_t>(pool_.thread_count()));
}

void CpuDevice::set_thread_count(int thread_count) {
  pool_.set_thread_count(thread_count);
  scratch_.resize(static_cast<size_t>(pool_.thread_count()));
}

DeviceBuffer CpuDevice::allocate(size_t bytes, bool zeroed) {
  if (bytes == 0) return {};
  require_below_limit(bytes, bytes_in_use(), told_limit(), name());
  std::byte* data = nullptr;
  size_t mapped = 0;  // bytes mapped from the operating system, 0 when the memory is the heap's
  // Beyond half of the address space, rounding up would wrap.
  if (bytes < SIZE_MAX / 2) {
    if (bytes >= kMappedFrom) {
      mapped = mapped_bytes(bytes);
      data = map_huge(mapped);  // zero already
    } else {
      data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes, kAlignment)));
      if (data != nullptr && zeroed) std::memset(data, 0, bytes);
    }
  }
  if (data == nullptr) {
    throw Error(ErrorKind::kResource,
                fmt::format("cannot allocate {} bytes ({}) of memory", bytes,
                            format_gib(static_cast<int64_t>(std::min<size_t>(bytes, INT64_MAX)))),
                "cpu", "Use a smaller batch or model, or a machine with more memory.");
  }
  const int64_t counted = static_cast<int64_t>(bytes);
  const int64_t now = use_->current.fetch_add(counted) + counted;
  int64_t peak = use_->peak.load();
  while (peak < now && !use_->peak.compare_exchange_weak(peak, now)) {
  }
  const auto release = [use = use_, mapped, counted](std::byte* memory) {
    use->current.fetch_sub(counted);
    if (mapped != 0) {
      ::munmap(memory, mapped);
    } else {
      std::free(memory);
    }
  };
  return {std::shared_ptr<std::byte>(data, release), bytes};
}

void CpuDevice::copy_to_device(void* to, const void* host, size_t bytes) { copy_on_device(to, host, bytes); }
void CpuDevice::copy_to_host(void* host, const void* from, size_t bytes) { copy_on_device(host, from, bytes); }
void CpuDevice::copy_on_device(void* to, const void* from, size_t bytes, DeviceQueue queue) {
  if (bytes != 0) std::memmove(to, from, bytes);
}
void CpuDevice::fill_with_zeros(void* memory, size_t bytes) {
  if (bytes != 0) std::memset(memory, 0, bytes);
}

void CpuDevice::queue_copy_to_host(void* host, const void* from, size_t bytes, DeviceQueue queue) {
  const auto pieces = static_cast<int64_t>((bytes + kCopyPiece - 1) / kCopyPiece);
  pool_.run(pieces, [&](int64_t piece, int) {
    const size_t begin = static_cast<size_t>(piece) * kCopyPiece;
    std::memcpy(static_cast<std::byte*>(host) + begin, static_cast<const std::byte*>(from) + begin,
                std::min(kCopyPiece, bytes - begin));
  });
}

int64_t CpuDevice::memory_limit() const {
  const HostMemory memory = host_memory();
  // Buffers that nobody has touched yet take no memory: they are still counted as available.
  return at_most_limit(memory.total_bytes == 0 ? 0
                                               : memory.available_bytes + std::min(bytes_in_use(), resident_bytes()));
}

std::shared_ptr<DeviceModule> CpuDevice::load(std::string_view image) { return std::make_shared<CpuModule>(image); }

void CpuDevice::launch(const DeviceLaunch& launch) {
  ++launch_count_;
  for (DeviceBuffer& scratch : scratch_) {
    if (scratch.bytes >= static_cast<size_t>(launch.scratch_bytes)) continue;
    scratch = {};
    scratch = allocate(static_cast<size_t>(launch.scratch_bytes));
  }
  const auto kernel = reinterpret_cast<CpuKernel>(const_cast<void*>(launch.kernel));
  pool_.run(launch.task_count, [&](int64_t task, int worker) {
    kernel(launch.buffers.data(), launch.sizes.data(), task, scratch_[static_cast<size_t>(worker)].data());
  });
}

}  // namespace causeway::device
