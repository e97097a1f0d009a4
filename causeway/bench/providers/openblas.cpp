// OpenBLAS, declared after its cblas.h (0.3.21), with as many threads as the device has.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "causeway/bench/providers/gemm_library.h"

namespace causeway::bench {
namespace {

constexpr int kRowMajor = 101, kCblasAsItIs = 111, kCblasTransposed = 112;
constexpr int64_t kMostConverted = int64_t{1} << 30;  // elements in one call: counts are 32 bits wide

const GemmLibrary& openblas() {
  static const GemmLibrary library = {"openblas",
                                      "OpenBLAS",
                                      {"libopenblas.so.0", "libopenblasp.so.0", "/opt/conda/lib/libopenblas.so.0"},
                                      {},
                                      "Install libopenblas0 (Debian, Ubuntu) or openblas (Fedora, Arch, conda)."};
  return library;
}

struct OpenBlas {
  char* (*config)() = nullptr;
  char* (*core)() = nullptr;
  void (*set_threads)(int count) = nullptr;
  int (*threads)() = nullptr;
  void (*sgemm)(int order, int a_operation, int b_operation, int m, int n, int k, float alpha, const float* a,
                int a_leading, const float* b, int b_leading, float beta, float* c, int c_leading) = nullptr;
  // Only in libraries built with them.
  void (*sbgemm)(int order, int a_operation, int b_operation, int m, int n, int k, float alpha, const uint16_t* a,
                 int a_leading, const uint16_t* b, int b_leading, float beta, float* c, int c_leading) = nullptr;
  void (*to_bf16)(int count, const float* from, int from_step, uint16_t* to, int to_step) = nullptr;

  explicit OpenBlas(const VendorLibrary& library) {
    library.bind(config, "openblas_get_config");
    library.bind(core, "openblas_get_corename");
    library.bind(set_threads, "openblas_set_num_threads");
    library.bind(threads, "openblas_get_num_threads");
    library.bind(sgemm, "cblas_sgemm");
    library.bind_if_present(sbgemm, "cblas_sbgemm");
    library.bind_if_present(to_bf16, "cblas_sbstobf16");
    if (std::string_view(config()).find("USE64BITINT") != std::string_view::npos)
      throw_no_gemm(openblas(), "this OpenBLAS counts in 64 bits, under the names of functions that count in 32");
  }
  bool has_bf16() const { return sbgemm != nullptr && to_bf16 != nullptr; }
};

struct Operands {
  int m, n, k;
  int a_operation, b_operation, a_leading, b_leading;
  void *a, *b, *c;
};

class F32Gemm : public PreparedGemm {
 public:
  F32Gemm(const OpenBlas& blas, const Operands& operands) : blas_(blas), o_(operands) {}
  void run() override {
    blas_.sgemm(kRowMajor, o_.a_operation, o_.b_operation, o_.m, o_.n, o_.k, 1, static_cast<const float*>(o_.a),
                o_.a_leading, static_cast<const float*>(o_.b), o_.b_leading, 0, static_cast<float*>(o_.c), o_.n);
  }

 private:
  OpenBlas blas_;
  Operands o_;
};

// The library's GEMM of bf16 operands is f32: its rounding is part of what is timed.
class Bf16Gemm : public PreparedGemm {
 public:
  Bf16Gemm(const OpenBlas& blas, Device& device, const Operands& operands)
      : blas_(blas),
        o_(operands),
        elements_(int64_t{operands.m} * operands.n),
        sums_(device.allocate(static_cast<size_t>(elements_) * sizeof(float))) {}
  void run() override {
    auto* sums = reinterpret_cast<float*>(sums_.data());
    blas_.sbgemm(kRowMajor, o_.a_operation, o_.b_operation, o_.m, o_.n, o_.k, 1, static_cast<const uint16_t*>(o_.a),
                 o_.a_leading, static_cast<const uint16_t*>(o_.b), o_.b_leading, 0, sums, o_.n);
    for (int64_t first = 0; first < elements_; first += kMostConverted)
      blas_.to_bf16(static_cast<int>(std::min(kMostConverted, elements_ - first)), sums + first, 1,
                    static_cast<uint16_t*>(o_.c) + first, 1);
  }

 private:
  OpenBlas blas_;
  Operands o_;
  int64_t elements_;
  DeviceBuffer sums_;
};

class OpenBlasProvider : public GemmProvider {
 public:
  OpenBlasProvider(CpuDevice& device, const VendorLibrary& library) : device_(device), blas_(library) {
    blas_.set_threads(device.thread_count());
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
    const std::string_view config = blas_.config();
    const size_t second_space = config.find(' ', config.find(' ') + 1);
    name_ = fmt::format("{} for {}", config.substr(0, second_space), blas_.core());
    if (blas_.threads() != device.thread_count()) name_ += fmt::format(" ({} threads)", blas_.threads());
    if (blas_.has_bf16()) name_ += " (bf16: f32 sums, then rounded)";
  }

  std::string name() const override { return name_; }

  std::unique_ptr<PreparedGemm> prepare(const GemmWorkload& w, void* a, void* b, void* c) override {
    const auto m = static_cast<int>(w.m), n = static_cast<int>(w.n), k = static_cast<int>(w.k);
    const Operands operands = {m,
                               n,
                               k,
                               w.a_along_m ? kCblasTransposed : kCblasAsItIs,
                               w.b_along_n ? kCblasAsItIs : kCblasTransposed,
                               w.a_along_m ? m : k,
                               w.b_along_n ? n : k,
                               a,
                               b,
                               c};
    blas_.set_threads(device_.thread_count());
    if (w.tf32) throw_no_gemm(openblas(), "OpenBLAS does not multiply tf32");
    if (w.operands == DType::kF32) return std::make_unique<F32Gemm>(blas_, operands);
    if (w.operands != DType::kBF16) throw_no_gemm(openblas(), w.operands);
    if (!blas_.has_bf16()) throw_no_gemm(openblas(), "this OpenBLAS was built without GEMMs of bf16");
    return std::make_unique<Bf16Gemm>(blas_, device_, operands);
  }

 private:
  CpuDevice& device_;
  OpenBlas blas_;
  std::string name_;
};

}  // namespace

std::unique_ptr<GemmProvider> open_openblas(Device& device, const std::string& file) {
  CpuDevice& processor = require_processor(device, openblas());
  return std::make_unique<OpenBlasProvider>(processor, open_gemm_library(openblas(), file));
}

}  // namespace causeway::bench
