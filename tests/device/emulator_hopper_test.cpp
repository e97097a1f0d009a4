// Kernel text that uses TMA, mbarriers, clusters and wgmma, on the emulator; and the faults that it
// has to find there.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/emulator/tensor_map.h"

namespace causeway::device {

using namespace codegen;
namespace {

// C[64][64] = A[64][depth] B[depth][64]: the first warpgroup computes, a thread of the second loads, in two stages of
// 64 of depth. sizes: depth, bytes announced per stage, what to leave out.
const char* kHopperGemmText = R"(
#include "causeway/kernels/gpu/hopper.h"
constexpr int kNoFence = 1, kNoWait = 2, kNoBarrierFence = 3, kOneFence = 4;
template <bool kATransposed, bool kBTransposed>
CAUSEWAY_INLINE void product(const TensorMapBytes* maps, const int64_t* sizes) {
  constexpr int kStages = 2, kTile = 8192;
  char* tiles = shared_memory() + 1024;
  auto* full = reinterpret_cast<Mbarrier*>(shared_memory());
  auto* empty = full + kStages;
  if (thread_index() == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + i, 1);
      barrier_init(empty + i, 128);
    }
    if (sizes[2] != kNoBarrierFence) barrier_init_fence();
  }
  block_barrier();
  const int steps = static_cast<int>(sizes[0]) / 64;
  if (thread_index() >= 128) {
    registers_decrease<40>();
    if (thread_index() == 128) {
      for (int step = 0; step < steps; ++step) {
        const int stage = step % kStages;
        if (step >= kStages) barrier_wait(empty + stage, (step / kStages - 1) % 2);
        barrier_expect_bytes(full + stage, static_cast<int>(sizes[1]));
        char* a = tiles + stage * 2 * kTile;
        tensor_load(a, &maps[0], full + stage, kATransposed ? 0 : step * 64, kATransposed ? step * 64 : 0);
        tensor_load(a + kTile, &maps[1], full + stage, kBTransposed ? 0 : step * 64, kBTransposed ? step * 64 : 0);
      }
    }
    return;
  }
  registers_increase<232>();
  float c[32];
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages;
    barrier_wait(full + stage, step / kStages % 2);
    const char* a = tiles + stage * 2 * kTile;
    const char* b = a + kTile;
    warpgroup_fence();
    for (int k = 0; k < 64; k += 16) {
      const uint64_t a_part = matrix_descriptor(a + (kATransposed ? k * 128 : k * 2), kTile, 1024, 128);
      const uint64_t b_part = matrix_descriptor(b + (kBTransposed ? k * 128 : k * 2), kTile, 1024, 128);
      warpgroup_multiply_add<f16, 64, kATransposed, kBTransposed>(c, a_part, b_part, step > 0 || k > 0);
    }
    warpgroup_commit();
    if (sizes[2] != kNoWait) warpgroup_wait<0>();
    barrier_arrive(empty + stage);
  }
  named_barrier(1, 128);
  f16* out = reinterpret_cast<f16*>(tiles);
  for (int i = 0; i < 32; ++i) out[warpgroup_row(i) * 64 + warpgroup_column(i)] = to_f16(c[i]);
  if (sizes[2] == kOneFence ? thread_index() == 0 : sizes[2] != kNoFence) fence_async_shared();
  named_barrier(1, 128);
  if (thread_index() == 0) {
    tensor_store(&maps[2], out, 0, 0);
    tensor_store_commit();
    tensor_store_wait<0>();
  }
}
CAUSEWAY_KERNEL(product_00, 256, 1, 3, 3, 3) { product<false, false>(maps, sizes); }
CAUSEWAY_KERNEL(product_01, 256, 1, 3, 3, 3) { product<false, true>(maps, sizes); }
CAUSEWAY_KERNEL(product_10, 256, 1, 3, 3, 3) { product<true, false>(maps, sizes); }
CAUSEWAY_KERNEL(product_11, 256, 1, 3, 3, 3) { product<true, true>(maps, sizes); }

