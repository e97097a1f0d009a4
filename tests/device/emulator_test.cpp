// Threads, blocks, barriers and waves on the emulator; and the faults of kernels that it has to find.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/gpu_architecture.h"

namespace causeway::device {

using namespace codegen;
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Kernels begin on line 3 of the text.
std::string kernel_text(const std::string& kernels) {
  return "#include \"causeway/kernels/gpu/intrinsics.h\"\n\n" + kernels;
}

// A device with one module and one buffer of 32-bit words.
class Emulated {
 public:
  Emulated(const std::string& processor, const std::string& kernels, EmulatorOptions options = {}, size_t words = 1024)
      : device(processor, options),
        module(device.load(compile_module(kernel_text(kernels), device.target()))),
        memory(device.allocate(words * 4)) {}

  template <class T = uint32_t>
  std::vector<T> words() {
    std::vector<T> values(memory.bytes / sizeof(T));
    device.copy_to_host(values.data(), memory.data(), memory.bytes);
    return values;
  }

  DeviceLaunch launch_of(const std::string& kernel, int64_t blocks, int threads, int shared_bytes = 0) {
    buffers = {memory.data()};
    DeviceLaunch launch;
    launch.kernel = module->kernel(kernel);
    launch.buffers = buffers;
    launch.sizes = sizes;
    launch.task_count = blocks;
    launch.threads = threads;
    launch.shared_bytes = shared_bytes;
    return launch;
  }
  void launch(const std::string& kernel, int64_t blocks, int threads, int shared_bytes = 0) {
    device.launch(launch_of(kernel, blocks, threads, shared_bytes));
  }
  // What the launch ends with.
  std::string failure(const std::string& kernel, int64_t blocks, int threads, int shared_bytes = 0,
                      ErrorKind kind = ErrorKind::kInvalidArgument) {
    try {
      launch(kernel, blocks, threads, shared_bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "no failure";
  }

  EmulatorDevice device;
  std::shared_ptr<DeviceModule> module;
  DeviceBuffer memory;
  std::vector<void*> buffers;
  std::vector<int64_t> sizes;
};

constexpr EmulatorOptions kChecked{.checked = true};
const char* const kProcessors[] = {"sm_80", "sm_90a", "gfx90a", "gfx942"};

TEST(Emulator, NameAndTarget) {
  const EmulatorDevice device("gfx942"), checked("sm_90a", kChecked);
  EXPECT_EQ(device.name(), "emulator:gfx942");
  EXPECT_EQ(device.target().text(), "emulator:gfx942::16");
  EXPECT_TRUE(checked.target().has_feature("checked"));
  EXPECT_THROW(EmulatorDevice("sm_91"), Error);
}

TEST(Emulator, EveryThreadOfEveryBlockRunsOnce) {
  for (const char* processor : kProcessors) {
    for (const bool checked : {false, true}) {
      Emulated emulated(processor, R"(
CAUSEWAY_KERNEL(identity, 128, 1, 1, 1, 0) {
  uint32_t* out = global_pointer<uint32_t>(buffers[0]);
  const int at = task * 128 + thread_index();
  out[at] = static_cast<uint32_t>(at * sizes[0] + block_count());
}
)",
                        {.checked = checked});
      emulated.sizes = {3};
      emulated.launch("identity", 8, 128);
      const auto words = emulated.words();
      for (size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], i * 3 + 8) << processor;
    }
  }
}

const char* kRotation = R"(
CAUSEWAY_KERNEL(rotate, 256, 1, 1, 1, 0) {
  uint32_t* shared = reinterpret_cast<uint32_t*>(shared_memory());
  uint32_t value = task * 256 + thread_index();
  for (int i = 0; i < sizes[0]; ++i) {
    shared[thread_index()] = value;
    block_barrier();
    value = shared[(thread_index() + 1) % 256];
    block_barrier();
  }
  global_pointer<uint32_t>(buffers[0])[task * 256 + thread_index()] = value;
}
)";

