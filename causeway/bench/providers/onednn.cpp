// Intel's oneDNN by its gemm primitive, declared after its C headers: oneapi/dnnl/dnnl.h of 2.6 and of 3.x, whose
// descriptors differ. Operands lie as Causeway's do; the library is not asked for a layout of its own. Threads are as
// many as the device has where the library's are OpenMP's.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "causeway/bench/providers/gemm_library.h"

namespace causeway::bench {
namespace {

constexpr int kProcessor = 1;                            // dnnl_cpu
constexpr unsigned kInOrder = 1;                         // dnnl_stream_in_order
constexpr int kImplementation = 8;                       // dnnl_query_impl_info_str
constexpr int kSource = 1, kWeights = 33, kResult = 17;  // DNNL_ARG_SRC, _WEIGHTS, _DST
constexpr unsigned kSequential = 1, kOpenMp = 2;         // dnnl_version_t::cpu_runtime

const GemmLibrary& onednn() {
  static const GemmLibrary library = {"onednn",
                                      "oneDNN",
                                      {"libdnnl.so.3", "libdnnl.so.2", "/opt/conda/lib/libdnnl.so.3"},
                                      {},
                                      "Install libdnnl3 or libdnnl2 (Debian, Ubuntu) or onednn (Fedora, conda)."};
  return library;
}

void check_onednn(int status, const char* doing) { check_call(onednn(), status, doing); }

struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

struct Argument {
  int number;
  void* memory;
};

struct OneDnn {
  const Version* (*version)() = nullptr;
  int (*engine_create)(void** engine, int kind, size_t index) = nullptr;
  int (*engine_destroy)(void* engine) = nullptr;
  int (*stream_create)(void** stream, void* engine, unsigned flags) = nullptr;
  int (*stream_wait)(void* stream) = nullptr;
  int (*stream_destroy)(void* stream) = nullptr;
  int (*memory_create)(void** memory, const void* description, void* engine, void* data) = nullptr;
  int (*memory_destroy)(void* memory) = nullptr;
  int (*description_query)(const void* description, int what, int index, void* answer) = nullptr;
  int (*description_destroy)(void* description) = nullptr;
  int (*primitive_create)(void** primitive, const void* description) = nullptr;
  int (*primitive_destroy)(void* primitive) = nullptr;
  int (*execute)(void* primitive, void* stream, int count, const Argument* arguments) = nullptr;
  // 2.x: descriptors are the caller's structures.
  int (*layout_init)(void* layout, int rank, const int64_t* sizes, int type, const int64_t* strides) = nullptr;
  int (*gemm_init)(void* gemm, const void* a, const void* b, const void* bias, const void* c) = nullptr;
  int (*describe)(void** description, const void* gemm, const void* attributes, void* engine,
                  const void* hint) = nullptr;
  // 3.x: the library's.
  int (*layout_create)(void** layout, int rank, const int64_t* sizes, int type, const int64_t* strides) = nullptr;
  int (*layout_destroy)(void* layout) = nullptr;
  int (*describe_gemm)(void** description, void* engine, const void* a, const void* b, const void* bias, const void* c,
                       const void* attributes) = nullptr;
  // Of the OpenMP that the library is linked with.
  void (*set_threads)(int count) = nullptr;

  explicit OneDnn(const VendorLibrary& library) {
    library.bind(version, "dnnl_version");
    library.bind(engine_create, "dnnl_engine_create");
    library.bind(engine_destroy, "dnnl_engine_destroy");
    library.bind(stream_create, "dnnl_stream_create");
    library.bind(stream_wait, "dnnl_stream_wait");
    library.bind(stream_destroy, "dnnl_stream_destroy");
    library.bind(memory_create, "dnnl_memory_create");
    library.bind(memory_destroy, "dnnl_memory_destroy");
    library.bind(description_query, "dnnl_primitive_desc_query");
    library.bind(description_destroy, "dnnl_primitive_desc_destroy");
    library.bind(primitive_create, "dnnl_primitive_create");
    library.bind(primitive_destroy, "dnnl_primitive_destroy");
    library.bind(execute, "dnnl_primitive_execute");
    if (version()->major == 2) {
      library.bind(layout_init, "dnnl_memory_desc_init_by_strides");
      library.bind(gemm_init, "dnnl_matmul_desc_init");
      library.bind(describe, "dnnl_primitive_desc_create");
    } else if (version()->major == 3) {
      library.bind(layout_create, "dnnl_memory_desc_create_with_strides");
      library.bind(layout_destroy, "dnnl_memory_desc_destroy");
      library.bind(describe_gemm, "dnnl_matmul_primitive_desc_create");
    } else {
      throw_no_gemm(onednn(), fmt::format("oneDNN {} is not known: 2 and 3 are", version()->major));
    }
    if (version()->cpu_runtime == kOpenMp) library.bind_if_present(set_threads, "omp_set_num_threads");
  }
};

int data_type(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 1;
    case DType::kBF16:
      return 2;
    case DType::kF32:
      return 3;
    case DType::kF8E5M2:
      return 9;
    case DType::kF8E4M3:
      return 10;
    default:
      throw_no_gemm(onednn(), dtype);
  }
}

// How a matrix lies in memory.
class Layout {
 public:
  Layout(const OneDnn& dnn, DType dtype, std::array<int64_t, 2> sizes, std::array<int64_t, 2> strides)
      : made_(dnn.layout_destroy) {
    if (dnn.layout_create != nullptr) {
      check_onednn(dnn.layout_create(made_.out(), 2, sizes.data(), data_type(dtype), strides.data()),
                   "describe a matrix");
    } else {
      check_onednn(dnn.layout_init(own_.data(), 2, sizes.data(), data_type(dtype), strides.data()),
                   "describe a matrix");
    }
  }
  const void* get() const { return made_.get() != nullptr ? made_.get() : own_.data(); }

