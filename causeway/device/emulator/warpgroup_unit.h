// wgmma, the matrix instructions of four warps on Hopper (PTX ISA, "Asynchronous warpgroup-level matrix instructions").
// From the moment an MMA is issued until the wait that covers it, its accumulators hold poison; the operands are
// read from shared memory at a random moment in between, through the asynchronous proxy.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "causeway/device/emulator/async_copy.h"
#include "causeway/device/emulator/async_host.h"
#include "causeway/device/emulator/matrix_unit.h"

namespace causeway::device {

inline constexpr int kWarpgroupThreads = 128;

class WarpgroupUnit {
 public:
  WarpgroupUnit(AsyncHost& host, DelayedEffects& effects, AsyncView& view)
      : host_(host), effects_(effects), view_(view) {}

  // These are called once by the last of the warpgroup's threads to arrive, `lanes` being what each thread brought.
  void multiply(void* const* lanes);
  void fence();
  void commit();
  void wait(int groups);
  // The running thread has ended: no wgmma of its warpgroup may still be on its way.
  void thread_ended();

 private:
  struct Sum {
    std::vector<float*> lanes;
    std::vector<float> values;  // 64 x columns
    int columns = 0;
    int open = 0;  // MMAs not yet covered by a wait
  };
  struct Wgmma {
    int warpgroup = 0;
    int block_rank = 0;
    std::shared_ptr<Sum> sum;
    MatrixElement a_element{}, b_element{};
    SharedOperand a, b;
    std::vector<float> a_values;  // from registers
    bool a_transposed = false, b_transposed = false;
    bool clears = false;  // C = A B, not C += A B
    bool done = false;
  };
  using WgmmaPointer = std::shared_ptr<Wgmma>;
  struct Warpgroup {
    bool fenced = false;
    std::vector<std::shared_ptr<Sum>> sums;
    std::deque<WgmmaPointer> queue;  // to be computed, in order
    std::vector<WgmmaPointer> open;
    std::deque<std::vector<WgmmaPointer>> groups;
  };

  Warpgroup& current() { return warpgroups_[{host_.block_rank(), host_.thread() / kWarpgroupThreads}]; }
  std::shared_ptr<Sum> sum_of(Warpgroup& group, void* const* lanes);
  SharedOperand operand(uint64_t descriptor, char name);
  void compute_until(Warpgroup& group, const Wgmma& wgmma);
  void compute(Wgmma& wgmma);
  std::vector<float> gather(const Wgmma& wgmma, const SharedOperand& from, bool is_a);

  AsyncHost& host_;
  DelayedEffects& effects_;
  AsyncView& view_;
  std::map<std::pair<int, int>, Warpgroup> warpgroups_;
};

}  // namespace causeway::device
