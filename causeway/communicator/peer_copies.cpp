#include "causeway/communicator/peer_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "causeway/base/error.h"

namespace causeway::communicator {
namespace {

// Handles are of what the driver maps as one: whole pieces of so many bytes.
constexpr size_t kMapped = size_t{2} << 20;
// Of what a rank sends to one other: less goes together with others by the library, in one launch.
constexpr size_t kWorthCopying = size_t{256} << 10;
// Ranks meet before anything is read, and when all is read.
constexpr size_t kReady = 0, kRead = 1, kMeetings = 2;
constexpr size_t kFirstWord = 64;  // in words, behind the one

}  // namespace

std::unique_ptr<PeerCopies> PeerCopies::open(GpuDevice& gpu, Communicator& control) {
  const size_t words = kFirstWord + kMeetings * static_cast<size_t>(control.size());
  const bool possible = control.size() > 1 && control.placement().machines == 1 && gpu.queues().shares_memory() &&
                        words * sizeof(uint32_t) <= kMapped;
  for (const std::string& other : control.gather(possible ? "1" : "0"))
    if (other != "1") return nullptr;
  std::unique_ptr<PeerCopies> ends(new PeerCopies(gpu, control));
  control.together([&] {
    ends->words_ = static_cast<std::byte*>(gpu.queues().allocate(kMapped));
    if (ends->words_ == nullptr)
      throw Error(ErrorKind::kResource,
                  "the GPU's memory is full: there are not 2 MiB left for what ranks tell each other", gpu.name(),
                  "`nvidia-smi` lists the processes that hold it.");
    std::vector<uint32_t> values(words);
    values[0] = 1;
    gpu.copy_to_device(ends->words_, values.data(), words * sizeof(uint32_t));
    gpu.synchronize();
  });
  std::optional<std::vector<std::byte*>> mapped = ends->exchange_memory(ends->words_);
  if (!mapped) return nullptr;
  ends->words_of_ranks_ = std::move(*mapped);
  return ends;
}

PeerCopies::~PeerCopies() {
  close(shared_of_ranks_);
  close(words_of_ranks_);
  if (words_ != nullptr) gpu_.queues().release(words_);
}

std::optional<std::vector<std::byte*>> PeerCopies::exchange_memory(std::byte* memory) {
  GpuQueues::MemoryHandle own{};
  control_.together([&] { own = gpu_.queues().export_memory(memory); });
  const std::vector<std::string> handles =
      control_.gather(std::string(reinterpret_cast<const char*>(own.data()), own.size()));
  std::vector<std::byte*> mapped(handles.size());
  bool all = true;
  control_.together([&] {
    for (size_t other = 0; other < handles.size() && all; ++other) {
      if (other == static_cast<size_t>(rank())) continue;
      GpuQueues::MemoryHandle handle{};
      CAUSEWAY_CHECK(handles[other].size() == handle.size());
      std::memcpy(handle.data(), handles[other].data(), handle.size());
      mapped[other] = static_cast<std::byte*>(gpu_.queues().import_memory(handle));
      all = mapped[other] != nullptr;
    }
  });
  for (const std::string& other : control_.gather(all ? "1" : "0")) all = all && other == "1";
  if (all) return mapped;
  close(mapped);
  control_.barrier();
  return std::nullopt;
}

void PeerCopies::close(std::vector<std::byte*>& mapped) noexcept {
  for (std::byte* memory : mapped)
    if (memory != nullptr) gpu_.queues().close_imported(memory);
  mapped.clear();
}

bool PeerCopies::share(std::byte* memory, size_t bytes) {
  forget();
  const std::string here = std::to_string(bytes);
  for (const std::string& other : control_.gather(here))
    if (other != here || bytes < kMapped) return false;
  std::optional<std::vector<std::byte*>> mapped = exchange_memory(memory);
  if (!mapped) return false;
  shared_of_ranks_ = std::move(*mapped);
  shared_ = memory;
  shared_bytes_ = bytes;
  return true;
}

void PeerCopies::forget() {
  if (shared_ == nullptr) return;
  gpu_.synchronize();
  close(shared_of_ranks_);
  shared_ = nullptr;
  shared_bytes_ = 0;
  control_.barrier();
}

bool PeerCopies::serves(const PeerCopy& copy) const {
  const Collective& collective = copy.collective;
  if (shared_ == nullptr || part_bytes(collective) < kWorthCopying) return false;
  if (collective.kind == CollectiveKind::kAllToAll)
    return is_shared(copy.from, part_bytes(collective) * static_cast<size_t>(ranks()));
  return collective.kind == CollectiveKind::kAllGather &&
         (is_shared(copy.from, part_bytes(collective)) || is_read_in_result(copy));
}

size_t PeerCopies::part_bytes(const Collective& collective) {
  return static_cast<size_t>(collective.count) * size_bytes(collective.dtype);
}

bool PeerCopies::is_shared(const void* memory, size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(memory);
  return first >= shared_ && bytes <= shared_bytes_ && static_cast<size_t>(first - shared_) <= shared_bytes_ - bytes;
}

bool PeerCopies::is_read_in_result(const PeerCopy& copy) const {
  const size_t part = part_bytes(copy.collective);
  if (copy.collective.kind != CollectiveKind::kAllGather || !is_shared(copy.to, part * static_cast<size_t>(ranks())))
    return false;
  return !is_shared(copy.from, part) ||
         copy.from == static_cast<std::byte*>(copy.to) + static_cast<size_t>(rank()) * part;
}

uint32_t* PeerCopies::word(std::byte* words, size_t meeting, int rank) const {
  return reinterpret_cast<uint32_t*>(words) + kFirstWord + meeting * static_cast<size_t>(ranks()) +
         static_cast<size_t>(rank);
}

// A copy of the word that is always one: it comes behind the copies before it, whoever makes them.
void PeerCopies::tell_others(size_t meeting, DeviceQueue queue) {
  for (int other = 0; other < ranks(); ++other)
    if (other != rank())
      gpu_.copy_on_device(word(words_of_ranks_[static_cast<size_t>(other)], meeting, rank()), words_, sizeof(uint32_t),
                          queue);
}

// Nobody tells again before this rank has told of the next meeting.
void PeerCopies::wait_for_others(size_t meeting, DeviceQueue queue) {
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank()) continue;
    gpu_.queues().wait_for_word(word(words_, meeting, other), 1, queue);
    gpu_.queues().write_word(word(words_, meeting, other), 0, queue);
  }
}