TEST(Emulator, BarriersOrderSharedMemoryUnderEverySchedule) {
  for (const char* processor : {"sm_90a", "gfx942"}) {
    for (const bool checked : {false, true}) {
      for (const uint64_t seed : {1, 2, 3}) {
        for (const int threads : {1, 2}) {
          Emulated emulated(processor, kRotation, {.seed = seed, .checked = checked, .threads = threads});
          emulated.sizes = {10};
          emulated.launch("rotate", 4, 256, 1024);
          const auto words = emulated.words();
          for (size_t i = 0; i < words.size(); ++i) ASSERT_EQ(words[i], i / 256 * 256 + (i + 10) % 256);
        }
      }
    }
  }
}

TEST(Emulator, WaveOperations) {
  const char* text = R"(
CAUSEWAY_KERNEL(wave, 128, 1, 1, 0, 0) {
  uint32_t* out = global_pointer<uint32_t>(buffers[0]) + 8 * thread_index();
  const int lane = lane_index();
  out[0] = kWaveWidth;
  out[1] = wave_shuffle(thread_index(), lane + 3);  // past the end it goes on at lane 0
  out[2] = wave_shuffle_xor(thread_index(), 5);
  const uint64_t ballot = wave_ballot(thread_index() % 3 == 0);
  out[3] = static_cast<uint32_t>(ballot);
  out[4] = static_cast<uint32_t>(ballot >> 32);
  out[5] = wave_any(thread_index() == 70) + 2 * wave_all(thread_index() < 64);
  out[6] = __builtin_bit_cast(uint32_t, wave_shuffle(static_cast<float>(thread_index()), 1));
  out[7] = wave_index();
}
)";
  for (const char* processor : kProcessors) {
    Emulated emulated(processor, text);
    emulated.launch("wave", 1, 128);
    const auto words = emulated.words();
    const unsigned width = gpu_architecture(processor).wave_width;
    for (unsigned thread = 0; thread < 128; ++thread) {
      const unsigned first = thread / width * width;
      uint64_t ballot = 0;
      for (unsigned i = 0; i < width; ++i) ballot |= uint64_t{(first + i) % 3 == 0} << i;
      const uint32_t* out = words.data() + 8 * thread;
      EXPECT_EQ(out[0], width);
      EXPECT_EQ(out[1], first + (thread + 3) % width);
      EXPECT_EQ(out[2], thread ^ 5);
      EXPECT_EQ(out[3] | uint64_t{out[4]} << 32, ballot) << processor;
      EXPECT_EQ(out[5], unsigned{first <= 70 && 70 < first + width} + 2 * unsigned{thread < 64});
      EXPECT_EQ(out[6], std::bit_cast<uint32_t>(static_cast<float>(first + 1)));
      EXPECT_EQ(out[7], thread / width);
    }
  }
}

// The sum of a block by shuffles and shared memory, with a wave barrier between the lanes of one wave.
TEST(Emulator, ReductionIsFreeOfRacesAndOfTheSeed) {
  const char* text = R"(
CAUSEWAY_KERNEL(reduce, 256, 1, 1, 0, 0) {
  float* shared = reinterpret_cast<float*>(shared_memory());
  float value = 1.0f / (1 + task * 256 + thread_index());
  for (int mask = 1; mask < kWaveWidth; mask *= 2) value += wave_shuffle_xor(value, mask);
  if (lane_index() == 0) shared[wave_index()] = value;
  block_barrier();
  if (wave_index() == 0) {
    float sum = 0;
    for (int i = 0; i < 256 / kWaveWidth; ++i) sum += shared[i];
    wave_barrier();
    shared[lane_index()] = sum;
    wave_barrier();
    if (lane_index() == 0) global_pointer<float>(buffers[0])[task] = shared[kWaveWidth - 1];
  }
}
)";
  for (const char* processor : kProcessors) {
    std::vector<uint32_t> first;
    for (const uint64_t seed : {5, 6, 7}) {
      Emulated emulated(processor, text, {.seed = seed, .checked = seed == 7}, 4);
      emulated.launch("reduce", 4, 256, 4096);
      if (first.empty()) {
        first = emulated.words();
        for (const float sum : emulated.words<float>()) EXPECT_TRUE(sum > 0.2f && sum < 7.0f) << sum;
      }
      EXPECT_EQ(emulated.words(), first) << processor;
    }
  }
}