// A in registers, N-major B, both written by ordinary stores; bf16.
CAUSEWAY_KERNEL(from_registers, 128, 1, 3, 0, 0) {
  const bf16* a = global_pointer<const bf16>(buffers[0]);
  const uint16_t* b = global_pointer<const uint16_t>(buffers[1]);
  uint16_t* tile = reinterpret_cast<uint16_t*>(shared_memory());
  for (int i = thread_index(); i < 16 * 64; i += 128) {
    const int k = i / 64, n = i % 64;
    tile[k * 64 + (n / 8 ^ k % 8) * 8 + n % 8] = b[i];
  }
  uint32_t registers[4];
  for (int i = 0; i < 4; ++i) {
    const int row = thread_index() / 32 * 16 + thread_index() % 32 / 4 + i % 2 * 8;
    const int k = thread_index() % 4 * 2 + i / 2 * 8;
    registers[i] = a[row * 16 + k].bits | static_cast<uint32_t>(a[row * 16 + k + 1].bits) << 16;
  }
  fence_async_shared();
  block_barrier();
  float c[32];
  for (int i = 0; i < 32; ++i) c[i] = 1;
  warpgroup_fence();
  warpgroup_multiply_add<bf16, 64, true>(c, registers, matrix_descriptor(tile, 2048, 1024, 128), true);
  warpgroup_commit();
  warpgroup_wait<0>();
  float* out = global_pointer<float>(buffers[2]);
  for (int i = 0; i < 32; ++i) out[warpgroup_row(i) * 64 + warpgroup_column(i)] = c[i];
}

// Clusters of two: each block loads its half of a tile for both.
CAUSEWAY_KERNEL(multicast, 128, 1, 2, 0, 1) {
  auto* full = reinterpret_cast<Mbarrier*>(shared_memory());
  auto* done = full + 1;
  auto* tile = reinterpret_cast<uint32_t*>(shared_memory() + 1024);
  if (thread_index() == 0) {
    barrier_init(full, 1);
    barrier_init(done, 2);
    barrier_init_fence();
  }
  cluster_begin();
  if (thread_index() == 0) {
    barrier_expect_bytes(full, 2 * 256);
    tensor_load_multicast(tile + cluster_rank() * 64, &maps[0], full, 0, 4 * cluster_rank(), static_cast<uint16_t>(3));
  }
  barrier_wait(full, 0);
  global_pointer<uint32_t>(buffers[0])[task * 128 + thread_index()] = tile[thread_index()];
  block_barrier();
  if (thread_index() == 0) {
    barrier_arrive_in_block(done, 0);
    barrier_arrive_in_block(done, 1);
  }
  barrier_wait(done, 0);
}

// Clusters of two: the first block adds up what it and the other one have. sizes: whether it waits for the other, and
// how far the other's place is from where the first reads.
CAUSEWAY_KERNEL(gather, 128, 1, 1, 2, 0) {
  float* of_other = reinterpret_cast<float*>(shared_memory());
  cluster_barrier();
  if (cluster_rank() == 1) store_in_block(of_other + thread_index() + sizes[1], 0, static_cast<float>(1000 * task));
  if (sizes[0] != 0) cluster_barrier();
  if (cluster_rank() == 0) {
    global_pointer<float>(buffers[0])[task / 2 * 128 + thread_index()] =
        of_other[thread_index()] + static_cast<float>(thread_index());
  }
  if (sizes[0] == 0) cluster_barrier();
}

// Blocks count the tasks that they take. sizes: tasks, refusals that are announced, and how many of them are waited for.
CAUSEWAY_KERNEL(tasks, 128, 1, 2, 3, 0) {
  if (thread_index() != 0) return;
  const int count = static_cast<int>(sizes[0]);
  for (int refused = 0; refused < sizes[2];) {
    const int task = take_task(static_cast<uint32_t*>(buffers[1]), count, static_cast<int>(sizes[1]));
    if (task >= count) {
      ++refused;
    } else {
      global_pointer<int>(buffers[0])[task] += 1 + block_index();
    }
  }
}