void PeerCopies::run(std::span<const PeerCopy> copies, DeviceQueue queue) {
  // Of rank `other`, where it lies for this one.
  const auto copy = [&](const PeerCopy& one, int other) {
    const size_t part = part_bytes(one.collective);
    std::byte* const to = static_cast<std::byte*>(one.to) + static_cast<size_t>(other) * part;
    const auto* from = static_cast<const std::byte*>(one.from);
    if (one.collective.kind == CollectiveKind::kAllToAll) from += static_cast<size_t>(rank()) * part;
    if (other != rank())
      from = shared_of_ranks_[static_cast<size_t>(other)] + ((is_read_in_result(one) ? to : from) - shared_);
    if (from != to) gpu_.copy_on_device(to, from, part, queue);
  };
  for (const PeerCopy& one : copies)
    if (is_read_in_result(one)) copy(one, rank());
  tell_others(kReady, queue);
  for (const PeerCopy& one : copies)
    if (!is_read_in_result(one)) copy(one, rank());
  wait_for_others(kReady, queue);
  // Every rank begins with another one.
  for (int step = 1; step < ranks(); ++step)
    for (const PeerCopy& one : copies) copy(one, (rank() + step) % ranks());
  tell_others(kRead, queue);
  wait_for_others(kRead, queue);
}

}  // namespace causeway::communicator