TEST(Emulator, MemoryIsPoisoned) {
  Emulated emulated("sm_90a", R"(
CAUSEWAY_KERNEL(unwritten, 32, 1, 1, 0, 0) {
  const float* shared = reinterpret_cast<const float*>(shared_memory());
  global_pointer<float>(buffers[0])[thread_index()] = shared[thread_index()];
}
)");
  EXPECT_EQ(emulated.words()[100], 0xffffffffu);
  emulated.launch("unwritten", 1, 32, 128);
  for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isnan(emulated.words<float>()[i]));
  const DeviceBuffer zeroed = emulated.device.allocate(64, true);
  uint32_t word = 1;
  emulated.device.copy_to_host(&word, zeroed.data() + 60, 4);
  EXPECT_EQ(word, 0u);
}

TEST(Emulator, MemoryIsCounted) {
  EmulatorDevice device("sm_90a");
  DeviceBuffer first = device.allocate(1000);
  EXPECT_EQ(device.allocate(0).data(), nullptr);
  DeviceBuffer second = device.allocate(500);
  first = {};
  EXPECT_EQ(device.bytes_in_use(), 500);
  EXPECT_EQ(device.peak_bytes(), 1500);
  char host[501] = {};
  EXPECT_THROW(device.copy_to_device(second.data(), host, 501), Error);
  EXPECT_THROW(device.copy_to_host(host, host + 10, 4), Error);
}

TEST(Emulator, RacesInSharedMemoryAreFound) {
  const char* text = R"(
CAUSEWAY_KERNEL(missing_barrier, 128, 1, 1, 0, 0) {
  float* shared = reinterpret_cast<float*>(shared_memory());
  shared[thread_index()] = 1;
  global_pointer<float>(buffers[0])[thread_index()] = shared[thread_index() ^ 64];
}
CAUSEWAY_KERNEL(missing_second_barrier, 128, 1, 1, 0, 0) {
  float* shared = reinterpret_cast<float*>(shared_memory());
  float value = 1;
  for (int i = 0; i < 2; ++i) {
    shared[thread_index()] = value;
    block_barrier();
    value = shared[thread_index() ^ 64];
  }
  global_pointer<float>(buffers[0])[thread_index()] = value;
}
CAUSEWAY_KERNEL(missing_wave_barrier, 64, 1, 1, 0, 0) {
  float* shared = reinterpret_cast<float*>(shared_memory());
  shared[thread_index()] = 1;
  global_pointer<float>(buffers[0])[thread_index()] = shared[thread_index() ^ 1];
}
CAUSEWAY_KERNEL(wave_barrier_for_a_block, 128, 1, 1, 0, 0) {
  float* shared = reinterpret_cast<float*>(shared_memory());
  shared[thread_index()] = 1;
  wave_barrier();
  global_pointer<float>(buffers[0])[thread_index()] = shared[thread_index() ^ 64];
}
CAUSEWAY_KERNEL(read_by_all, 128, 1, 1, 0, 0) {
  float* shared = reinterpret_cast<float*>(shared_memory());
  if (thread_index() == 0) shared[0] = 1;
  block_barrier();
  global_pointer<float>(buffers[0])[thread_index()] = shared[0];
  if (thread_index() == 77) shared[0] = 2;
}
CAUSEWAY_KERNEL(neighbouring_bytes, 128, 1, 1, 0, 0) {
  uint8_t* shared = reinterpret_cast<uint8_t*>(shared_memory());
  shared[thread_index()] = 1;
  block_barrier();
  global_pointer<uint8_t>(buffers[0])[thread_index()] = shared[127 - thread_index()];
}
)";
  for (const char* processor : {"sm_80", "gfx942"}) {
    Emulated emulated(processor, text, kChecked);
    EXPECT_THAT(emulated.failure("missing_barrier", 1, 128, 512),
                AllOf(HasSubstr("kernel missing_barrier, block 0, thread "), HasSubstr("a race: "),
                      HasSubstr("shared memory at offset "), HasSubstr("of block 0"),
                      HasSubstr(" and nothing orders the two"), HasSubstr("kernel.cpp:6"), HasSubstr("kernel.cpp:7")));
    EXPECT_THAT(emulated.failure("missing_second_barrier", 1, 128, 512),
                AllOf(HasSubstr("a race: "), HasSubstr("kernel.cpp:13"), HasSubstr("kernel.cpp:15")));
    EXPECT_THAT(emulated.failure("missing_wave_barrier", 1, 64, 512), HasSubstr("a race: "));
    EXPECT_THAT(emulated.failure("wave_barrier_for_a_block", 1, 128, 512), HasSubstr("a race: "));
    EXPECT_THAT(emulated.failure("read_by_all", 1, 128, 512), AllOf(HasSubstr("a race: "), HasSubstr("thread 77")));
    EXPECT_EQ(emulated.failure("neighbouring_bytes", 1, 128, 512), "no failure");
  }
}