 private:
  LibraryHandle made_;
  std::array<uint64_t, 128> own_{};  // dnnl_memory_desc_t of 2.x has 696 bytes
};

// One library on the processor.
struct OpenedOnednn {
  OneDnn dnn;
  LibraryHandle engine, stream;

  explicit OpenedOnednn(const VendorLibrary& library)
      : dnn(library), engine(dnn.engine_destroy), stream(dnn.stream_destroy) {
    check_onednn(dnn.engine_create(engine.out(), kProcessor, 0), "start");
    check_onednn(dnn.stream_create(stream.out(), engine.get(), kInOrder), "start");
  }
};

class PreparedOneDnn : public PreparedGemm {
 public:
  PreparedOneDnn(std::shared_ptr<const OpenedOnednn> opened, const GemmWorkload& w, void* a, void* b, void* c)
      : opened_(std::move(opened)),
        a_(opened_->dnn.memory_destroy),
        b_(opened_->dnn.memory_destroy),
        c_(opened_->dnn.memory_destroy),
        primitive_(opened_->dnn.primitive_destroy) {
    if (w.tf32) throw_no_gemm(onednn(), "oneDNN does not multiply tf32 on processors");
    const OneDnn& dnn = opened_->dnn;
    void* const engine = opened_->engine.get();
    using Pair = std::array<int64_t, 2>;
    const auto strides = [](bool transposed, int64_t rows, int64_t columns) {
      return transposed ? Pair{1, rows} : Pair{columns, 1};
    };
    const Layout a_layout(dnn, w.operands, {w.m, w.k}, strides(w.a_along_m, w.m, w.k));
    const Layout b_layout(dnn, w.operands, {w.k, w.n}, strides(!w.b_along_n, w.k, w.n));
    const Layout c_layout(dnn, w.result(), {w.m, w.n}, {w.n, 1});
    LibraryHandle description(dnn.description_destroy);
    if (dnn.describe_gemm != nullptr) {
      check_onednn(dnn.describe_gemm(description.out(), engine, a_layout.get(), b_layout.get(), nullptr, c_layout.get(),
                                     nullptr),
                   "make such a GEMM");
    } else {
      std::array<uint64_t, 512> gemm{};  // dnnl_matmul_desc_t has 2800 bytes
      check_onednn(dnn.gemm_init(gemm.data(), a_layout.get(), b_layout.get(), nullptr, c_layout.get()),
                   "describe a GEMM");
      check_onednn(dnn.describe(description.out(), gemm.data(), nullptr, engine, nullptr), "make such a GEMM");
    }
    const char* implementation = "";
    check_onednn(dnn.description_query(description.get(), kImplementation, 0, static_cast<void*>(&implementation)),
                 "name its implementation");
    // Plain loops that define the result: what nobody uses says nothing of the library's speed.
    if (std::string_view(implementation).starts_with("ref"))
      throw_no_gemm(onednn(), fmt::format("oneDNN has no fast GEMM of {} on this processor, only '{}'",
                                          dtype_name(w.operands), implementation));
    check_onednn(dnn.primitive_create(primitive_.out(), description.get()), "make such a GEMM");
    check_onednn(dnn.memory_create(a_.out(), a_layout.get(), engine, a), "use an operand");
    check_onednn(dnn.memory_create(b_.out(), b_layout.get(), engine, b), "use an operand");
    check_onednn(dnn.memory_create(c_.out(), c_layout.get(), engine, c), "use the result");
    arguments_ = {{{kSource, a_.get()}, {kWeights, b_.get()}, {kResult, c_.get()}}};
  }

  void run() override {
    check_onednn(opened_->dnn.execute(primitive_.get(), opened_->stream.get(), static_cast<int>(arguments_.size()),
                                      arguments_.data()),
                 "multiply");
    check_onednn(opened_->dnn.stream_wait(opened_->stream.get()), "multiply");
  }

 private:
  std::shared_ptr<const OpenedOnednn> opened_;
  LibraryHandle a_, b_, c_, primitive_;
  std::array<Argument, 3> arguments_{};
};

class OneDnnProvider : public GemmProvider {
 public:
  OneDnnProvider(CpuDevice& device, const VendorLibrary& library)
      : device_(device), opened_(std::make_shared<OpenedOnednn>(library)) {}

  std::string name() const override {
    const Version& version = *opened_->dnn.version();
    const char* threads = opened_->dnn.set_threads != nullptr  ? ""
                          : version.cpu_runtime == kSequential ? " (one thread)"
                                                               : " (threads as it chooses)";
    return fmt::format("oneDNN {}.{}.{}{}", version.major, version.minor, version.patch, threads);
  }

  std::unique_ptr<PreparedGemm> prepare(const GemmWorkload& workload, void* a, void* b, void* c) override {
    if (opened_->dnn.set_threads != nullptr) opened_->dnn.set_threads(device_.thread_count());
    return std::make_unique<PreparedOneDnn>(opened_, workload, a, b, c);
  }

 private:
  CpuDevice& device_;
  std::shared_ptr<const OpenedOnednn> opened_;
};

}  // namespace

std::unique_ptr<GemmProvider> open_onednn(Device& device, const std::string& file) {
  CpuDevice& processor = require_processor(device, onednn());
  return std::make_unique<OneDnnProvider>(processor, open_gemm_library(onednn(), file));
}

}  // namespace causeway::bench
