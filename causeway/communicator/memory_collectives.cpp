#include "causeway/communicator/memory_collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "causeway/communicator/bf16.h"

namespace causeway::communicator {
namespace {

constexpr size_t kBlock = 2048;  // elements; their sums stay in the first cache

struct F32 {
  using Stored = float;
  static float load(float value) { return value; }
  static float store(float value) { return value; }
};

struct BF16 {
  using Stored = uint16_t;
  static float load(uint16_t value) { return load_bf16(value); }
  static uint16_t store(float value) { return store_bf16(value); }
};

// The sum over `from` of elements [begin, end), stored from `to`'s first element on, in each of `to`. A block is read
// completely before it is written: `to` may be where `from` is read.
template <typename Type>
void add_up(std::span<const void* const> from, size_t begin, size_t end, std::span<void* const> to) {
  using Stored = typename Type::Stored;
  std::array<float, kBlock> sums;
  std::array<Stored, kBlock> stored;
  for (size_t at = begin; at < end; at += kBlock) {
    const size_t count = std::min(kBlock, end - at);
    const auto* first = static_cast<const Stored*>(from[0]) + at;
    for (size_t i = 0; i < count; ++i) sums[i] = Type::load(first[i]);
    for (const void* source : from.subspan(1)) {
      const auto* values = static_cast<const Stored*>(source) + at;
      for (size_t i = 0; i < count; ++i) sums[i] += Type::load(values[i]);
    }
    for (size_t i = 0; i < count; ++i) stored[i] = Type::store(sums[i]);
    for (void* target : to)
      std::memcpy(static_cast<Stored*>(target) + (at - begin), stored.data(), count * sizeof(Stored));
  }
}

void add_up(DType dtype, std::span<const void* const> from, size_t begin, size_t end, std::span<void* const> to) {
  if (dtype == DType::kF32) {
    add_up<F32>(from, begin, end, to);
  } else {
    add_up<BF16>(from, begin, end, to);
  }
}

void copy(void* to, const void* from, size_t bytes) {
  if (to != from) std::memcpy(to, from, bytes);
}

std::byte* at(void* buffer, size_t offset) { return static_cast<std::byte*>(buffer) + offset; }
const std::byte* at(const void* buffer, size_t offset) { return static_cast<const std::byte*>(buffer) + offset; }

}  // namespace

void run_share(const Collective& collective, size_t rank, std::span<const void* const> from,
               std::span<void* const> to) {
  const size_t ranks = from.size();
  const auto count = static_cast<size_t>(collective.count);
  const size_t element = size_bytes(collective.dtype), bytes = count * element;
  switch (collective.kind) {
    case CollectiveKind::kAllReduce: {
      // Each rank adds up a part and gives it to all: in place, nobody else reads that part.
      const size_t begin = count * rank / ranks, end = count * (rank + 1) / ranks;
      std::vector<void*> parts(to.begin(), to.end());
      for (void*& part : parts) part = at(part, begin * element);
      return add_up(collective.dtype, from, begin, end, parts);
    }
    case CollectiveKind::kReduceScatter:
      return add_up(collective.dtype, from, rank * count, (rank + 1) * count, to.subspan(rank, 1));
    case CollectiveKind::kAllGather:
      for (void* target : to) copy(at(target, rank * bytes), from[rank], bytes);
      return;
    case CollectiveKind::kAllToAll:
      for (size_t other = 0; other < ranks; ++other)
        copy(at(to[rank], other * bytes), at(from[other], rank * bytes), bytes);
      return;
    default:
      return copy(to[rank], from[static_cast<size_t>(collective.root)], bytes);
  }
}

void run_transfer(const Transfer& transfer) {
  copy(transfer.to, transfer.from, static_cast<size_t>(transfer.count) * size_bytes(transfer.dtype));
}

}  // namespace causeway::communicator
