// NVIDIA's cuBLAS by cublasGemmEx, which is what PyTorch's gemm calls; declared after the cuBLAS library
// documentation (12.x).
#include <fmt/format.h>

#include "causeway/bench/providers/blas_lt.h"

namespace causeway::bench {
namespace {

constexpr int kCublasTransposed = 1, kCublasAsItIs = 0;  // CUBLAS_OP_T, CUBLAS_OP_N
constexpr int kCompute32 = 68;                           // CUBLAS_COMPUTE_32F
constexpr int kComputeTf32 = 77;                         // CUBLAS_COMPUTE_32F_FAST_TF32
constexpr int kDefaultAlgorithm = 99;                    // CUBLAS_GEMM_DEFAULT_TENSOR_OP, as PyTorch has it

const GemmLibrary& cublas() {
  static const GemmLibrary library = {
      "cublas",
      "cuBLAS",
      {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so"},
      {"nvidia/cu13/lib/libcublas.so.13", "nvidia/cublas/lib/libcublas.so.13", "nvidia/cublas/lib/libcublas.so.12"},
      "It comes with the CUDA toolkit and with PyTorch."};
  return library;
}

void check_cublas(int status, const char* doing) { check_call(cublas(), status, doing); }

// The library opened on one device, in whose queue it works.
struct Cublas {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*get_version)(void* handle, int* version) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*set_workspace)(void* handle, void* workspace, size_t bytes) = nullptr;
  int (*gemm)(void* handle, int a_operation, int b_operation, int m, int n, int k, const void* alpha, const void* a,
              int a_type, int a_leading, const void* b, int b_type, int b_leading, const void* beta, void* c,
              int c_type, int c_leading, int compute, int algorithm) = nullptr;
  std::unique_ptr<LibraryHandle> handle;
  DeviceBuffer workspace;
  int version = 0;

  Cublas(GpuDevice& device, const VendorLibrary& library) {
    library.bind(create, "cublasCreate_v2");
    library.bind(destroy, "cublasDestroy_v2");
    library.bind(get_version, "cublasGetVersion_v2");
    library.bind(set_stream, "cublasSetStream_v2");
    library.bind(set_workspace, "cublasSetWorkspace_v2");
    library.bind(gemm, "cublasGemmEx");
    device.synchronize();  // binds the device to this thread
    handle = std::make_unique<LibraryHandle>(destroy);
    check_cublas(create(handle->out()), "start");
    check_cublas(get_version(handle->get(), &version), "tell its version");
    check_cublas(set_stream(handle->get(), device.stream()), "use the queue");
    workspace = device.allocate(kGemmWorkspaceBytes);
    check_cublas(set_workspace(handle->get(), workspace.data(), workspace.bytes), "use the workspace");
  }
};

// The library counts along columns: it is asked for C^T = B A^T.
class PreparedCublas : public PreparedGemm {
 public:
  PreparedCublas(std::shared_ptr<const Cublas> cublas_on_device, const GemmWorkload& w, void* a, void* b, void* c)
      : cublas_(std::move(cublas_on_device)),
        m_(static_cast<int>(w.m)),
        n_(static_cast<int>(w.n)),
        k_(static_cast<int>(w.k)),
        a_leading_(w.a_along_m ? m_ : k_),
        b_leading_(w.b_along_n ? n_ : k_),
        a_operation_(w.a_along_m ? kCublasTransposed : kCublasAsItIs),
        b_operation_(w.b_along_n ? kCublasAsItIs : kCublasTransposed),
        operands_(gpu_library_type(cublas(), w.operands)),
        result_(gpu_library_type(cublas(), w.result())),
        compute_(w.tf32 ? kComputeTf32 : kCompute32),
        a_(a),
        b_(b),
        c_(c) {
    // cublasGemmEx has no 8-bit floats: those are cuBLASLt's.
    if (size_bytes(w.operands) == 1) throw_no_gemm(cublas(), w.operands);
    // What the library refuses is told here, not when it is timed.
    multiply();
  }

  void run() override { multiply(); }

 private:
  void multiply() {
    const float one = 1, zero = 0;
    check_cublas(
        cublas_->gemm(cublas_->handle->get(), b_operation_, a_operation_, n_, m_, k_, &one, b_, operands_, b_leading_,
                      a_, operands_, a_leading_, &zero, c_, result_, n_, compute_, kDefaultAlgorithm),
        "multiply");
  }

  std::shared_ptr<const Cublas> cublas_;
  int m_, n_, k_, a_leading_, b_leading_, a_operation_, b_operation_, operands_, result_, compute_;
  void *a_, *b_, *c_;
};

class CublasProvider : public GemmProvider {
 public:
  CublasProvider(GpuDevice& device, const VendorLibrary& library)
      : cublas_(std::make_shared<Cublas>(device, library)) {}

  std::string name() const override {
    const int version = cublas_->version;
    return fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
  std::unique_ptr<PreparedGemm> prepare(const GemmWorkload& workload, void* a, void* b, void* c) override {
    return std::make_unique<PreparedCublas>(cublas_, workload, a, b, c);
  }

 private:
  std::shared_ptr<const Cublas> cublas_;
};

}  // namespace

std::unique_ptr<GemmProvider> open_cublas(Device& device, const std::string& file) {
  GpuDevice& gpu = require_gpu(device, Target::Family::kNvptx, cublas());
  return std::make_unique<CublasProvider>(gpu, open_gemm_library(cublas(), file));
}

}  // namespace causeway::bench
