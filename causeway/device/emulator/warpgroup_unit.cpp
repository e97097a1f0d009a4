#include "causeway/device/emulator/warpgroup_unit.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

namespace causeway::device {

namespace {

constexpr int kRows = 64;

const LaneWarpgroupMultiply& lane(void* const* lanes, int index) {
  return *static_cast<const LaneWarpgroupMultiply*>(lanes[index]);
}

int depth_of(MatrixElement element) { return 32 / matrix_element_bytes(element); }

// The A of registers: as in mma.sync's, each warp has sixteen rows; a register holds neighbouring k.
std::vector<float> a_from_registers(void* const* lanes, MatrixElement element) {
  const int depth = depth_of(element), per_register = depth / 8;
  std::vector<float> a(static_cast<size_t>(kRows) * depth);
  for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
    for (int word = 0; word < 4; ++word) {
      for (int i = 0; i < per_register; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + word % 2 * 8;
        const int k = thread % 4 * per_register + word / 2 * depth / 2 + i;
        a[static_cast<size_t>(row) * depth + k] =
            matrix_element(element, lane(lanes, thread).a_registers, word * per_register + i);
      }
    }
  }
  return a;
}

}  // namespace

SharedOperand WarpgroupUnit::operand(uint64_t descriptor, char name) {
  SharedOperand operand;
  const std::string problem = operand.decode(descriptor);
  if (!problem.empty()) host_.fail(fmt::format("the descriptor of wgmma's operand {} {}", name, problem));
  return operand;
}

