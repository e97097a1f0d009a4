#include "causeway/device/emulator/mbarrier.h"

#include <fmt/format.h>

#include <cstring>

namespace causeway::device {

namespace {

// The eight bytes: a mark in the uppermost four bits, the phase, the arrivals, the bytes.
constexpr uint64_t kMbarrierMark = 0xb;
constexpr int kCountBits = 19;
constexpr int kByteBits = 21;
constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;
constexpr uint64_t kByteMask = (uint64_t{1} << kByteBits) - 1;
constexpr int64_t kMostBytes = (int64_t{1} << (kByteBits - 1)) - 1;

}  // namespace

int Mbarriers::offset_of(const void* barrier) {
  const std::span<std::byte> shared = host_.shared(host_.block_rank());
  const auto offset = static_cast<const std::byte*>(barrier) - shared.data();
  if (offset < 0 || offset + 8 > static_cast<ptrdiff_t>(shared.size()) || offset % 8 != 0) {
    host_.fail(fmt::format("the mbarrier at shared memory {:#x} is misaligned or outside of the block's {} bytes",
                           offset, shared.size()));
  }
  return static_cast<int>(offset);
}

Mbarriers::State Mbarriers::load(int block_rank, int offset) {
  uint64_t word = 0;
  std::memcpy(&word, host_.shared(block_rank).data() + offset, sizeof(word));
  State state;
  state.valid = word >> 60 == kMbarrierMark;
  state.phase = static_cast<int>(word >> 59 & 1);
  state.expected = static_cast<int>(word >> (kByteBits + kCountBits) & kCountMask);
  state.pending = static_cast<int>(word >> kByteBits & kCountMask);
  state.bytes = static_cast<int64_t>(word & kByteMask) - kMostBytes;
  return state;
}

void Mbarriers::store(int block_rank, int offset, const State& state) {
  const uint64_t word = kMbarrierMark << 60 | static_cast<uint64_t>(state.phase) << 59 |
                        static_cast<uint64_t>(state.expected) << (kByteBits + kCountBits) |
                        static_cast<uint64_t>(state.pending) << kByteBits |
                        static_cast<uint64_t>(state.bytes + kMostBytes);
  std::memcpy(host_.shared(block_rank).data() + offset, &word, sizeof(word));
}

Mbarriers::State Mbarriers::initialised(int block_rank, int offset) {
  const State state = load(block_rank, offset);
  if (!state.valid) {
    host_.fail(fmt::format("the mbarrier at shared memory {:#x} of block {} of the cluster is not initialised", offset,
                           block_rank));
  }
  return state;
}

std::string Mbarriers::describe(int block_rank, int offset, const State& state) const {
  return fmt::format(
      "the mbarrier at shared memory {:#x} of block {} of the cluster (phase parity {}, {} of {} arrivals "
      "missing, "
      "{} bytes outstanding)",
      offset, block_rank, state.phase, state.pending, state.expected, state.bytes);
}

void Mbarriers::init(void* barrier, int arrivals) {
  const int offset = offset_of(barrier);
  if (arrivals < 1 || arrivals > static_cast<int>(kCountMask)) {
    host_.fail(fmt::format("an mbarrier cannot count {} arrivals", arrivals));
  }
  State state;
  state.expected = state.pending = arrivals;
  store(host_.block_rank(), offset, state);
  unfenced_.insert({host_.block_rank(), offset});
}

void Mbarriers::init_fence() {
  const int rank = host_.block_rank();
  std::erase_if(unfenced_, [&](const auto& barrier) { return barrier.first == rank; });
}

void Mbarriers::count(int block_rank, int offset, int arrivals, int64_t announced, int64_t written) {
  State state = initialised(block_rank, offset);
  if (arrivals > state.pending) {
    host_.fail(fmt::format("too many arrivals at {}", describe(block_rank, offset, state)));
  }
  state.pending -= arrivals;
  state.bytes += announced - written;
  if (state.bytes > kMostBytes || state.bytes < -kMostBytes) {
    host_.fail(fmt::format("too many bytes at {}", describe(block_rank, offset, state)));
  }
  if (state.pending == 0 && state.bytes == 0) {
    state.pending = state.expected;
    state.phase ^= 1;
  }
  store(block_rank, offset, state);
}

void Mbarriers::expect_bytes(void* barrier, int bytes) { count(host_.block_rank(), offset_of(barrier), 1, bytes, 0); }

void Mbarriers::arrive(void* barrier, int block_rank) {
  const int offset = offset_of(barrier);
  if (block_rank < 0 || block_rank >= host_.cluster_size()) {
    host_.fail(fmt::format("arrival at a barrier of block {} of a cluster of {}", block_rank, host_.cluster_size()));
  }
  if (block_rank != host_.block_rank() && unfenced_.contains({block_rank, offset})) {
    host_.fail(fmt::format("{} is used by another block before barrier_init_fence()",
                           describe(block_rank, offset, initialised(block_rank, offset))));
  }
  count(block_rank, offset, 1, 0, 0);
}

bool Mbarriers::test(void* barrier, int parity) {
  if (parity != 0 && parity != 1) host_.fail(fmt::format("barrier_test() for parity {}, which is not 0 or 1", parity));
  return initialised(host_.block_rank(), offset_of(barrier)).phase != parity;
}

void Mbarriers::wait(void* barrier, int parity) {
  const int rank = host_.block_rank();
  const int offset = offset_of(barrier);
  if (parity != 0 && parity != 1) host_.fail(fmt::format("barrier_wait() for parity {}, which is not 0 or 1", parity));
  initialised(rank, offset);
  host_.wait_until([&] { return initialised(rank, offset).phase != parity; },
                   [&] {
                     return fmt::format("barrier_wait() for parity {} of {}", parity,
                                        describe(rank, offset, load(rank, offset)));
                   });
}

int Mbarriers::offset_for_transfer(const void* barrier) {
  const int offset = offset_of(barrier);
  const State state = initialised(host_.block_rank(), offset);
  if (unfenced_.contains({host_.block_rank(), offset})) {
    host_.fail(fmt::format("{} is given to a tensor load before barrier_init_fence()",
                           describe(host_.block_rank(), offset, state)));
  }
  return offset;
}

void Mbarriers::complete_bytes(int block_rank, int offset, int bytes) { count(block_rank, offset, 0, 0, bytes); }

Mbarriers::Named& Mbarriers::arrive_named(int id, int threads) {
  if (id < 1 || id > 15) host_.fail(fmt::format("named barrier {} is not in 1..15; 0 is block_barrier()'s", id));
  if (threads < 32 || threads % 32 != 0) {
    host_.fail(fmt::format("named barrier {} for {} threads, which is not a multiple of 32", id, threads));
  }
  Named& named = named_[{host_.block_rank(), id}];
  if (named.arrived > 0 && named.threads != threads) {
    host_.fail(fmt::format("named barrier {} is used for {} and for {} threads at once", id, named.threads, threads));
  }
  named.threads = threads;
  if (++named.arrived == threads) {
    named.arrived = 0;
    ++named.generation;
  }
  return named;
}

void Mbarriers::named_sync(int id, int threads) {
  const auto found = named_.find({host_.block_rank(), id});
  const uint64_t before = found == named_.end() ? 0 : found->second.generation;
  const Named& named = arrive_named(id, threads);
  host_.wait_until([&] { return named.generation != before; },
                   [&] { return fmt::format("named_barrier({}, {}), {} arrived", id, threads, named.arrived); });
}

void Mbarriers::named_arrive(int id, int threads) { arrive_named(id, threads); }

}  // namespace causeway::device
