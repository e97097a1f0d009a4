// Fragments, MMAs of one wave and asynchronous copies, as kernel text on every emulated architecture.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/codegen/compile/compiler.h"
#include "causeway/device/emulator/emulator_device.h"
#include "causeway/device/gpu_architecture.h"
#include "causeway/graph/dtype.h"

namespace causeway::device {

using namespace codegen;
namespace {

constexpr int kThreads = 128;

const char* kGemmText = R"(
#include "causeway/kernels/gpu/intrinsics.h"
template <class T, bool kATransposed, bool kBTransposed>
CAUSEWAY_INLINE void product(void* const* buffers) {
  constexpr int kPerCopy = 16 / sizeof(T), kStride = 16 + kPerCopy;
  T* a = reinterpret_cast<T*>(shared_memory());
  T* b = a + 16 * kStride;
  for (int i = thread_index() * kPerCopy; i < 256; i += 128 * kPerCopy) {
    copy_async_16(a + i / 16 * kStride + i % 16, global_pointer<const T>(buffers[0]) + i, true);
    copy_async_16(b + i / 16 * kStride + i % 16, global_pointer<const T>(buffers[1]) + i, true);
  }
  copy_async_commit();
  copy_async_wait<0>();
  block_barrier();
  FragmentA<T> fa;
  FragmentB<T> fb;
  Accumulator c;
  for (int i = 0; i < kAccumulatorElements; ++i) c.v[i] = accumulator_row(i) * 16 + accumulator_column(i);
  if constexpr (kATransposed) load_fragment_transposed(fa, a, kStride); else load_fragment(fa, a, kStride);
  if constexpr (kBTransposed) load_fragment_transposed(fb, b, kStride); else load_fragment(fb, b, kStride);
  multiply_add(c, fa, fb);
  float* out = global_pointer<float>(buffers[2]) + wave_index() * 256;
  for (int i = 0; i < kAccumulatorElements; ++i) out[accumulator_row(i) * 16 + accumulator_column(i)] = c.v[i];
}
CAUSEWAY_KERNEL(product_00, 128, 1, 3, 0, 0) { product<TYPE, false, false>(buffers); }
CAUSEWAY_KERNEL(product_01, 128, 1, 3, 0, 0) { product<TYPE, false, true>(buffers); }
CAUSEWAY_KERNEL(product_10, 128, 1, 3, 0, 0) { product<TYPE, true, false>(buffers); }
CAUSEWAY_KERNEL(product_11, 128, 1, 3, 0, 0) { product<TYPE, true, true>(buffers); }
)";

struct Case {
  const char* processor;
  const char* type;
  DType dtype;
};

class WaveMma : public testing::TestWithParam<Case> {};

TEST_P(WaveMma, EqualsPlainLoops) {
  const Case& c = GetParam();
  EmulatorOptions options;
  options.checked = c.dtype == DType::kF16;
  const auto device = make_emulator_device(c.processor, options);
  const Target& target = device->target();
  const auto module = device->load(compile_module(fmt::format("#define TYPE {}\n{}", c.type, kGemmText), target));
  std::mt19937 random(11);
  std::vector<float> a(256), b(256);
  std::vector<std::byte> a_bytes(1024), b_bytes(1024);
  for (size_t i = 0; i < 256; ++i) {
    // Sums of these are exact in float, in any order.
    a[i] = static_cast<float>(static_cast<int>(random() % 31) - 15) / 4;
    b[i] = static_cast<float>(static_cast<int>(random() % 31) - 15) / 8;
    write_element(c.dtype, a_bytes.data(), i, static_cast<double>(a[i]));
    write_element(c.dtype, b_bytes.data(), i, static_cast<double>(b[i]));
  }
  const int waves = kThreads / target.architecture().wave_width;
  const size_t out_bytes = static_cast<size_t>(waves) * 1024;
  const DeviceBuffer a_memory = device->allocate(1024), b_memory = device->allocate(1024);
  const DeviceBuffer out = device->allocate(out_bytes);
  device->copy_to_device(a_memory.data(), a_bytes.data(), 1024);
  device->copy_to_device(b_memory.data(), b_bytes.data(), 1024);
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      void* const buffers[] = {a_memory.data(), b_memory.data(), out.data()};
      DeviceLaunch launch;
      launch.kernel = module->kernel(fmt::format("product_{}{}", int{a_transposed}, int{b_transposed}));
      launch.buffers = buffers;
      launch.task_count = 1;
      launch.threads = kThreads;
      launch.shared_bytes = 4096;
      device->launch(launch);
      std::vector<float> product(out_bytes / 4);
      device->copy_to_host(product.data(), out.data(), out_bytes);
      for (int i = 0; i < waves * 256; ++i) {
        const int m = i % 256 / 16, n = i % 16;
        float sum = static_cast<float>(i % 256);
        for (int k = 0; k < 16; ++k) {
          sum += a[static_cast<size_t>(a_transposed ? k * 16 + m : m * 16 + k)] *
                 b[static_cast<size_t>(b_transposed ? k * 16 + n : n * 16 + k)];
        }
        ASSERT_EQ(product[static_cast<size_t>(i)], sum)
            << "wave " << i / 256 << " row " << m << " column " << n << ' ' << a_transposed << b_transposed;
      }
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* processor : {"sm_80", "sm_90a", "gfx90a", "gfx942"}) {
    all.push_back({processor, "bf16", DType::kBF16});
    all.push_back({processor, "f16", DType::kF16});
    all.push_back({processor, "float", DType::kF32});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllArchitectures, WaveMma, testing::ValuesIn(cases()),
                         [](const auto& info) { return fmt::format("{}_{}", info.param.processor, info.param.type); });

// What is read before the wait is not the data.
TEST(AsynchronousCopy, HoldsPoisonBeforeTheWait) {
  const char* text = R"(
#include "causeway/kernels/gpu/intrinsics.h"
CAUSEWAY_KERNEL(early, 64, 1, 2, 1, 0) {
  uint32_t* shared = reinterpret_cast<uint32_t*>(shared_memory());
  copy_async_16(shared + 4 * thread_index(), global_pointer<const uint32_t>(buffers[0]) + 4 * thread_index(), true);
  copy_async_commit();
  if (sizes[0] != 0) copy_async_wait<0>();
  for (int i = 0; i < 4; ++i) {
    global_pointer<uint32_t>(buffers[1])[4 * thread_index() + i] = shared[4 * thread_index() + i];
  }
}
)";
  for (const char* processor : {"sm_80", "gfx942"}) {
    const auto device = make_emulator_device(processor);
    const auto module = device->load(compile_module(text, gpu_target(processor, true)));
    std::vector<uint32_t> from(256), to(256);
    for (size_t i = 0; i < 256; ++i) from[i] = static_cast<uint32_t>(i);
    const DeviceBuffer source = device->allocate(1024), sink = device->allocate(1024);
    device->copy_to_device(source.data(), from.data(), 1024);
    for (const int64_t waits : {0, 1}) {
      void* const buffers[] = {source.data(), sink.data()};
      DeviceLaunch launch;
      launch.kernel = module->kernel("early");
      launch.buffers = buffers;
      launch.sizes = {&waits, 1};
      launch.task_count = 1;
      launch.threads = 64;
      launch.shared_bytes = 1024;
      device->launch(launch);
      device->copy_to_host(to.data(), sink.data(), 1024);
      EXPECT_EQ(from == to, waits == 1) << processor;
    }
  }
}

}  // namespace
}  // namespace causeway::device