TEST(Emulator, RacesBetweenBlocksAreFound) {
  Emulated emulated("sm_90a", R"(
CAUSEWAY_KERNEL(same_place, 32, 1, 1, 0, 0) {
  if (thread_index() == 5) global_pointer<float>(buffers[0])[3] = 1;
}
CAUSEWAY_KERNEL(read_and_written, 32, 1, 1, 0, 0) {
  float* out = global_pointer<float>(buffers[0]);
  out[1 + task] = out[task];
}
CAUSEWAY_KERNEL(read_by_all, 32, 1, 1, 0, 0) {
  float* out = global_pointer<float>(buffers[0]);
  out[32 + task * 32 + thread_index()] = out[0];
}
)",
                    kChecked);
  EXPECT_THAT(emulated.failure("same_place", 4, 32),
              AllOf(HasSubstr("a race: writes device memory"), HasSubstr("at byte 12 of an allocation of 4096 bytes"),
                    HasSubstr("thread 5 of block "), HasSubstr("for they are in different blocks")));
  EXPECT_THAT(emulated.failure("read_and_written", 4, 32), HasSubstr("a race: "));
  EXPECT_EQ(emulated.failure("read_by_all", 4, 32), "no failure");
}

TEST(Emulator, AccessesOutsideOfMemoryAreFound) {
  const char* text = R"(
CAUSEWAY_KERNEL(beyond, 64, 1, 1, 1, 0) {
  if (task == 1 && thread_index() == 9) global_pointer<uint32_t>(buffers[0])[sizes[0]] = 1;
}
CAUSEWAY_KERNEL(before, 64, 1, 1, 1, 0) {
  const uint32_t* in = global_pointer<const uint32_t>(buffers[0]);
  if (thread_index() == 0 && in[-2] == 17) global_pointer<uint32_t>(buffers[0])[0] = 1;
}
CAUSEWAY_KERNEL(beyond_shared, 64, 1, 1, 1, 0) {
  reinterpret_cast<uint32_t*>(shared_memory())[thread_index()] = thread_index();
}
)";
  Emulated emulated("gfx942", text, kChecked);
  emulated.sizes = {1030};
  EXPECT_THAT(
      emulated.failure("beyond", 2, 64),
      AllOf(HasSubstr("kernel beyond, block 1, thread 9: writes 4 bytes at 0x"),
            HasSubstr(" at kernel.cpp:5, outside of the device's memory: 24 bytes after the end of an allocation of "
                      "4096 bytes")));
  EXPECT_THAT(emulated.failure("before", 1, 64),
              AllOf(HasSubstr("reads 4 bytes at 0x"), HasSubstr("8 bytes before an allocation of 4096 bytes")));
  EXPECT_THAT(emulated.failure("beyond_shared", 1, 64, 252),
              AllOf(HasSubstr("thread 63: writes 4 bytes of shared memory at offset 252"),
                    HasSubstr("outside of the 252 bytes that the launch gave the block")));
  // Without the check it still shows when the block ends.
  Emulated unchecked("gfx942", text);
  unchecked.sizes = {0};
  EXPECT_THAT(unchecked.failure("beyond_shared", 1, 64, 252),
              HasSubstr("block 0: wrote to shared memory 0xfc, beyond the 252 bytes of the launch"));
  // A buffer that is gone is outside, too.
  DeviceLaunch launch = emulated.launch_of("beyond", 2, 64);
  emulated.memory = {};
  EXPECT_THROW(emulated.device.launch(launch), Error);
}