// Blocks double four sums and add a task's number to them, in the order of the tasks: what is left of one that came too
// early or too late is another number. sizes: tasks.
CAUSEWAY_KERNEL(turns, 128, 1, 3, 1, 0) {
  if (thread_index() != 0) return;
  float* shared = reinterpret_cast<float*>(shared_memory());
  float* sums = global_pointer<float>(buffers[0]);
  auto* turn = global_pointer<uint32_t>(buffers[1]);
  const int count = static_cast<int>(sizes[0]);
  for (;;) {
    const int task = take_task(static_cast<uint32_t*>(buffers[2]), count, 1, true);
    if (task >= count) return;
    if (task > 0) wait_for_turn(turn, static_cast<uint32_t>(task));
    for (int i = 0; i < 4; ++i) shared[i] = (task > 0 ? sums[i] : 0.0f) + static_cast<float>(task + 1 + i);
    fence_async_shared();
    if (task == 0) {
      bulk_store(sums, shared, 16);
    } else {
      bulk_add(sums, shared, 16);
    }
    tensor_store_commit();
    bulk_wait<0>();
    pass_turn(turn, static_cast<uint32_t>(task) + 1);
  }
}

// Which lanes are elected, asked twice.
CAUSEWAY_KERNEL(elected, 128, 1, 1, 0, 0) {
  int* told = global_pointer<int>(buffers[0]);
  for (int i = 0; i < 2; ++i) told[i * 128 + thread_index()] = elects_lane() ? 1 : 0;
}

// What a thread is told of a barrier of one arrival, for both parities: before it, after the first, after the second.
CAUSEWAY_KERNEL(answers, 128, 1, 1, 0, 0) {
  if (thread_index() != 0) return;
  auto* barrier = reinterpret_cast<Mbarrier*>(shared_memory());
  int* told = global_pointer<int>(buffers[0]);
  barrier_init(barrier, 1);
  barrier_init_fence();
  for (int arrivals = 0; arrivals < 3; ++arrivals) {
    if (arrivals > 0) barrier_arrive(barrier);
    for (int parity = 0; parity < 2; ++parity) told[arrivals * 2 + parity] = barrier_test(barrier, parity) ? 1 : 0;
  }
}
)";

