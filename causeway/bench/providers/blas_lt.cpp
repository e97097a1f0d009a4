#include "causeway/bench/providers/blas_lt.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "causeway/base/error.h"
#include "causeway/graph/graph.h"

namespace causeway::bench {
namespace {

constexpr int kMostWorkspace = 1;  // attribute of preferences, alike in both

// What the heuristics answer: it begins with the algorithm, which is all that is used. cuBLASLt's has 96 bytes,
// hipBLASLt's 56.
using Heuristic = std::array<uint64_t, 16>;

struct Functions {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*description_create)(void** description, int compute, int scale_type) = nullptr;
  int (*description_destroy)(void* description) = nullptr;
  int (*description_set)(void* description, int attribute, const void* value, size_t bytes) = nullptr;
  int (*layout_create)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*preference_create)(void** preference) = nullptr;
  int (*preference_destroy)(void* preference) = nullptr;
  int (*preference_set)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*heuristic)(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference, int asked,
                   Heuristic* found, int* count) = nullptr;
  int (*gemm)(void* handle, void* description, const void* alpha, const void* a, void* a_layout, const void* b,
              void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
              const void* algorithm, void* workspace, size_t workspace_bytes, void* stream) = nullptr;

  Functions(const VendorLibrary& library, const std::string& prefix) {
    const auto bind = [&](auto& function, const char* name) { library.bind(function, (prefix + name).c_str()); };
    bind(create, "Create");
    bind(destroy, "Destroy");
    bind(description_create, "MatmulDescCreate");
    bind(description_destroy, "MatmulDescDestroy");
    bind(description_set, "MatmulDescSetAttribute");
    bind(layout_create, "MatrixLayoutCreate");
    bind(layout_destroy, "MatrixLayoutDestroy");
    bind(preference_create, "MatmulPreferenceCreate");
    bind(preference_destroy, "MatmulPreferenceDestroy");
    bind(preference_set, "MatmulPreferenceSetAttribute");
    bind(heuristic, "MatmulAlgoGetHeuristic");
    bind(gemm, "Matmul");
  }
};

// One library opened on one device.
struct OpenedBlasLt {
  GpuDevice& device;
  BlasLtDialect dialect;
  Functions functions;
  LibraryHandle handle;
  DeviceBuffer workspace;

  OpenedBlasLt(GpuDevice& gpu, const VendorLibrary& library, const BlasLtDialect& speech)
      : device(gpu), dialect(speech), functions(library, speech.prefix), handle(functions.destroy) {
    device.synchronize();  // binds the device to this thread
    check(functions.create(handle.out()), "start");
    workspace = device.allocate(kGemmWorkspaceBytes);
  }
  void check(int status, const char* doing) const { check_call(dialect.library, status, doing); }
};

// The library counts along columns: it is asked for C^T = B A^T.
class PreparedBlasLt : public PreparedGemm {
 public:
  PreparedBlasLt(std::shared_ptr<const OpenedBlasLt> opened, const GemmWorkload& w, bool fast_accumulation, void* a,
                 void* b, void* c)
      : opened_(std::move(opened)),
        a_(a),
        b_(b),
        c_(c),
        description_(opened_->functions.description_destroy),
        a_layout_(opened_->functions.layout_destroy),
        b_layout_(opened_->functions.layout_destroy),
        c_layout_(opened_->functions.layout_destroy) {
    const BlasLtDialect& dialect = opened_->dialect;
    const Functions& lt = opened_->functions;
    if (size_bytes(w.operands) == 1 && !dialect.has_8_bit) throw_no_gemm(dialect.library, dialect.why_not_8_bit);
    if (size_bytes(w.operands) != 1 && fast_accumulation)
      throw_no_gemm(dialect.library, "fast accumulation is for 8-bit operands alone");
    const int operands = gpu_library_type(dialect.library, w.operands);
    const int result = gpu_library_type(dialect.library, w.result());
    const int compute = w.tf32 ? dialect.compute_tf32 : dialect.compute_f32;
    const int f32 = gpu_library_type(dialect.library, DType::kF32);
    opened_->check(lt.description_create(description_.out(), compute, f32), "describe a GEMM");
    const auto transpose = [&](int attribute) {
      opened_->check(lt.description_set(description_.get(), attribute, &dialect.transposed, sizeof(int)),
                     "transpose an operand");
    };
    if (!w.b_along_n) transpose(dialect.transpose_first);
    if (w.a_along_m) transpose(dialect.transpose_second);
    if (const int8_t on = 1; fast_accumulation)
      opened_->check(lt.description_set(description_.get(), dialect.fast_accumulation, &on, sizeof(on)),
                     "accumulate fast");
    if (w.block_scales) set_scales(w, fast_accumulation);
    const auto m = static_cast<uint64_t>(w.m), n = static_cast<uint64_t>(w.n), k = static_cast<uint64_t>(w.k);
    const auto describe = [&](LibraryHandle& layout, bool along_k, uint64_t lines) {
      const uint64_t side_by_side = along_k ? k : lines;
      opened_->check(lt.layout_create(layout.out(), operands, side_by_side, along_k ? lines : k,
                                      static_cast<int64_t>(side_by_side)),
                     "describe an operand");
    };
    describe(b_layout_, !w.b_along_n, n);
    describe(a_layout_, !w.a_along_m, m);
    opened_->check(lt.layout_create(c_layout_.out(), result, n, m, w.n), "describe the result");
    LibraryHandle preference(lt.preference_destroy);
    opened_->check(lt.preference_create(preference.out()), "state preferences");
    opened_->check(lt.preference_set(preference.get(), kMostWorkspace, &kGemmWorkspaceBytes, sizeof(size_t)),
                   "state the workspace");
    int count = 0;
    opened_->check(lt.heuristic(opened_->handle.get(), description_.get(), b_layout_.get(), a_layout_.get(),
                                c_layout_.get(), c_layout_.get(), preference.get(), 1, &heuristic_, &count),
                   "choose an algorithm");
    if (count == 0)
      throw_no_gemm(dialect.library, fmt::format("{} has no algorithm for this product", dialect.library.product));
  }

