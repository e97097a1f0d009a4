// Writes the images of the kernels that `causeway bench gemm` and `causeway bench attention` run on a GPU, which need
// not be here: tools/compare_kernels.py compares those of two builds.
//
//   benchmark_kernels DIRECTORY cuda:sm_90a [gemm | attention [PART]]
//
// PART: of the names of cases, which are those of their folders.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/bench/attention_benchmark.h"
#include "causeway/bench/gemm_benchmark.h"
#include "causeway/device/offline/offline_device.h"
#include "causeway/device/open_device.h"
#include "causeway/program/context.h"

namespace causeway::bench {
namespace {

constexpr int64_t kMemoryBytes = int64_t{140} << 30;

// Keeps what is loaded.
class RecordingDevice : public device::OfflineDevice {
 public:
  RecordingDevice(device::Target target, std::filesystem::path directory, std::string part)
      : OfflineDevice(std::move(target)), directory_(std::move(directory)), part_(std::move(part)) {}
  // False where the case is not asked for.
  bool begin(const std::string& name) {
    name_ = name;
    for (char& c : name_)
      if (std::string_view(" /,:").find(c) != std::string_view::npos) c = '_';
    count_ = 0;
    if (name_.find(part_) == std::string::npos) return false;
    std::filesystem::create_directories(directory_ / name_);
    return true;
  }
  std::shared_ptr<device::DeviceModule> load(std::string_view image) override {
    const std::lock_guard lock(mutex_);
    std::ofstream(directory_ / name_ / fmt::format("{:02}.image", count_++), std::ios::binary) << image;
    return OfflineDevice::load(image);
  }
  void copy_to_device(void*, const void*, size_t) override {}

 private:
  std::filesystem::path directory_;
  std::string part_, name_;
  std::mutex mutex_;
  int count_ = 0;
};

// What bench measures by itself, and shapes for skinny GEMMs, split-K, ragged edges and unaligned rows.
std::vector<GemmCase> gemm_cases(DType dtype, bool block_scales) {
  std::vector<GemmCase> cases = standard_gemm_cases(true, dtype, kMemoryBytes);
  for (const char* shape : {"1x4096x4096", "16x4096x4096", "4096x8x4096", "640x7168x2048", "1280x1024x7904",
                            "2000x3000x1000", "256x256x65536", "999x1001x1003"})
    cases.push_back({"", parse_gemm_shape(shape, dtype)});
  for (GemmCase& gemm : cases) gemm.workload.block_scales = block_scales && has_blocks(gemm.workload);
  return cases;
}

void write_gemms(const std::shared_ptr<RecordingDevice>& device, const std::string& architecture) {
  struct Kind {
    DType dtype;
    bool tf32 = false, block_scales = false;
  };
  for (const Kind& kind : {Kind{DType::kBF16}, Kind{DType::kF16}, Kind{DType::kF32}, Kind{DType::kF32, true},
                           Kind{DType::kF8E4M3}, Kind{DType::kF8E4M3, false, true}, Kind{DType::kF8E5M2}})
    for (const char* order : {"nt", "nn", "tn"})
      for (GemmCase gemm : gemm_cases(kind.dtype, kind.block_scales)) {
        if (kind.block_scales && (!gemm.workload.block_scales || std::string_view(order) != "nt")) continue;
        gemm.workload.tf32 = kind.tf32;
        set_gemm_order(gemm.workload, order);
        if (!device->begin(fmt::format("{} gemm {} {}", architecture, gemm.workload.name(), gemm.workload.type())))
          continue;
        try {
          // Kernels are shared within a provider; each case is to have its own.
          make_causeway_gemm(*device)->prepare(gemm.workload, nullptr, nullptr, nullptr);
        } catch (const causeway::Error& error) {
          std::cout << error.what() << "\n";
        }
      }
}

// What bench measures by itself, and heads of other widths.
std::vector<AttentionCase> attention_cases() {
  std::vector<AttentionCase> cases = standard_attention_cases(true, DType::kBF16, kMemoryBytes);
  AttentionChoice choice;
  choice.shapes = {"4x8x4x4096x96",  "4x8x4x4096x160",   "4x8x4x4096x192",    "4x8x4x4096x240",
                   "4x8x4x4096x256", "4x8x4x4096x96x64", "4x8x4x4096x192x128"};
  const std::vector<AttentionCase> others = choose_attention_cases(choice, true, DType::kBF16, kMemoryBytes);
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

void write_attention(const std::shared_ptr<RecordingDevice>& device, const std::string& architecture) {
  for (const AttentionCase& attention : attention_cases()) {
    if (!device->begin(fmt::format("{} attention {}", architecture, attention.workload()))) continue;
    const ContextScope scope(std::make_shared<program::Context>(device));
    causeway_attention().prepare(attention, {});
  }
}

}  // namespace
}  // namespace causeway::bench

int main(int count, char** arguments) {
  using namespace causeway::bench;
  const std::string_view only = count > 3 ? arguments[3] : "", part = count > 4 ? arguments[4] : "";
  if (count < 3 || count > 5 || (count > 3 && only != "gemm" && only != "attention")) {
    std::cerr << "benchmark_kernels DIRECTORY DEVICE [gemm | attention [PART]], DEVICE as cuda:sm_90a\n";
    return 2;
  }
  try {
    const auto device = std::make_shared<RecordingDevice>(causeway::device::parse_target(arguments[2]), arguments[1],
                                                          std::string(part));
    if (only != "attention") write_gemms(device, arguments[2]);
    if (only != "gemm") write_attention(device, arguments[2]);
  } catch (const causeway::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