// On kernels whose accesses to memory are checked, and on others.
class EmulatedHopper : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { open(1); }
  void open(uint64_t seed) {
    EmulatorOptions options;
    options.seed = seed;
    options.checked = GetParam();
    module_.reset();
    device_ = make_emulator_device("sm_90a", options);
    static std::array<std::string, 2> images;
    std::string& image = images[GetParam() ? 1 : 0];
    if (image.empty()) image = compile_module(kHopperGemmText, device_->target());
    module_ = device_->load(image);
  }

  template <class T>
  DeviceBuffer upload(const std::vector<T>& values) {
    DeviceBuffer memory = device_->allocate(values.size() * sizeof(T));
    device_->copy_to_device(memory.data(), values.data(), memory.bytes);
    return memory;
  }
  template <class T>
  std::vector<T> download(const DeviceBuffer& memory) {
    std::vector<T> values(memory.bytes / sizeof(T));
    device_->copy_to_host(values.data(), memory.data(), memory.bytes);
    return values;
  }
  static TensorMap map(int buffer, int64_t columns, int64_t rows, int box_columns, int box_rows, int swizzle,
                       int bytes) {
    TensorMap map;
    map.buffer = buffer;
    map.element_bytes = bytes;
    map.sizes = {columns, rows};
    map.stride_bytes = {bytes, columns * bytes};
    map.box = {box_columns, box_rows};
    map.swizzle_bytes = swizzle;
    return map;
  }

  // Runs the MMA and compares; the message of the Error it ends with, if it does.
  std::string product(bool a_transposed, bool b_transposed, int depth, int64_t announced = 16384,
                      int64_t leave_out = 0) {
    std::mt19937 random(17);
    const auto size = static_cast<size_t>(64 * depth);
    std::vector<float> a(size), b(size);
    std::vector<_Float16> a_half(size), b_half(size);
    for (int line = 0; line < 64; ++line) {
      for (int k = 0; k < depth; ++k) {
        const auto at = static_cast<size_t>(line * depth + k), across = static_cast<size_t>(k * 64 + line);
        a[at] = static_cast<float>(static_cast<int>(random() % 7) - 3);
        b[at] = static_cast<float>(static_cast<int>(random() % 7) - 3);
        a_half[a_transposed ? across : at] = static_cast<_Float16>(a[at]);
        b_half[b_transposed ? across : at] = static_cast<_Float16>(b[at]);
      }
    }
    const DeviceBuffer a_memory = upload(a_half), b_memory = upload(b_half);
    const DeviceBuffer c_memory = upload(std::vector<_Float16>(64 * 64));
    void* const buffers[] = {a_memory.data(), b_memory.data(), c_memory.data()};
    const int64_t sizes[] = {depth, announced, leave_out};
    const TensorMap maps[] = {
        a_transposed ? map(0, 64, depth, 64, 64, 128, 2) : map(0, depth, 64, 64, 64, 128, 2),
        b_transposed ? map(1, 64, depth, 64, 64, 128, 2) : map(1, depth, 64, 64, 64, 128, 2),
        map(2, 64, 64, 64, 64, 0, 2),
    };
    DeviceLaunch launch;
    launch.kernel = module_->kernel(fmt::format("product_{}{}", int{a_transposed}, int{b_transposed}));
    launch.buffers = buffers;
    launch.sizes = sizes;
    launch.task_count = 1;
    launch.threads = 256;
    launch.shared_bytes = 1024 + 4 * 8192;
    launch.tensor_maps = maps;
    try {
      device_->launch(launch);
      device_->synchronize();
    } catch (const Error& error) {
      return error.what();
    }
    const std::vector<_Float16> c = download<_Float16>(c_memory);
    for (size_t m = 0; m < 64; ++m) {
      for (size_t n = 0; n < 64; ++n) {
        float sum = 0;
        for (size_t k = 0; k < static_cast<size_t>(depth); ++k) {
          sum += a[m * static_cast<size_t>(depth) + k] * b[n * static_cast<size_t>(depth) + k];
        }
        if (static_cast<float>(c[m * 64 + n]) != sum) {
          return fmt::format("c[{}][{}] is {}, not {}", m, n, static_cast<float>(c[m * 64 + n]), sum);
        }
      }
    }
    return "right";
  }

  // Which block took each of `count` tasks, counted from 1, or the message of the Error that the launch ends with.
  std::pair<std::vector<int>, std::string> take_tasks(int count, int blocks, int refusals = 1, int waited_for = 1) {
    const DeviceBuffer taken = upload(std::vector<int>(static_cast<size_t>(count))),
                       counter = upload(std::vector<uint32_t>(1));
    void* const buffers[] = {taken.data(), counter.data()};
    const int64_t sizes[] = {count, refusals, waited_for};
    DeviceLaunch launch;
    launch.kernel = module_->kernel("tasks");
    launch.buffers = buffers;
    launch.sizes = sizes;
    launch.task_count = blocks;
    launch.threads = 128;
    try {
      device_->launch(launch);
      device_->synchronize();
    } catch (const Error& error) {
      return {{}, error.what()};
    }
    EXPECT_EQ(download<uint32_t>(counter), std::vector<uint32_t>(1, 0));
    return {download<int>(taken), ""};
  }

  std::unique_ptr<Device> device_;
  std::shared_ptr<DeviceModule> module_;
};