std::shared_ptr<WarpgroupUnit::Sum> WarpgroupUnit::sum_of(Warpgroup& group, void* const* lanes) {
  const LaneWarpgroupMultiply& first = lane(lanes, 0);
  for (const std::shared_ptr<Sum>& sum : group.sums) {
    if (sum->lanes[0] != first.c) continue;
    if (sum->columns != first.columns) {
      host_.fail(fmt::format("wgmma of {} columns into accumulators that one of {} columns is still working on",
                             first.columns, sum->columns));
    }
    return sum;
  }
  if (!group.fenced) {
    host_.fail("issues wgmma without warpgroup_fence() since it last could touch the accumulators");
  }
  auto sum = std::make_shared<Sum>();
  sum->columns = first.columns;
  sum->values.assign(static_cast<size_t>(kRows) * first.columns, 0.0f);
  for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
    float* c = lane(lanes, thread).c;
    sum->lanes.push_back(c);
    for (int i = 0; i < first.columns / 2; ++i) {
      const int place = warpgroup_accumulator_row(thread, i) * first.columns + warpgroup_accumulator_column(thread, i);
      // Without accumulation the registers may hold anything.
      if (first.accumulate != 0) sum->values[static_cast<size_t>(place)] = c[i];
      c[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  group.sums.push_back(sum);
  return sum;
}

void WarpgroupUnit::multiply(void* const* lanes) {
  Warpgroup& group = current();
  const LaneWarpgroupMultiply& first = lane(lanes, 0);
  for (int thread = 1; thread < kWarpgroupThreads; ++thread) {
    const LaneWarpgroupMultiply& other = lane(lanes, thread);
    if (other.a != first.a || other.b != first.b || other.accumulate != first.accumulate) {
      host_.fail(fmt::format(
          "wgmma with other descriptors, or another flag, in thread {} of the warpgroup than in thread 0", thread));
    }
  }
  auto wgmma = std::make_shared<Wgmma>();
  wgmma->warpgroup = host_.thread() / kWarpgroupThreads;
  wgmma->block_rank = host_.block_rank();
  wgmma->a_element = static_cast<MatrixElement>(first.a_element);
  wgmma->b_element = static_cast<MatrixElement>(first.b_element);
  wgmma->a_transposed = first.a_transposed != 0;
  wgmma->b_transposed = first.b_transposed != 0;
  wgmma->b = operand(first.b, 'B');
  if (first.a_registers != nullptr) {
    if (!group.fenced) host_.fail("issues wgmma with A in registers without warpgroup_fence()");
    wgmma->a_values = a_from_registers(lanes, wgmma->a_element);
  } else {
    wgmma->a = operand(first.a, 'A');
  }
  wgmma->sum = sum_of(group, lanes);
  wgmma->clears = first.accumulate == 0;
  ++wgmma->sum->open;
  group.queue.push_back(wgmma);
  group.open.push_back(wgmma);
  effects_.add([this, &group, wgmma] { compute_until(group, *wgmma); });
}

void WarpgroupUnit::fence() { current().fenced = true; }

void WarpgroupUnit::commit() {
  Warpgroup& group = current();
  group.groups.push_back(std::move(group.open));
  group.open.clear();
}

void WarpgroupUnit::wait(int groups) {
  Warpgroup& group = current();
  while (group.groups.size() > static_cast<size_t>(groups)) {
    for (const WgmmaPointer& wgmma : group.groups.front()) {
      compute_until(group, *wgmma);
      --wgmma->sum->open;
    }
    group.groups.pop_front();
  }
  std::erase_if(group.sums, [&](const std::shared_ptr<Sum>& sum) {
    if (sum->open > 0) return false;
    for (int thread = 0; thread < kWarpgroupThreads; ++thread) {
      for (int i = 0; i < sum->columns / 2; ++i) {
        const int place = warpgroup_accumulator_row(thread, i) * sum->columns + warpgroup_accumulator_column(thread, i);
        sum->lanes[static_cast<size_t>(thread)][i] = sum->values[static_cast<size_t>(place)];
      }
    }
    group.fenced = false;
    return true;
  });
}

void WarpgroupUnit::thread_ended() {
  const auto found = warpgroups_.find({host_.block_rank(), host_.thread() / kWarpgroupThreads});
  if (found != warpgroups_.end() && !found->second.sums.empty()) {
    host_.fail("ends before warpgroup_wait<0>() has covered its wgmma");
  }
}

void WarpgroupUnit::compute_until(Warpgroup& group, const Wgmma& wgmma) {
  while (!wgmma.done) {
    const WgmmaPointer next = group.queue.front();
    group.queue.pop_front();
    compute(*next);
    next->done = true;
  }
}

std::vector<float> WarpgroupUnit::gather(const Wgmma& wgmma, const SharedOperand& from, bool is_a) {
  const MatrixElement element = is_a ? wgmma.a_element : wgmma.b_element;
  const int depth = depth_of(element), bytes = matrix_element_bytes(element);
  const int lines = is_a ? kRows : wgmma.sum->columns;
  const bool transposed = is_a ? wgmma.a_transposed : wgmma.b_transposed;
  const std::span<const std::byte> shared = host_.shared(wgmma.block_rank);
  const std::string reader = fmt::format("wgmma of warpgroup {}, operand {},", wgmma.warpgroup, is_a ? 'A' : 'B');
  std::vector<float> values(static_cast<size_t>(lines * depth));
  const int run = 16 / bytes;  // elements of one 16-byte piece, which lie along k, or along the lines when transposed
  for (int line = 0; line < lines; line += transposed ? run : 1) {
    for (int k = 0; k < depth; k += transposed ? 1 : run) {
      const int offset = from.offset(line, k, bytes, transposed);
      if (offset < 0 || offset + 16 > static_cast<int>(shared.size())) {
        host_.fail(fmt::format("{} reads shared memory {:#x}, outside of the block's {} bytes", reader, offset,
                               shared.size()));
      }
      view_.check(wgmma.block_rank, offset, 16, reader);
      for (int i = 0; i < run; ++i) {
        const int at_line = transposed ? line + i : line, at_k = transposed ? k : k + i;
        const int place = is_a ? at_line * depth + at_k : at_k * lines + at_line;
        values[static_cast<size_t>(place)] = matrix_element(element, shared.data() + offset, i);
      }
    }
  }
  return values;
}

void WarpgroupUnit::compute(Wgmma& wgmma) {
  const std::vector<float> a = wgmma.a_values.empty() ? gather(wgmma, wgmma.a, true) : wgmma.a_values;
  const std::vector<float> b = gather(wgmma, wgmma.b, false);
  Sum& sum = *wgmma.sum;
  if (wgmma.clears) std::fill(sum.values.begin(), sum.values.end(), 0.0f);
  multiply_dense(sum.values.data(), a.data(), b.data(), sum.columns, depth_of(wgmma.a_element));
}

}  // namespace causeway::device
