// NVIDIA's cuBLASLt, declared after the cuBLAS library documentation (12.x) so that nothing of CUDA is needed to build.
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "causeway/base/error.h"
#include "causeway/bench/providers/matmul_provider.h"
#include "causeway/device/gpu_device.h"
#include "causeway/device/vendor_library.h"

namespace causeway {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what PyTorch gives it on Hopper

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Heuristic) == 96);

struct CublasLt {
  enum DataType : int { kF32 = 0, kF16 = 2, kBF16 = 14, kF8E4M3 = 28, kF8E5M2 = 29 };
  enum ComputeType : int { kCompute32 = 68 };
  enum DescriptionAttribute : int { kTransposeA = 3, kTransposeB = 4, kFastAccumulation = 25 };
  enum PreferenceAttribute : int { kMostWorkspace = 1 };

  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  size_t (*version)() = nullptr;
  int (*description_create)(void** description, ComputeType compute, DataType scale) = nullptr;
  int (*description_destroy)(void* description) = nullptr;
  int (*description_set)(void* description, DescriptionAttribute attribute, const void* value, size_t bytes) = nullptr;
  int (*layout_create)(void** layout, DataType type, uint64_t rows, uint64_t columns, int64_t leading) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*preference_set)(void* preference, PreferenceAttribute attribute, const void* value, size_t bytes) = nullptr;
  int (*heuristic)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int asked,
                   Heuristic* found, int* count) = nullptr;
  int (*matmul)(void* handle, void* description, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) = nullptr;

  explicit CublasLt(const std::vector<std::string>& names) {
    const VendorLibrary library(
        names, "cublaslt", "It comes with the CUDA toolkit and with PyTorch; --cublaslt FILE names one elsewhere.");
    library.bind(create, "cublasLtCreate");
    library.bind(destroy, "cublasLtDestroy");
    library.bind(version, "cublasLtGetVersion");
    library.bind(description_create, "cublasLtMatmulDescCreate");
    library.bind(description_destroy, "cublasLtMatmulDescDestroy");
    library.bind(description_set, "cublasLtMatmulDescSetAttribute");
    library.bind(layout_create, "cublasLtMatrixLayoutCreate");
    library.bind(layout_destroy, "cublasLtMatrixLayoutDestroy");
    library.bind(preference_create, "cublasLtMatmulPreferenceCreate");
    library.bind(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    library.bind(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    library.bind(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.bind(matmul, "cublasLtMatmul");
  }
};

void check(int status, const char* doing) {
  if (status != 0)
    throw Error(ErrorKind::kUnsupported, fmt::format("cuBLASLt could not {} (status {})", doing, status), "cublaslt",
                "This library has no such product for this device; the other providers are measured.");
}

// A handle of the library, released by its function.
class Handle {
 public:
  explicit Handle(int (*release)(void*)) : release_(release) {}
  ~Handle() {
    if (handle_ != nullptr) release_(handle_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  void** out() { return &handle_; }
  void* get() const { return handle_; }

 private:
  int (*release_)(void*);
  void* handle_ = nullptr;
};

CublasLt::DataType data_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CublasLt::kF32;
    case DType::kF16:
      return CublasLt::kF16;
    case DType::kBF16:
      return CublasLt::kBF16;
    case DType::kF8E4M3:
      return CublasLt::kF8E4M3;
    case DType::kF8E5M2:
      return CublasLt::kF8E5M2;
    default:
      throw Error(ErrorKind::kUnsupported, fmt::format("cuBLASLt does not multiply {}", dtype_name(dtype)), "cublaslt",
                  "Choose bf16, f16, f32, f8e4m3 or f8e5m2.");
  }
}

// The library counts along columns: it is asked for C^T = B A^T.
class PreparedCublasLt : public PreparedMatmul {
 public:
  PreparedCublasLt(std::shared_ptr<const CublasLt> lt, std::shared_ptr<Handle> handle, GpuDevice& device,
                   const DeviceBuffer& workspace, const MatmulWorkload& w, void* a, void* b, void* c)
      : lt_(std::move(lt)),
        handle_(std::move(handle)),
        device_(device),
        workspace_(workspace),
        a_(a),
        b_(b),
        c_(c),
        description_(lt_->description_destroy),
        a_layout_(lt_->layout_destroy),
        b_layout_(lt_->layout_destroy),
        c_layout_(lt_->layout_destroy) {
    check(lt_->description_create(description_.out(), CublasLt::kCompute32, CublasLt::kF32), "describe a product");
    const int transpose = 1;
    check(lt_->description_set(description_.get(), CublasLt::kTransposeA, &transpose, sizeof(transpose)),
          "transpose an operand");
    const auto m = static_cast<uint64_t>(w.m), n = static_cast<uint64_t>(w.n), k = static_cast<uint64_t>(w.k);
    check(lt_->layout_create(b_layout_.out(), data_type(w.operands), k, n, w.k), "describe an operand");
    check(lt_->layout_create(a_layout_.out(), data_type(w.operands), k, m, w.k), "describe an operand");
    check(lt_->layout_create(c_layout_.out(), data_type(w.result()), n, m, w.n), "describe the result");
    Handle preference(lt_->preference_destroy);
    check(lt_->preference_create(preference.out()), "state preferences");
    check(lt_->preference_set(preference.get(), CublasLt::kMostWorkspace, &kWorkspaceBytes, sizeof(kWorkspaceBytes)),
          "state the workspace");
    int count = 0;
    check(lt_->heuristic(handle_->get(), description_.get(), b_layout_.get(), a_layout_.get(), c_layout_.get(),
                         c_layout_.get(), preference.get(), 1, &heuristic_, &count),
          "choose an algorithm");
    if (count == 0) check(15, "choose an algorithm");
  }

  void run() override {
    const float one = 1, zero = 0;
    check(lt_->matmul(handle_->get(), description_.get(), &one, b_, b_layout_.get(), a_, a_layout_.get(), &zero, c_,
                      c_layout_.get(), c_, c_layout_.get(), &heuristic_.algorithm, workspace_.data(), workspace_.bytes,
                      device_.stream()),
          "multiply");
  }

 private:
  std::shared_ptr<const CublasLt> lt_;
  std::shared_ptr<Handle> handle_;
  GpuDevice& device_;
  DeviceBuffer workspace_;
  void *a_, *b_, *c_;
  Handle description_, a_layout_, b_layout_, c_layout_;
  Heuristic heuristic_{};
};

class CublasLtProvider : public MatmulProvider {
 public:
  CublasLtProvider(GpuDevice& device, const std::vector<std::string>& names)
      : device_(device), lt_(std::make_shared<CublasLt>(names)), handle_(std::make_shared<Handle>(lt_->destroy)) {
    device.synchronize();  // binds the device to this thread
    check(lt_->create(handle_->out()), "start");
    workspace_ = device.allocate(kWorkspaceBytes);
  }

  std::string name() const override {
    const size_t version = lt_->version();
    return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  std::unique_ptr<PreparedMatmul> prepare(const MatmulWorkload& workload, void* a, void* b, void* c) override {
    return std::make_unique<PreparedCublasLt>(lt_, handle_, device_, workspace_, workload, a, b, c);
  }

 private:
  GpuDevice& device_;
  std::shared_ptr<const CublasLt> lt_;
  std::shared_ptr<Handle> handle_;
  DeviceBuffer workspace_;
};

// Where toolkits and Python packages put it.
std::vector<std::string> usual_places() {
  std::vector<std::string> names = {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"};
  for (const char* prefix : {"/usr/local/lib", "/usr/lib", "/opt/conda/lib"}) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(prefix, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const char* file : {"nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cublas/lib/libcublasLt.so.13",
                                 "nvidia/cublas/lib/libcublasLt.so.12"})
          names.push_back(entry.path() / packages / file);
    }
  }
  return names;
}

}  // namespace

std::unique_ptr<MatmulProvider> open_cublaslt(Device& device, const std::string& library) {
  auto* gpu = dynamic_cast<GpuDevice*>(&device);
  if (gpu == nullptr || device.target().family != Target::Family::kNvptx)
    throw Error(ErrorKind::kUnsupported, "cuBLASLt runs on NVIDIA's GPUs alone", "cublaslt",
                fmt::format("Leave it out for {}.", device.name()));
  return std::make_unique<CublasLtProvider>(*gpu, library.empty() ? usual_places() : std::vector<std::string>{library});
}

}  // namespace causeway
