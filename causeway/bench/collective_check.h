// Inputs of a collective and what must come of them, to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "causeway/communicator/communicator.h"

namespace causeway::bench {

// A sequence of small integers for each rank, which repeats after a prime number of elements, so that data of another
// rank or place shows. Sums over up to 256 ranks are exact in bf16 and f32, in any order.
class CollectiveCheck {
 public:
  // Ranks that neither send nor receive have no buffers; `ranks` are the local ones that do.
  // Throws Error(kUnsupported) beyond 256 ranks.
  CollectiveCheck(const Communicator& communicator, const Collective& collective, std::vector<int> ranks);

  // Fills the buffers, of local ranks in their order: what is sent with its inputs, what is received with NaN. In
  // place, `from` points into `to` or the other way around, as NCCL has it.
  void fill(std::span<void* const> from, std::span<void* const> to) const;
  // Elements received by local ranks that are not what they must be. Waits for the devices.
  int64_t wrong(std::span<void* const> to) const;

  // Who sends to `rank` in a send_receive; at first the rank before it.
  void set_sender(int rank, int sender) { senders_[static_cast<size_t>(rank)] = sender; }

 private:
  // A repeating sequence, from `phase` on.
  struct Piece {
    const std::vector<std::byte>* sequence = nullptr;
    int64_t phase = 0;
    int64_t count = 0;
  };
  std::vector<Piece> expected(int rank) const;
  size_t place(int rank) const { return static_cast<size_t>(rank - communicator_.first_local()); }
  void write(int rank, std::byte* to, const Piece& piece) const;
  int64_t differences(int rank, const std::byte* from, const Piece& piece, std::vector<std::byte>& host) const;

  const Communicator& communicator_;
  Collective collective_;
  int64_t piece_;  // elements that are moved and compared at once
  std::vector<int> ranks_;
  std::vector<std::vector<std::byte>> inputs_;  // by rank, several periods
  std::vector<std::byte> sum_, nan_;
  std::vector<int> senders_;
};

}  // namespace causeway::bench
