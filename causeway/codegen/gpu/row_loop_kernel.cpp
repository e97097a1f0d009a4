// Loops with sums over columns on GPUs: teams of threads that have a row each, as a kernel or as a function of another
// kernel's blocks; clusters of blocks that share a row; and blocks that have parts of rows.
#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/loop_writer.h"

namespace causeway::codegen {
namespace {

constexpr const char* kSharedResult = "shared_result";

class GpuRowLoopWriter : public GpuLoopWriter {
 public:
  using GpuLoopWriter::GpuLoopWriter;

  GeneratedKernel write() {
    write_passes();
    return plan_.form == Form::kRowParts ? write_parts() : write_rows();
  }

  GpuRowFunction write_function(Value result, int shared_offset) {
    shared_result_ = result;
    write_passes();
    const std::string body = row_body();
    const int64_t tasks = divide_up(request_.rows.constant(), plan_.rows_per_block());
    GpuRowFunction function;
    function.text =
        std::string(kIncludes) + "CAUSEWAY_INLINE void compute_rows(void* const* buffers, const int64_t* sizes) {\n" +
        prologue() +
        fmt::format(
            "auto* {} = reinterpret_cast<{}*>(shared_memory() + {});\nfor (int task = 0; task < {}; ++task) {{\n",
            kSharedResult, storage_type(graph_.dtype(result)), shared_offset, tasks) +
        body + "}\n}\n";
    function.threads = plan_.threads;
    const GeneratedKernel all = finish("");
    function.arguments = all.arguments;
    function.sizes = all.sizes;
    return function;
  }

  std::string pointer(Value value) override {
    return value == shared_result_ ? kSharedResult : GpuLoopWriter::pointer(value);
  }

 private:
  std::string row_body() {
    std::string body = row_of_team("task", task_text());
    if (plan_.unaligned_columns)
      body += unaligned_row() + fmt::format("const {} row_last = (row_start - row_vector + {}) / {};\n", index_type_,
                                            *plan_.unaligned_columns + plan_.lanes - 1, plan_.lanes);
    body += axis_variables(AxisMapping::kGrid, "row") + top_ + text_;
    if (plan_.barrier_before_stores) body += plan_.cluster > 1 ? "cluster_barrier();\n" : "block_barrier();\n";
    return body + stores_of_row();
  }

  GeneratedKernel write_rows() {
    const std::string body = row_body();
    GeneratedKernel kernel = finish(source("kernel", plan_.threads, body));
    kernel.phases = {gpu_phase(
        "kernel", plan_.threads, plan_.shared_bytes,
        [rows = request_.rows, per_block = int64_t{plan_.rows_per_block()}, cluster = int64_t{plan_.cluster}](
            const SymbolBindings& bindings) { return divide_up(rows.evaluate(bindings), per_block) * cluster; })};
    kernel.phases.front().cluster = plan_.cluster;
    return kernel;
  }

  GeneratedKernel write_parts() {
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const std::string open_workspace = "char* workspace = " + buffer_pointer("char", workspace) + ";\n";
    const std::string vectors = symbols_.text(plan_.row_vectors);
    const std::string part_body =
        open_workspace +
        fmt::format(
            "const int row = task / {0};\nconst {1} part = task % {0};\nconst {1} part_vectors = ({2} + {3}) / {0};\n"
            "const {1} first = part * part_vectors + thread_index();\n"
            "const {1} part_end = (part + 1) * part_vectors;\nconst {1} last = part_end < {2} ? part_end : {2};\n",
            plan_.parts, index_type_, vectors, plan_.parts - 1) +
        axis_variables(AxisMapping::kGrid, "row") + top_ + text_;
    const std::string finish_body = open_workspace + "const int row = task;\n" +
                                    axis_variables(AxisMapping::kGrid, "row") + finish_top_ + finish_text_ +
                                    "block_barrier();\nif (thread_index() == 0) {\n" + row_stores_ + "}\n";
    GeneratedKernel kernel =
        finish(source("kernel", plan_.threads, part_body) + kernel_text("kernel_finish", plan_.threads, finish_body));
    const int64_t rows = request_.rows.constant(), parts = plan_.parts;
    kernel.phases = {gpu_phase("kernel", plan_.threads, plan_.shared_bytes,
                               [rows, parts](const SymbolBindings&) { return rows * parts; }),
                     gpu_phase("kernel_finish", plan_.threads, plan_.finish_shared_bytes,
                               [rows](const SymbolBindings&) { return rows; })};
    kernel.workspace_bytes = [bytes = plan_.workspace_bytes](const SymbolBindings&) { return bytes; };
    return kernel;
  }

  std::optional<Value> shared_result_;  // of a row function
};

}  // namespace

GeneratedKernel write_gpu_row_loop(const KernelInputs& inputs, const GpuLoopPlan& plan) {
  return GpuRowLoopWriter(inputs, plan).write();
}

std::optional<GpuRowFunction> write_gpu_row_function(const KernelInputs& inputs, Value result, int shared_offset) {
  const GpuLoopPlan plan = plan_gpu_loop(inputs);
  if (plan.obstacle || plan.form != GpuLoopPlan::Form::kRows || !inputs.request.rows.is_constant() ||
      plan.holds(GpuLoopPlan::HeldRow::Where::kShared) || shared_offset < GpuLoopPlan::kSumsSharedBytes)
    return std::nullopt;
  return GpuRowLoopWriter(inputs, plan).write_function(result, shared_offset);
}

}  // namespace causeway::codegen