// What orders threads on Hopper beside barriers of the block: mbarriers, named barriers; and what blocks do through the
// TMA.
TEST(Emulator, RacesAroundHoppersBarriersAreFound) {
  const char* text = R"(
#include "causeway/kernels/gpu/hopper.h"
template <bool kWaits>
CAUSEWAY_INLINE void hand_over(void* const* buffers) {
  auto* full = reinterpret_cast<Mbarrier*>(shared_memory());
  float* values = reinterpret_cast<float*>(shared_memory() + 128);
  if (thread_index() == 0) {
    barrier_init(full, 128);
    barrier_init_fence();
  }
  block_barrier();
  if (thread_index() < 128) {
    values[thread_index()] = 1;
    barrier_arrive(full);
  } else {
    if (kWaits) barrier_wait(full, 0);
    global_pointer<float>(buffers[0])[thread_index() - 128] = values[255 - thread_index()];
  }
}
CAUSEWAY_KERNEL(waits, 256, 1, 1, 0, 0) { hand_over<true>(buffers); }
CAUSEWAY_KERNEL(does_not_wait, 256, 1, 1, 0, 0) { hand_over<false>(buffers); }
template <int kThreads>
CAUSEWAY_INLINE void turn(void* const* buffers) {
  float* values = reinterpret_cast<float*>(shared_memory());
  values[thread_index()] = 1;
  if (kThreads == 256) named_barrier(1, 256);
  else named_barrier(1 + thread_index() / kThreads, kThreads);
  global_pointer<float>(buffers[0])[thread_index()] = values[255 - thread_index()];
}
CAUSEWAY_KERNEL(named_for_all, 256, 1, 1, 0, 0) { turn<256>(buffers); }
CAUSEWAY_KERNEL(named_for_half, 256, 1, 1, 0, 0) { turn<128>(buffers); }
CAUSEWAY_KERNEL(stores, 128, 1, 1, 1, 1) {
  float* values = reinterpret_cast<float*>(shared_memory());
  values[thread_index()] = 1;
  fence_async_shared();
  block_barrier();
  if (thread_index() == 0) {
    tensor_store(&maps[0], values, 0, static_cast<int>(task * sizes[0]));
    tensor_store_commit();
    tensor_store_wait<0>();
  }
}
)";
  Emulated emulated("sm_90a", text, kChecked);
  EXPECT_EQ(emulated.failure("waits", 1, 256, 1024), "no failure");
  EXPECT_THAT(emulated.failure("does_not_wait", 1, 256, 1024), HasSubstr("a race: "));
  EXPECT_EQ(emulated.failure("named_for_all", 1, 256, 1024), "no failure");
  EXPECT_THAT(emulated.failure("named_for_half", 1, 256, 1024), HasSubstr("a race: "));

  // Boxes of 8 rows of 16 words.
  TensorMap map;
  map.element_bytes = 4;
  map.sizes = {16, 64};
  map.stride_bytes = {4, 64};
  map.box = {16, 8};
  const auto store = [&](int64_t step) -> std::string {
    emulated.sizes = {step};
    DeviceLaunch launch = emulated.launch_of("stores", 2, 128, 512);
    launch.tensor_maps = {&map, 1};
    try {
      emulated.device.launch(launch);
    } catch (const Error& error) {
      return error.what();
    }
    return "no failure";
  };
  EXPECT_EQ(store(8), "no failure");
  EXPECT_THAT(store(7), AllOf(HasSubstr("a race: "), HasSubstr("by tensor_store()"),
                              HasSubstr("for they are in different blocks")));
  map.sizes = {16, 65};
  EXPECT_THAT(store(8), HasSubstr("it covers 4160 bytes that begin at byte 0 of an allocation of 4096 bytes"));
}