TEST_P(EmulatedHopper, ProductOfTensorLoads) {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      EXPECT_EQ(product(a_transposed, b_transposed, 64), "right") << a_transposed << b_transposed;
    }
  }
  EXPECT_EQ(product(false, true, 320), "right");
}

TEST_P(EmulatedHopper, GemmInEveryOrder) {
  for (uint64_t seed = 2; seed < 8; ++seed) {
    open(seed);
    EXPECT_EQ(product(true, false, 256), "right") << seed;
  }
}

TEST_P(EmulatedHopper, WrongByteCountIsADeadlockReport) {
  const std::string report = product(false, false, 64, 16400);
  EXPECT_NE(report.find("barrier_wait() for parity 0"), std::string::npos) << report;
  EXPECT_NE(report.find("16 bytes outstanding"), std::string::npos) << report;
}

TEST_P(EmulatedHopper, MissingFencesAreFound) {
  const std::string store = product(false, false, 64, 16384, 1);
  EXPECT_NE(store.find("where ordinary stores wrote after the last fence_async_shared()"), std::string::npos) << store;
  // Whose stores a fence publishes is known only where they are reported.
  if (GetParam()) {
    const std::string one = product(false, false, 64, 16384, 4);
    EXPECT_NE(one.find("where ordinary stores wrote after the last fence_async_shared()"), std::string::npos) << one;
  }
  const std::string barrier = product(false, false, 64, 16384, 3);
  EXPECT_NE(barrier.find("before barrier_init_fence()"), std::string::npos) << barrier;
}

TEST_P(EmulatedHopper, AccumulatorsHoldPoisonBeforeTheWait) {
  const std::string report = product(false, false, 64, 16384, 2);
  EXPECT_TRUE(report.find("nan") != std::string::npos ||
              report.find("before warpgroup_wait<0>() has covered its wgmma") != std::string::npos)
      << report;
}

TEST_P(EmulatedHopper, OperandFromRegistersAndOrdinaryStores) {
  std::mt19937 random(23);
  std::vector<float> a(64 * 16), b(16 * 64);
  std::vector<uint16_t> a_bits(a.size()), b_bits(b.size());
  const auto fill = [&](std::vector<float>& values, std::vector<uint16_t>& bits) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(random() % 15) - 7);
      uint32_t word = 0;
      std::memcpy(&word, &values[i], 4);
      bits[i] = static_cast<uint16_t>(word >> 16);
    }
  };
  fill(a, a_bits);
  fill(b, b_bits);
  const DeviceBuffer a_memory = upload(a_bits), b_memory = upload(b_bits),
                     c_memory = upload(std::vector<float>(64 * 64));
  void* const buffers[] = {a_memory.data(), b_memory.data(), c_memory.data()};
  DeviceLaunch launch;
  launch.kernel = module_->kernel("from_registers");
  launch.buffers = buffers;
  launch.task_count = 1;
  launch.threads = 128;
  launch.shared_bytes = 2048;
  device_->launch(launch);
  const std::vector<float> c = download<float>(c_memory);
  for (size_t m = 0; m < 64; ++m) {
    for (size_t n = 0; n < 64; ++n) {
      float sum = 1;
      for (size_t k = 0; k < 16; ++k) sum += a[m * 16 + k] * b[k * 64 + n];
      ASSERT_EQ(c[m * 64 + n], sum) << m << ' ' << n;
    }
  }
}

