// Loops with sums over rows on GPUs: a fixed number of blocks take groups of rows in turn and leave their sums for a
// second launch.
#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/gpu/loop_writer.h"

namespace causeway::codegen {
namespace {

class GpuRowSumLoopWriter : public GpuLoopWriter {
 public:
  using GpuLoopWriter::GpuLoopWriter;

  GeneratedKernel write() {
    write_passes();
    const std::vector<size_t>& positions = plan_.row_sums;
    std::vector<GpuPartsOfSum> sums;
    for (const size_t position : positions) {
      const Value member = request_.members[position];
      sums.push_back({graph_.node(member).op, graph_.dtype(member), pointer(member)});
    }
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    CAUSEWAY_CHECK(arguments_.size() == plan_.arguments, "{} arguments in place of the plan's {}", arguments_.size(),
                   plan_.arguments);
    const std::string open_workspace =
        fmt::format("auto* partials = {};\n", buffer_pointer(accumulator(positions.front()).type(), workspace));
    const std::string columns = symbols_.text(request_.columns);
    std::string body = open_workspace + top_, left;
    for (size_t i = 0; i < positions.size(); ++i) {
      body += begin_sum(positions[i]);
      left += leave_sum(positions[i], static_cast<int64_t>(i) * plan_.row_sum_blocks, columns);
    }
    const int64_t blocks = plan_.row_sum_blocks;
    const int per_block = plan_.rows_per_block();
    body += fmt::format(
        "#pragma clang loop unroll(disable)\n"
        "for ({0} group = task; group < ({1} + {2}) / {3}; group += {4}) {{\n",
        index_type_, symbols_.text(request_.rows), per_block - 1, per_block, blocks);
    body += row_of_team("group", "group") + axis_variables(AxisMapping::kGrid, "row") + text_ + stores_of_row() +
            "}\n" + left;
    GeneratedKernel kernel =
        finish(source("kernel", plan_.threads, body, plan_.blocks_per_unit) +
               kernel_text("kernel_finish", kLoopThreads,
                           open_workspace + gpu_add_parts(plan_.finish, index_type_, columns, blocks, sums)));
    const int64_t results = request_.columns.constant();
    kernel.phases = {
        gpu_phase("kernel", plan_.threads, plan_.shared_bytes, [blocks](const SymbolBindings&) { return blocks; }),
        gpu_phase(
            "kernel_finish", kLoopThreads, plan_.finish_shared_bytes,
            [finished = divide_up(results, plan_.finish.neighbours)](const SymbolBindings&) { return finished; })};
    kernel.workspace_bytes = [bytes = plan_.workspace_bytes](const SymbolBindings&) { return bytes; };
    return kernel;
  }

 private:
  std::string begin_sum(size_t position) const {
    const GpuAccumulator sum = accumulator(position);
    const std::string name = row_sum(position);
    return fmt::format("{0} {1}[{2}];\n#pragma clang loop unroll(full)\nfor (int i = 0; i < {2}; ++i) {1}[i] = {3};\n",
                       sum.type(), name, plan_.held_elements, sum.initial());
  }

  // The block's sum, from part `first_part` of all blocks' on.
  std::string leave_sum(size_t position, int64_t first_part, const std::string& columns) const {
    const std::string name = row_sum(position);
    return fmt::format("reduce_rows<{}, {}, {}>({}, {}());\n", plan_.team, plan_.rows_per_block(), plan_.held_elements,
                       name, accumulator(position).operation()) +
           fmt::format(
               "#pragma clang loop unroll(full)\nfor (int i = 0; i < {0}; ++i) {{\n"
               "const int column = (thread_index() + i / {1} * {2}) * {1} + i % {1};\n"
               "if (thread_index() < {2} && column < {3}) partials[({4} + task) * {3} + column] = {5}[i];\n}}\n",
               plan_.held_elements, plan_.lanes, plan_.team, columns, first_part, name);
  }
};

}  // namespace

GeneratedKernel write_gpu_row_sum_loop(const KernelInputs& inputs, const GpuLoopPlan& plan) {
  return GpuRowSumLoopWriter(inputs, plan).write();
}

}  // namespace causeway::codegen
