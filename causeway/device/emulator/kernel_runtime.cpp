#include "causeway/device/emulator/kernel_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "causeway/base/error.h"
#include "causeway/device/emulator/thread_cluster.h"

namespace causeway::device {
namespace {

// Kernels are compiled without unwind tables: an exception must not leave the host's part of a fiber's stack. It is
// handed to the scheduler instead, once no handler of it is active, and the fiber is left for good.
template <class Work>
auto guarded(const Work& work) -> std::invoke_result_t<Work, ThreadCluster&> {
  ThreadCluster& cluster = ThreadCluster::running();
  std::exception_ptr failure;
  try {
    return work(cluster);
  } catch (...) {
    failure = std::current_exception();
  }
  cluster.abandon(std::move(failure));
}

// Channels of named barriers, beside those of mbarriers, which are their offsets in shared memory.
int named_channel(int id) { return -1 - id; }

struct LaneShuffle {
  uint32_t value;
  int source;
  uint32_t result;
};
struct LaneVote {
  int value;
  uint64_t result;
};

template <class T>
T& lane_of(void* const* lanes, int index) {
  return *static_cast<T*>(lanes[index]);
}

bool lanes_run_in_lockstep(ThreadCluster& cluster) { return cluster.launch().architecture->lanes_in_lockstep; }

int wave_width(ThreadCluster& cluster) { return cluster.launch().architecture->wave_width; }

uint32_t shuffle(ThreadCluster& cluster, const Collective& collective, uint32_t value, int source) {
  LaneShuffle lane{value, source, 0};
  const int width = wave_width(cluster);
  cluster.meet_wave(collective, &lane, [&](void* const* lanes) {
    for (int i = 0; i < width; ++i) {
      auto& to = lane_of<LaneShuffle>(lanes, i);
      to.result = lane_of<LaneShuffle>(lanes, to.source & (width - 1)).value;
    }
    if (lanes_run_in_lockstep(cluster)) cluster.order_wave();
  });
  return lane.result;
}

int thread_index() { return ThreadCluster::running().thread(); }
int block_index() { return ThreadCluster::running().block(); }
int block_count() { return ThreadCluster::running().launch().blocks; }
char* shared_memory() {
  ThreadCluster& cluster = ThreadCluster::running();
  return reinterpret_cast<char*>(cluster.shared(cluster.block_rank()).data());
}

void check_arguments(int64_t bytes) {
  guarded([&](ThreadCluster& cluster) {
    const auto given = static_cast<int64_t>(cluster.launch().argument_bytes);
    if (given == bytes) return;
    cluster.fail(fmt::format("takes {} bytes of arguments (tensor maps, buffers and sizes), and the launch gives {}",
                             bytes, given));
  });
}

void block_barrier(const char* file, int line) {
  guarded([&](ThreadCluster& cluster) {
    cluster.meet_block({"block_barrier", file, line}, [&](void* const*) { cluster.order_block(); });
  });
}

void wave_barrier(const char* file, int line) {
  guarded([&](ThreadCluster& cluster) {
    cluster.meet_wave({"wave_barrier", file, line}, nullptr, [&](void* const*) { cluster.order_wave(); });
  });
}

uint32_t wave_shuffle(uint32_t value, int lane, const char* file, int line) {
  return guarded([&](ThreadCluster& cluster) { return shuffle(cluster, {"wave_shuffle", file, line}, value, lane); });
}

uint32_t wave_shuffle_xor(uint32_t value, int mask, const char* file, int line) {
  return guarded([&](ThreadCluster& cluster) {
    const int width = wave_width(cluster);
    if (mask < 0 || mask >= width) {
      cluster.fail(fmt::format("wave_shuffle_xor() with mask {} in a wave of {} lanes", mask, width));
    }
    const int source = cluster.thread() % width ^ mask;
    return shuffle(cluster, {"wave_shuffle_xor", file, line, mask}, value, source);
  });
}

uint64_t wave_ballot(int value, const char* file, int line) {
  return guarded([&](ThreadCluster& cluster) {
    LaneVote lane{value, 0};
    const int width = wave_width(cluster);
    cluster.meet_wave({"wave_ballot", file, line}, &lane, [&](void* const* lanes) {
      uint64_t votes = 0;
      for (int i = 0; i < width; ++i) votes |= uint64_t{lane_of<LaneVote>(lanes, i).value != 0} << i;
      for (int i = 0; i < width; ++i) lane_of<LaneVote>(lanes, i).result = votes;
      if (lanes_run_in_lockstep(cluster)) cluster.order_wave();
    });
    return lane.result;
  });
}

void access(const void* address, int64_t bytes, int writes, const void* place) {
  guarded(
      [&](ThreadCluster& cluster) { cluster.text_access(address, static_cast<size_t>(bytes), writes != 0, place); });
}

void copy_async_16(void* shared, const void* global, int valid) {
  guarded([&](ThreadCluster& cluster) {
    if (cluster.launch().checked) {
      if (valid != 0) cluster.access(global, 16, false, kCopyAsyncPlace);
      cluster.access(shared, 16, true, kCopyAsyncPlace);
    }
    cluster.units().copies.copy_16(shared, global, valid != 0);
  });
}
void copy_async_commit() {
  guarded([](ThreadCluster& cluster) { cluster.units().copies.commit(); });
}
void copy_async_wait(int groups) {
  guarded([&](ThreadCluster& cluster) { cluster.units().copies.wait(groups); });
}

void load_matrices(void* lane, int transposed) {
  guarded([&](ThreadCluster& cluster) {
    const auto& load = *static_cast<const LaneMatrixLoad*>(lane);
    if (reinterpret_cast<uintptr_t>(load.row) % 16 != 0) cluster.fail("load_fragment() from a misaligned row");
    if (cluster.launch().checked) cluster.access(load.row, 16, false, kLoadMatricesPlace);
    cluster.meet_wave({"load_fragment", nullptr, 0, transposed}, lane,
                      [&](void* const* lanes) { device::load_matrices(lanes, transposed != 0); });
  });
}

void multiply_matrices(void* lane, int a_element, int b_element) {
  guarded([&](ThreadCluster& cluster) {
    cluster.meet_wave({"multiply_add", nullptr, 0, a_element | b_element << 8}, lane, [&](void* const* lanes) {
      if (lanes_run_in_lockstep(cluster)) {
        multiply_matrices_amd(lanes, static_cast<MatrixElement>(a_element), static_cast<MatrixElement>(b_element));
      } else {
        CAUSEWAY_CHECK(a_element == b_element);
        multiply_matrices_nvidia(lanes, static_cast<MatrixElement>(a_element));
      }
    });
  });
}

int shared_offset(ThreadCluster& cluster, const void* shared) {
  return static_cast<int>(static_cast<const std::byte*>(shared) - cluster.shared(cluster.block_rank()).data());
}

void barrier_init(void* barrier, int arrivals) {
  guarded([&](ThreadCluster& cluster) { cluster.units().barriers.init(barrier, arrivals); });
}
void barrier_init_fence() {
  guarded([](ThreadCluster& cluster) { cluster.units().barriers.init_fence(); });
}
void barrier_expect_bytes(void* barrier, int bytes) {
  guarded([&](ThreadCluster& cluster) {
    cluster.release({cluster.block_rank(), shared_offset(cluster, barrier)});
    cluster.units().barriers.expect_bytes(barrier, bytes);
  });
}
void barrier_arrive(void* barrier, int block_rank) {
  guarded([&](ThreadCluster& cluster) {
    cluster.release({block_rank, shared_offset(cluster, barrier)});
    cluster.units().barriers.arrive(barrier, block_rank);
  });
}
int barrier_test(void* barrier, int parity) {
  return guarded([&](ThreadCluster& cluster) {
    const bool done = cluster.units().barriers.test(barrier, parity);
    if (done) cluster.acquire({cluster.block_rank(), shared_offset(cluster, barrier)});
    return done ? 1 : 0;
  });
}
void barrier_wait(void* barrier, int parity) {
  guarded([&](ThreadCluster& cluster) {
    cluster.units().barriers.wait(barrier, parity);
    cluster.acquire({cluster.block_rank(), shared_offset(cluster, barrier)});
  });
}

BoxCoordinates coordinates(const int* first, int rank) {
  BoxCoordinates coordinates{};
  std::copy(first, first + rank, coordinates.begin());
  return coordinates;
}

// The rows of the box, as far as they lie inside of the tensor, count as the thread's own accesses to device memory.
void access_box(ThreadCluster& cluster, const EmulatedTensorMap& map, const BoxCoordinates& first, bool writes) {
  const int64_t begin = std::max<int64_t>(first[0], 0);
  const int64_t end = std::min<int64_t>(int64_t{first[0]} + map.box[0], map.sizes[0]);
  if (begin >= end) return;
  for (int row = 0; row < map.box_rows(); ++row) {
    int64_t offset = begin * map.element_bytes;
    bool inside = true;
    int rest = row;
    for (size_t d = 1; d < map.rank; ++d) {
      const int64_t at = int64_t{first[d]} + rest % map.box[d];
      rest /= map.box[d];
      inside = inside && at >= 0 && at < map.sizes[d];
      offset += at * map.stride_bytes[d];
    }
    if (!inside) continue;
    cluster.access(map.base + offset, static_cast<size_t>((end - begin) * map.element_bytes), writes,
                   writes ? kTensorStorePlace : kTensorLoadPlace);
  }
}

// The copy counts as the thread's own write; who waits for the barrier has seen it.
void tensor_load(void* shared, const void* map, void* barrier, const int* first, int rank, uint32_t block_mask) {
  guarded([&](ThreadCluster& cluster) {
    cluster.units().tensors.load(shared, map, barrier, coordinates(first, rank), rank, block_mask);
    if (!cluster.launch().checked) return;
    const auto& decoded = *static_cast<const EmulatedTensorMap*>(map);
    access_box(cluster, decoded, coordinates(first, rank), false);
    const int own = cluster.block_rank();
    const auto bytes = static_cast<size_t>(decoded.shared_bytes());
    for (int block = 0; block < cluster.cluster_size(); ++block) {
      if (block_mask == 0 ? block != own : (block_mask >> block & 1) == 0) continue;
      cluster.shared_access(block, static_cast<size_t>(shared_offset(cluster, shared)), bytes, true, kTensorLoadPlace);
      cluster.release({block, shared_offset(cluster, barrier)});
    }
  });
}
void tensor_store(const void* map, const void* shared, const int* first, int rank) {
  guarded([&](ThreadCluster& cluster) {
    cluster.units().tensors.store(map, shared, coordinates(first, rank), rank);
    if (!cluster.launch().checked) return;
    const auto& decoded = *static_cast<const EmulatedTensorMap*>(map);
    access_box(cluster, decoded, coordinates(first, rank), true);
    cluster.shared_access(cluster.block_rank(), static_cast<size_t>(shared_offset(cluster, shared)),
                          static_cast<size_t>(decoded.shared_bytes()), false, kTensorStorePlace);
  });
}
void tensor_store_commit() {
  guarded([](ThreadCluster& cluster) { cluster.units().tensors.store_commit(); });
}
void tensor_store_wait(int groups) {
  guarded([&](ThreadCluster& cluster) { cluster.units().tensors.store_wait(groups); });
}
void prefetch_tensor_map(const void* map) {
  guarded([&](ThreadCluster& cluster) { cluster.units().tensors.prefetch(map); });
}
void fence_async_shared() {
  guarded([](ThreadCluster& cluster) { cluster.units().view.publish(); });
}

void warpgroup_multiply(void* lane) {
  guarded([&](ThreadCluster& cluster) {
    cluster.meet_warpgroup({"warpgroup_multiply_add"}, lane,
                           [&](void* const* lanes) { cluster.units().warpgroups.multiply(lanes); });
  });
}
void warpgroup_fence() {
  guarded([](ThreadCluster& cluster) {
    cluster.meet_warpgroup({"warpgroup_fence"}, nullptr, [&](void* const*) { cluster.units().warpgroups.fence(); });
  });
}
void warpgroup_commit() {
  guarded([](ThreadCluster& cluster) {
    cluster.meet_warpgroup({"warpgroup_commit"}, nullptr, [&](void* const*) { cluster.units().warpgroups.commit(); });
  });
}
void warpgroup_wait(int groups) {
  guarded([&](ThreadCluster& cluster) {
    cluster.meet_warpgroup({"warpgroup_wait", nullptr, 0, groups}, nullptr,
                           [&](void* const*) { cluster.units().warpgroups.wait(groups); });
  });
}

void named_barrier(int id, int threads) {
  guarded([&](ThreadCluster& cluster) {
    const RaceDetector::Channel channel{cluster.block_rank(), named_channel(id)};
    cluster.release(channel);
    cluster.units().barriers.named_sync(id, threads);
    cluster.acquire(channel);
  });
}
void named_barrier_arrive(int id, int threads) {
  guarded([&](ThreadCluster& cluster) {
    cluster.release({cluster.block_rank(), named_channel(id)});
    cluster.units().barriers.named_arrive(id, threads);
  });
}
int cluster_rank() { return ThreadCluster::running().block_rank(); }
void store_in_block(float* same_offset, int block_rank, float value) {
  guarded([&](ThreadCluster& cluster) {
    const int offset = shared_offset(cluster, same_offset);
    if (block_rank < 0 || block_rank >= cluster.cluster_size())
      cluster.fail(fmt::format("store_in_block() in block {} of a cluster of {}", block_rank, cluster.cluster_size()));
    const std::span<std::byte> shared = cluster.shared(block_rank);
    const auto at = static_cast<size_t>(offset);
    if (offset < 0 || at % sizeof value != 0 || at + sizeof value > shared.size())
      cluster.fail(fmt::format("store_in_block() to offset {}, which is misaligned or outside of the block's {} bytes",
                               offset, shared.size()));
    cluster.shared_access(block_rank, at, sizeof value, true, kStoreInBlockPlace);
    std::memcpy(shared.data() + at, &value, sizeof value);
  });
}
void cluster_barrier() {
  guarded([](ThreadCluster& cluster) {
    cluster.meet_cluster({"cluster_barrier"}, [&](void* const*) { cluster.order_cluster(); });
  });
}
int take_task(const void* counter, int tasks, int refusals, int in_order) {
  return guarded([&](ThreadCluster& cluster) { return cluster.tasks().take(counter, tasks, refusals, in_order != 0); });
}
void bulk_store(float* to, const void* shared, int bytes, int adds) {
  guarded([&](ThreadCluster& cluster) { cluster.bulk_store(to, shared, bytes, adds != 0); });
}
void bulk_wait(int groups) {
  guarded([&](ThreadCluster& cluster) { cluster.units().tensors.write_wait(groups); });
}
void wait_for_turn(const uint32_t* turn, uint32_t value) {
  guarded([&](ThreadCluster& cluster) { cluster.wait_for_turn(turn, value); });
}
void pass_turn(uint32_t* turn, uint32_t value) {
  guarded([&](ThreadCluster& cluster) { cluster.pass_turn(turn, value); });
}

}  // namespace

const EmulatorRuntime& emulator_runtime() {
  static constexpr EmulatorRuntime table = {
      thread_index,
      block_index,
      block_count,
      shared_memory,
      check_arguments,
      block_barrier,
      wave_barrier,
      wave_shuffle,
      wave_shuffle_xor,
      wave_ballot,
      access,
      copy_async_16,
      copy_async_commit,
      copy_async_wait,
      load_matrices,
      multiply_matrices,
      barrier_init,
      barrier_init_fence,
      barrier_expect_bytes,
      barrier_arrive,
      barrier_wait,
      barrier_test,
      tensor_load,
      tensor_store,
      tensor_store_commit,
      tensor_store_wait,
      bulk_store,
      bulk_wait,
      wait_for_turn,
      pass_turn,
      prefetch_tensor_map,
      fence_async_shared,
      warpgroup_multiply,
      warpgroup_fence,
      warpgroup_commit,
      warpgroup_wait,
      named_barrier,
      named_barrier_arrive,
      cluster_rank,
      cluster_barrier,
      store_in_block,
      take_task,
  };
  return table;
}

}  // namespace causeway::device