TEST_P(EmulatedHopper, MulticastWithinClusters) {
  std::vector<uint32_t> tile(128);
  for (size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<uint32_t>(3 * i + 1);
  const DeviceBuffer from = upload(tile), to = upload(std::vector<uint32_t>(512));
  void* const buffers[] = {to.data(), from.data()};
  const TensorMap maps[] = {map(1, 16, 8, 16, 4, 64, 4)};
  DeviceLaunch launch;
  launch.kernel = module_->kernel("multicast");
  launch.buffers = {buffers, 2};
  launch.task_count = 4;
  launch.threads = 128;
  launch.shared_bytes = 2048;
  launch.cluster = 2;
  launch.tensor_maps = maps;
  device_->launch(launch);
  const std::vector<uint32_t> seen = download<uint32_t>(to);
  for (size_t i = 0; i < seen.size(); ++i) {
    // 64-byte swizzle: 16-byte pieces are exchanged according to the number of the 128-byte row.
    const size_t at = i % 128, piece = at / 4 ^ (at / 32 % 4);
    ASSERT_EQ(seen[i], tile[piece * 4 + at % 4]) << i;
  }
}

TEST_P(EmulatedHopper, StoresInAnotherBlockOfTheCluster) {
  const DeviceBuffer to = upload(std::vector<float>(256));
  void* const buffers[] = {to.data()};
  const auto failure = [&](int64_t waits, int64_t offset) -> std::string {
    const int64_t sizes[] = {waits, offset};
    DeviceLaunch launch;
    launch.kernel = module_->kernel("gather");
    launch.buffers = {buffers, 1};
    launch.sizes = sizes;
    launch.task_count = 4;
    launch.threads = 128;
    launch.shared_bytes = 512;
    launch.cluster = 2;
    try {
      device_->launch(launch);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(failure(1, 0), "");
  const std::vector<float> sums = download<float>(to);
  for (size_t i = 0; i < sums.size(); ++i)
    ASSERT_EQ(sums[i], static_cast<float>(1000 * (2 * (i / 128) + 1) + i % 128)) << i;
  const std::string outside = failure(1, 1);
  EXPECT_NE(outside.find("store_in_block() to offset 512, which is misaligned or outside"), std::string::npos)
      << outside;
  if (!GetParam()) return;
  const std::string race = failure(0, 0);
  EXPECT_NE(race.find("by store_in_block()"), std::string::npos) << race;
}

TEST_P(EmulatedHopper, EveryTaskIsTakenOnceByABlockThatTheSeedDraws) {
  std::set<std::vector<int>> orders;
  for (const uint64_t seed : {1, 2, 3}) {
    open(seed);
    const auto [taken, failure] = take_tasks(40, 3, 2, 2);
    EXPECT_EQ(failure, "");
    for (const int block : taken) EXPECT_TRUE(block >= 1 && block <= 3) << block;
    open(seed);
    EXPECT_EQ(take_tasks(40, 3, 2, 2).first, taken) << "another order of the same seed";
    orders.insert(taken);
  }
  EXPECT_EQ(orders.size(), 3u);
  EXPECT_EQ(take_tasks(1, 4).second, "");
}

TEST_P(EmulatedHopper, TasksLeftOrAskedForTooOftenAreFound) {
  const std::string left = take_tasks(5, 2, 2, 1).second;
  EXPECT_NE(left.find("ended before it was told that no task is left"), std::string::npos) << left;
  const std::string asked = take_tasks(5, 2, 1, 2).second;
  EXPECT_NE(asked.find("takes another task after being told 1 times that none is left"), std::string::npos) << asked;
  EXPECT_EQ(take_tasks(5, 2).second, "");
}

TEST_P(EmulatedHopper, OneLaneOfAWaveIsElectedTheSameEachTime) {
  const DeviceBuffer told = upload(std::vector<int>(256, -1));
  void* const buffers[] = {told.data()};
  DeviceLaunch launch;
  launch.kernel = module_->kernel("elected");
  launch.buffers = {buffers, 1};
  launch.task_count = 1;
  launch.threads = 128;
  device_->launch(launch);
  const std::vector<int> lanes = download<int>(told);
  for (int first = 0; first < 128; first += 32) {
    EXPECT_EQ(std::accumulate(lanes.begin() + first, lanes.begin() + first + 32, 0), 1) << first;
    // Not the first, which kernels must not take it for.
    EXPECT_EQ(lanes[static_cast<size_t>(first)], 0) << first;
  }
  EXPECT_TRUE(std::equal(lanes.begin(), lanes.begin() + 128, lanes.begin() + 128));
}

TEST_P(EmulatedHopper, BarriersTellWhetherAPhaseIsComplete) {
  const DeviceBuffer told = upload(std::vector<int>(6, -1));
  void* const buffers[] = {told.data()};
  DeviceLaunch launch;
  launch.kernel = module_->kernel("answers");
  launch.buffers = {buffers, 1};
  launch.task_count = 1;
  launch.threads = 128;
  launch.shared_bytes = 128;
  device_->launch(launch);
  EXPECT_EQ(download<int>(told), (std::vector<int>{0, 1, 1, 0, 0, 1}));
}

TEST_P(EmulatedHopper, BlocksAddInTurn) {
  for (const uint64_t seed : {1, 2, 3}) {
    open(seed);
    constexpr int kTasks = 12;
    const DeviceBuffer sums = upload(std::vector<float>(4, -1.0f)), turn = upload(std::vector<uint32_t>(1)),
                       counter = upload(std::vector<uint32_t>(1));
    void* const buffers[] = {sums.data(), turn.data(), counter.data()};
    const int64_t sizes[] = {kTasks};
    DeviceLaunch launch;
    launch.kernel = module_->kernel("turns");
    launch.buffers = buffers;
    launch.sizes = sizes;
    launch.task_count = 5;
    launch.threads = 128;
    launch.shared_bytes = 128;
    device_->launch(launch);
    device_->synchronize();
    const std::vector<float> result = download<float>(sums);
    for (int i = 0; i < 4; ++i) {
      float expected = 0;
      for (int task = 0; task < kTasks; ++task) expected = 2 * expected + static_cast<float>(task + 1 + i);
      EXPECT_EQ(result[static_cast<size_t>(i)], expected) << seed << ' ' << i;
    }
    EXPECT_EQ(download<uint32_t>(turn), std::vector<uint32_t>(1, kTasks));
  }
}

// As an H100 was seen to: to the nearest, ties to even, whatever is not a number to one that is none.
TEST(EmulatedTensorMap, RoundsToTf32) {
  alignas(16) std::array<uint32_t, 24> memory = {
      0x3f801000, 0x3f803000, 0x3f800fff, 0x3f801001, 0x3f803001, 0xbf801000, 0xbf803000, 0x7f7fffff,
      0x7f7fefff, 0x7f7ff000, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00000, 0xffffffff, 0x00001000,
      0x00003000, 0x00000fff, 0x007fffff, 0x00801000, 0x3fffffff, 0x80001000, 0x00000000, 0x80000000};
  constexpr std::array<uint32_t, 24> kRounded = {
      0x3f800000, 0x3f804000, 0x3f800000, 0x3f802000, 0x3f804000, 0xbf800000, 0xbf804000, 0x7f800000,
      0x7f7fe000, 0x7f800000, 0x7f800000, 0xff800000, 0x7fffe000, 0x7fffe000, 0x7fffe000, 0x00000000,
      0x00004000, 0x00000000, 0x00800000, 0x00800000, 0x40000000, 0x80000000, 0x00000000, 0x80000000};
  TensorMap map;
  map.element_bytes = 4;
  map.rank = 1;
  map.sizes = {24};
  map.stride_bytes = {4};
  map.box = {32};
  map.rounds_to_tf32 = true;
  std::array<uint32_t, 32> shared{};
  load_box(encode_tensor_map(map, memory.data()), {0}, reinterpret_cast<std::byte*>(shared.data()), 0);
  for (size_t i = 0; i < shared.size(); ++i) EXPECT_EQ(shared[i], i < memory.size() ? kRounded[i] : 0) << i;
}

INSTANTIATE_TEST_SUITE_P(Kernels, EmulatedHopper, testing::Bool(),
                         [](const auto& info) { return info.param ? "Checked" : "Plain"; });

}  // namespace
}  // namespace causeway::device