TEST(Emulator, ThreadsThatNeverMeetAreReported) {
  Emulated emulated("sm_90a", R"(
CAUSEWAY_KERNEL(divergent_barrier, 64, 1, 1, 0, 0) {
  if (thread_index() < 40) block_barrier();
}
CAUSEWAY_KERNEL(barrier_in_a_branch, 64, 1, 1, 0, 0) {
  if (thread_index() < 32) block_barrier();
  else block_barrier();
}
CAUSEWAY_KERNEL(divergent_shuffle, 64, 1, 1, 0, 0) {
  float value = 1;
  if (lane_index() != 3) value = wave_shuffle(value, 0);
  block_barrier();
  global_pointer<float>(buffers[0])[thread_index()] = value;
}
CAUSEWAY_KERNEL(shuffle_and_ballot, 64, 1, 1, 0, 0) {
  uint32_t value = 1;
  if (lane_index() < 16) value = wave_shuffle(value, 0);
  else value = static_cast<uint32_t>(wave_ballot(true));
  global_pointer<uint32_t>(buffers[0])[thread_index()] = value;
}
CAUSEWAY_KERNEL(wide_mask, 64, 1, 1, 0, 0) {
  global_pointer<uint32_t>(buffers[0])[thread_index()] = wave_shuffle_xor(thread_index(), 32);
}
CAUSEWAY_KERNEL(fine, 64, 1, 1, 0, 0) { global_pointer<uint32_t>(buffers[0])[thread_index()] = 4; }
)");
  EXPECT_THAT(emulated.failure("divergent_barrier", 1, 64),
              HasSubstr("no thread can go on: threads 0-39 of block 0: each waits in block_barrier() at kernel.cpp:5; "
                        "threads 40-63 of block 0: each has returned"));
  EXPECT_THAT(emulated.failure("barrier_in_a_branch", 1, 64),
              AllOf(HasSubstr("block_barrier() at kernel.cpp:8"), HasSubstr("block_barrier() at kernel.cpp:9"),
                    HasSubstr("which has to take part, waits in")));
  EXPECT_THAT(emulated.failure("divergent_shuffle", 1, 64),
              AllOf(HasSubstr("threads 0-2 of block 0: each waits in wave_shuffle() at kernel.cpp:13"),
                    HasSubstr("thread 3 of block 0: each waits in block_barrier()")));
  EXPECT_THAT(emulated.failure("shuffle_and_ballot", 1, 64),
              AllOf(HasSubstr("wave_shuffle() at kernel.cpp:19"), HasSubstr("wave_ballot() at kernel.cpp:20")));
  EXPECT_THAT(emulated.failure("wide_mask", 1, 64), HasSubstr("with mask 32 in a wave of 32 lanes"));
  // The device goes on.
  EXPECT_EQ(emulated.failure("fine", 1, 64), "no failure");
  EXPECT_EQ(emulated.words()[63], 4u);
}

TEST(Emulator, LimitsOfTheArchitecture) {
  const char* text = R"(
CAUSEWAY_KERNEL(idle, 64, 1, 1, 1, 0) {}
)";
  Emulated emulated("gfx90a", text);
  emulated.sizes = {0};
  EXPECT_EQ(emulated.failure("idle", 1, 64, 64 * 1024), "no failure");
  EXPECT_THAT(emulated.failure("idle", 1, 64, 64 * 1024 + 1, ErrorKind::kResource),
              AllOf(HasSubstr("kernel idle on emulator:gfx90a"), HasSubstr("65537 bytes of shared memory"),
                    HasSubstr("at most 65536")));
  EXPECT_THAT(emulated.failure("idle", 1, 2048, 0, ErrorKind::kResource), HasSubstr("at most 1024"));
  EXPECT_THAT(emulated.failure("idle", 1, 32), HasSubstr("whole waves of 64"));
  DeviceLaunch clustered = emulated.launch_of("idle", 2, 64);
  clustered.cluster = 2;
  EXPECT_THROW(emulated.device.launch(clustered), Error);
  emulated.sizes = {0, 0};
  EXPECT_THAT(emulated.failure("idle", 1, 64), HasSubstr("takes 16 bytes of arguments"));
  EXPECT_EQ(emulated.failure("idle", 0, 64), "no failure");
}

TEST(Emulator, OtherImagesAreRefused) {
  EmulatorDevice device("sm_90a");
  Target plain;
  plain.processor = "x86-64-v3";
  EXPECT_THROW(device.load(compile_module("extern \"C\" void f() {}", plain)), Error);
  EXPECT_THROW(device.load("not an image"), Error);
  Emulated emulated("sm_90a", "CAUSEWAY_KERNEL(idle, 64, 1, 1, 1, 0) {}\n");
  EXPECT_THROW(emulated.module->kernel("busy"), Error);
}

}  // namespace
}  // namespace causeway::device