  void run() override {
    const float one = 1, zero = 0;
    const DeviceBuffer& workspace = opened_->workspace;
    opened_->check(opened_->functions.gemm(opened_->handle.get(), description_.get(), &one, b_, b_layout_.get(), a_,
                                           a_layout_.get(), &zero, c_, c_layout_.get(), c_, c_layout_.get(),
                                           &heuristic_, workspace.data(), workspace.bytes, opened_->device.stream()),
                   "multiply");
  }

 private:
  std::shared_ptr<const OpenedBlasLt> opened_;
  void *a_, *b_, *c_;
  std::vector<DeviceBuffer> scales_;

  void set_scales(const GemmWorkload& w, bool fast_accumulation) {
    const BlasLtDialect& dialect = opened_->dialect;
    if (dialect.first_scales == 0) throw_no_gemm(dialect.library, "operands' blocks have no scales there");
    if (fast_accumulation) throw_no_gemm(dialect.library, "blocks have scales without fast accumulation alone");
    const GemmScales scales = gemm_scales(w);
    // Of squares, those along k lie side by side, four at a time.
    const int64_t blocks = w.k / kScaledBlock, lines = w.n / kScaledBlock, leading = (blocks + 3) / 4 * 4;
    std::vector<float> squares(static_cast<size_t>(lines * leading));
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t block = 0; block < blocks; ++block)
        squares[static_cast<size_t>(line * leading + block)] = scales.b[static_cast<size_t>(block * lines + line)];
    const auto set = [&](int attribute, const auto& value) {
      opened_->check(opened_->functions.description_set(description_.get(), attribute, static_cast<const void*>(&value),
                                                        sizeof(value)),
                     "scale an operand");
    };
    const auto set_pointer = [&](int attribute, const std::vector<float>& values) {
      scales_.push_back(copy_scales(opened_->device, values));
      set(attribute, static_cast<const void*>(scales_.back().data()));
    };
    set(dialect.first_scale_mode, int32_t{dialect.scales_of_squares});
    set(dialect.second_scale_mode, int32_t{dialect.scales_along_k});
    set_pointer(dialect.first_scales, squares);
    set_pointer(dialect.second_scales, scales.a);
  }

  LibraryHandle description_, a_layout_, b_layout_, c_layout_;
  Heuristic heuristic_{};
};

class BlasLt : public GemmProvider {
 public:
  BlasLt(GpuDevice& device, const VendorLibrary& library, const BlasLtDialect& dialect, bool fast_accumulation)
      : opened_(std::make_shared<OpenedBlasLt>(device, library, dialect)),
        fast_accumulation_(fast_accumulation),
        name_(fmt::format("{} {}{}", dialect.library.product, dialect.version(library, opened_->handle.get()),
                          fast_accumulation ? " (fast accumulation)" : "")) {}

  std::string name() const override { return name_; }
  std::unique_ptr<PreparedGemm> prepare(const GemmWorkload& workload, void* a, void* b, void* c) override {
    return std::make_unique<PreparedBlasLt>(opened_, workload, fast_accumulation_, a, b, c);
  }

 private:
  std::shared_ptr<const OpenedBlasLt> opened_;
  bool fast_accumulation_;
  std::string name_;
};

}  // namespace

std::unique_ptr<GemmProvider> make_blas_lt(GpuDevice& device, const VendorLibrary& library,
                                           const BlasLtDialect& dialect, bool fast_accumulation) {
  CAUSEWAY_CHECK(!fast_accumulation || dialect.fast_accumulation != 0);
  return std::make_unique<BlasLt>(device, library, dialect, fast_accumulation);
}

}  // namespace causeway::bench
