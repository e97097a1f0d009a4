// Barriers of NVIDIA's Hopper besides the block's own: mbarriers, which count arrivals and bytes (PTX ISA, "Parallel
// synchronization: mbarrier"), and named barriers (bar.sync, bar.arrive).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "causeway/device/emulator/async_host.h"

namespace causeway::device {

// The mbarriers and named barriers of a cluster. An mbarrier's state is in its eight bytes of shared memory; it is
// named by the rank of its block and its offset there.
class Mbarriers {
 public:
  explicit Mbarriers(AsyncHost& host) : host_(host) {}

  void init(void* barrier, int arrivals);
  void init_fence();
  void expect_bytes(void* barrier, int bytes);  // and arrives
  void arrive(void* barrier, int block_rank);   // at the barrier of that block with the same offset
  void wait(void* barrier, int parity);
  bool test(void* barrier, int parity);  // whether wait() would end at once

  // Where a barrier of the running thread's block lies. Fails unless it was initialised, and its initialisation made
  // visible to others, there.
  int offset_for_transfer(const void* barrier);
  // Bytes that TMA has written.
  void complete_bytes(int block_rank, int offset, int bytes);

  void named_sync(int id, int threads);
  void named_arrive(int id, int threads);

 private:
  struct State {
    bool valid = false;
    int expected = 0;  // arrivals of a phase
    int pending = 0;   // still to come in this phase
    int phase = 0;
    int64_t bytes = 0;  // announced and not yet written
  };
  struct Named {
    int threads = 0;
    int arrived = 0;
    uint64_t generation = 0;
  };

  int offset_of(const void* barrier);
  State load(int block_rank, int offset);
  void store(int block_rank, int offset, const State& state);
  State initialised(int block_rank, int offset);
  void count(int block_rank, int offset, int arrivals, int64_t announced, int64_t written);
  std::string describe(int block_rank, int offset, const State& state) const;
  Named& arrive_named(int id, int threads);

  AsyncHost& host_;
  std::set<std::pair<int, int>> unfenced_;  // initialised, and the fence for it is missing so far
  std::map<std::pair<int, int>, Named> named_;
};

}  // namespace causeway::device
