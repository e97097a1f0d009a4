// What no emulator sees of the kernels that `causeway bench` runs, compiled for a GPU that is not here: nothing spills,
// and no MMAs wait for each other. Those of training steps are held by tests/train/gpu_gate_test.cpp. ptxas says it;
// where that is not installed the kernels are only compiled to PTX, and the tests count as skipped.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "causeway/base/thread_pool.h"
#include "causeway/bench/attention_benchmark.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/codegen/compile/kernel_cache.h"
#include "causeway/codegen/compile/kernel_resources.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/program/context.h"

namespace causeway::bench {
namespace {

// Keeps the images that are loaded, each once, with what loaded it first.
class ImageKeeper : public device::OfflineDevice {
 public:
  using OfflineDevice::OfflineDevice;
  std::shared_ptr<device::DeviceModule> load(std::string_view image) override {
    const std::lock_guard lock(mutex_);
    images_.emplace(image, case_);
    return OfflineDevice::load(image);
  }
  void begin(std::string name) { case_ = std::move(name); }
  const std::map<std::string, std::string, std::less<>>& images() const { return images_; }

 private:
  std::mutex mutex_;
  std::string case_;
  std::map<std::string, std::string, std::less<>> images_;
};

void expect_no_spills(const ImageKeeper& device, size_t at_least) {
  const std::vector<std::pair<std::string, std::string>> images(device.images().begin(), device.images().end());
  ASSERT_GE(images.size(), at_least);
  std::vector<std::optional<std::vector<codegen::KernelResources>>> resources(images.size());
  ThreadPool pool;
  pool.run(static_cast<int64_t>(images.size()), [&](int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    resources[at] = codegen::kernel_resources(images[at].first, device.target());
  });
  for (size_t i = 0; i < images.size(); ++i) {
    SCOPED_TRACE(images[i].second);
    if (!resources[i]) continue;
    for (const codegen::KernelResources& kernel : *resources[i]) {
      EXPECT_EQ(kernel.spill_bytes, 0) << kernel.kernel;
      EXPECT_EQ(kernel.stack_bytes, 0) << kernel.kernel;
      EXPECT_TRUE(kernel.exported) << kernel.kernel;
      EXPECT_TRUE(kernel.notes.empty()) << kernel.notes.front();
    }
  }
}

void skip_without_ptxas() {
  if (codegen::find_ptxas().empty())
    GTEST_SKIP() << "What ptxas makes of the kernels is not tested. " << codegen::how_to_get_ptxas();
}

std::shared_ptr<ImageKeeper> hopper() { return std::make_shared<ImageKeeper>(device::gpu_target("sm_90a")); }

// Elements of a head of queries and keys, and of values.
class GpuGateOfAttention : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(GpuGateOfAttention, BenchmarksKernelsAreWithoutSpills) {
  const std::shared_ptr<ImageKeeper> device = hopper();
  for (const AttentionPattern pattern :
       {AttentionPattern::kCausal, AttentionPattern::kFull, AttentionPattern::kSlidingWindow,
        AttentionPattern::kDocument, AttentionPattern::kAlibi, AttentionPattern::kSoftCap}) {
    const AttentionCase attention = {
        .pattern = pattern, .batch = 4, .head_dim = GetParam().first, .value_dim = GetParam().second, .backward = true};
    device->begin(attention.workload());
    const program::ContextScope scope(std::make_shared<program::Context>(
        device, program::ContextOptions{.cache = std::make_shared<codegen::KernelCache>("")}));
    causeway_attention().prepare(attention, {});
  }
  expect_no_spills(*device, 6 * 3 - 2);  // where all is seen, no map of it
  skip_without_ptxas();
}

INSTANTIATE_TEST_SUITE_P(Heads, GpuGateOfAttention,
                         testing::Values(std::pair(64, 64), std::pair(128, 128), std::pair(192, 128),
                                         std::pair(256, 256)),
                         [](const auto& test) {
                           return "Of" + std::to_string(test.param.first) + "And" + std::to_string(test.param.second);
                         });

TEST(GpuGateOfGemm, BenchmarksKernelsAreWithoutSpills) {
  struct Kind {
    DType dtype;
    bool tf32 = false, block_scales = false;
  };
  const std::shared_ptr<ImageKeeper> device = hopper();
  for (const Kind& kind : {Kind{DType::kBF16}, Kind{DType::kF32}, Kind{DType::kF32, true}, Kind{DType::kF8E4M3},
                           Kind{DType::kF8E4M3, false, true}})
    for (const char* order : {"nt", "nn", "tn"})
      for (const char* shape : {"8192x4096x4096", "640x7168x2048"}) {
        if (kind.block_scales && std::string_view(order) != "nt") continue;
        GemmWorkload workload = parse_gemm_shape(shape, kind.dtype);
        workload.tf32 = kind.tf32;
        workload.block_scales = kind.block_scales;
        set_gemm_order(workload, order);
        device->begin(fmt::format("{} {}", workload.name(), workload.type()));
        make_causeway_gemm(*device)->prepare(workload, nullptr, nullptr, nullptr);
      }
  expect_no_spills(*device, 20);
  // Operands of 8 bits are copied to where they lie along k, as no step and no GEMM by warpgroups has them otherwise.
  for (const auto& [image, workload] : device->images())
    EXPECT_EQ(image.find("mma.sync"), std::string::npos) << workload;
  skip_without_ptxas();
}

}  // namespace
}  // namespace causeway::bench
