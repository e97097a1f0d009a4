// A collective's inputs, and by plain loops what must come of them.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "causeway/communicator/communicator.h"
#include "causeway/graph/dtype.h"

namespace causeway::communicator {

// Buffers of all ranks as bytes. What is sent holds numbers whose sums are rounded, or small integers whose sums are
// exact in any order.
struct Exchange {
  Collective collective;
  int ranks;
  std::vector<std::vector<std::byte>> sent, received;

  Exchange(const Collective& collective, int ranks, bool exact = false) : collective(collective), ranks(ranks) {
    std::mt19937_64 random(static_cast<uint64_t>(collective.count) * 31 + static_cast<uint64_t>(ranks));
    std::normal_distribution<double> normal;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& values = sent.emplace_back(bytes_of(collective.sent(ranks)));
      for (int64_t i = 0; i < collective.sent(ranks); ++i)
        write_element(collective.dtype, values.data(), static_cast<size_t>(i),
                      exact ? std::round(4 * normal(random)) : normal(random));
      received.emplace_back(bytes_of(collective.received(ranks)), std::byte{0xff});
    }
  }
  size_t bytes_of(int64_t count) const { return static_cast<size_t>(count) * size_bytes(collective.dtype); }
  double read(size_t rank, int64_t i) const {
    return read_element(collective.dtype, sent[rank].data(), static_cast<size_t>(i));
  }
  // In the order of ranks, in f32.
  double sum(int64_t i) const {
    auto total = static_cast<float>(read(0, i));
    for (size_t rank = 1; rank < sent.size(); ++rank) total += static_cast<float>(read(rank, i));
    return total;
  }
  double expected(int rank, int64_t i) const {
    const int64_t count = collective.count;
    switch (collective.kind) {
      case CollectiveKind::kAllReduce:
        return sum(i);
      case CollectiveKind::kReduceScatter:
        return sum(rank * count + i);
      case CollectiveKind::kAllGather:
        return read(static_cast<size_t>(i / count), i % count);
      case CollectiveKind::kAllToAll:
        return read(static_cast<size_t>(i / count), rank * count + i % count);
      case CollectiveKind::kBroadcast:
        return read(static_cast<size_t>(collective.root), i);
      default:
        return read(static_cast<size_t>((rank + ranks - 1) % ranks), i);
    }
  }
  // What `rank` must receive.
  std::vector<std::byte> right(int rank) const {
    std::vector<std::byte> values(bytes_of(collective.received(ranks)));
    for (int64_t i = 0; i < collective.received(ranks); ++i)
      write_element(collective.dtype, values.data(), static_cast<size_t>(i), expected(rank, i));
    return values;
  }
};

}  // namespace causeway::communicator
