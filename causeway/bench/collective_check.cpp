#include "causeway/bench/collective_check.h"

#include <algorithm>
#include <cstring>

#include "causeway/base/error.h"

namespace causeway::bench {
namespace {

constexpr int64_t kPeriod = 8191;
// Of what is moved and compared at once. A process keeps a piece of every rank: with many ranks, they are smaller.
constexpr int64_t kPeriods = 128;
constexpr int64_t kRanksOfLargePieces = 8;

// splitmix64's output function (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Up to this, integers are bf16 numbers.
constexpr int kLargestExact = 256;

int input(int rank, int64_t position, int ranks) {
  const int amplitude = std::clamp(kLargestExact / ranks, 1, 15);
  const auto range = 2 * static_cast<uint64_t>(amplitude) + 1;
  const uint64_t key = static_cast<uint64_t>(rank) * static_cast<uint64_t>(kPeriod) + static_cast<uint64_t>(position);
  return static_cast<int>(mix(key) % range) - amplitude;
}

// A piece and a period more, so that a piece can begin at any phase.
template <typename Value>
std::vector<std::byte> sequence(DType dtype, int64_t piece, Value&& value) {
  const size_t period_bytes = static_cast<size_t>(kPeriod) * size_bytes(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(piece + kPeriod) * size_bytes(dtype));
  for (int64_t i = 0; i < kPeriod; ++i) write_element(dtype, bytes.data(), static_cast<size_t>(i), value(i));
  for (size_t at = period_bytes; at < bytes.size(); at += period_bytes)
    std::memcpy(bytes.data() + at, bytes.data(), period_bytes);
  return bytes;
}

}  // namespace

CollectiveCheck::CollectiveCheck(const Communicator& communicator, const Collective& collective, std::vector<int> ranks)
    : communicator_(communicator),
      collective_(collective),
      piece_(kPeriod * kPeriods * kRanksOfLargePieces / std::max<int64_t>(kRanksOfLargePieces, communicator.size()) /
             kPeriod * kPeriod),
      ranks_(std::move(ranks)) {
  const int size = communicator.size();
  if (size > kLargestExact)
    throw Error(ErrorKind::kUnsupported, fmt::format("sums over {} ranks cannot be checked to the bit", size),
                "collectives", fmt::format("Take {} ranks or fewer.", kLargestExact));
  for (int rank = 0; rank < size; ++rank) {
    inputs_.push_back(sequence(collective.dtype, piece_, [&](int64_t i) { return input(rank, i, size); }));
    senders_.push_back((rank + size - 1) % size);
  }
  sum_ = sequence(collective.dtype, piece_, [&](int64_t i) {
    int sum = 0;
    for (int rank = 0; rank < size; ++rank) sum += input(rank, i, size);
    return sum;
  });
  nan_.assign(inputs_.front().size(), std::byte{0xff});
}

void CollectiveCheck::write(int rank, std::byte* to, const Piece& piece) const {
  const size_t element = size_bytes(collective_.dtype);
  const std::byte* source = piece.sequence->data() + static_cast<size_t>(piece.phase % kPeriod) * element;
  Device& device = communicator_.device(rank);
  device.copy_to_device(to, source, static_cast<size_t>(std::min(piece_, piece.count)) * element);
  // Every piece is as the first one.
  for (int64_t at = piece_; at < piece.count; at += piece_)
    device.copy_on_device(to + static_cast<size_t>(at) * element, to,
                          static_cast<size_t>(std::min(piece_, piece.count - at)) * element);
}

void CollectiveCheck::fill(std::span<void* const> from, std::span<void* const> to) const {
  const int size = communicator_.size();
  const bool is_broadcast = collective_.kind == CollectiveKind::kBroadcast;
  for (const int rank : ranks_) {
    // Of a broadcast, what others than the root send must not be looked at.
    const auto& sent = is_broadcast && rank != collective_.root ? nan_ : inputs_[static_cast<size_t>(rank)];
    write(rank, static_cast<std::byte*>(to[place(rank)]), {&nan_, 0, collective_.received(size)});
    write(rank, static_cast<std::byte*>(from[place(rank)]), {&sent, 0, collective_.sent(size)});
  }
}

std::vector<CollectiveCheck::Piece> CollectiveCheck::expected(int rank) const {
  const int64_t count = collective_.count;
  switch (collective_.kind) {
    case CollectiveKind::kAllReduce:
      return {{&sum_, 0, count}};
    case CollectiveKind::kReduceScatter:
      return {{&sum_, rank * count, count}};
    case CollectiveKind::kBroadcast:
      return {{&inputs_[static_cast<size_t>(collective_.root)], 0, count}};
    case CollectiveKind::kSendReceive:
      return {{&inputs_[static_cast<size_t>(senders_[static_cast<size_t>(rank)])], 0, count}};
    default:
      break;
  }
  const int64_t phase = collective_.kind == CollectiveKind::kAllToAll ? rank * count : 0;
  std::vector<Piece> pieces;
  for (const auto& values : inputs_) pieces.push_back({&values, phase, count});
  return pieces;
}

int64_t CollectiveCheck::differences(int rank, const std::byte* from, const Piece& piece,
                                     std::vector<std::byte>& host) const {
  const size_t element = size_bytes(collective_.dtype);
  const std::byte* right = piece.sequence->data() + static_cast<size_t>(piece.phase % kPeriod) * element;
  int64_t different = 0;
  for (int64_t at = 0; at < piece.count; at += piece_) {
    const auto count = static_cast<size_t>(std::min(piece_, piece.count - at));
    communicator_.device(rank).copy_to_host(host.data(), from + static_cast<size_t>(at) * element, count * element);
    if (std::memcmp(host.data(), right, count * element) == 0) continue;
    for (size_t i = 0; i < count; ++i)
      // As numbers: a sum of 0 may be -0. A NaN is never right.
      if (!(read_element(collective_.dtype, host.data(), i) == read_element(collective_.dtype, right, i))) ++different;
  }
  return different;
}

int64_t CollectiveCheck::wrong(std::span<void* const> to) const {
  std::vector<std::byte> host(static_cast<size_t>(piece_) * size_bytes(collective_.dtype));
  int64_t count = 0;
  for (const int rank : ranks_) {
    const auto* at = static_cast<const std::byte*>(to[place(rank)]);
    for (const Piece& piece : expected(rank)) {
      count += differences(rank, at, piece, host);
      at += static_cast<size_t>(piece.count) * size_bytes(collective_.dtype);
    }
  }
  return count;
}

}  // namespace causeway::bench
