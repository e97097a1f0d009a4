// Reductions whose input's last axis is kept, on GPUs, as their plans have them.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/column_reduce_plan.h"
#include "causeway/codegen/gpu/loops.h"

namespace causeway::codegen {
namespace {

class GpuColumnReduceWriter : public KernelWriter {
 public:
  explicit GpuColumnReduceWriter(const KernelInputs& inputs)
      : KernelWriter(inputs),
        plan_(plan_gpu_column_reduce(inputs)),
        index_type_(compute_type(plan_.index_type)),
        stores_elements_(!plan_.elements.empty()) {
    variables_ = variables_of(plan_);
  }

  GeneratedKernel write() {
    write_body();
    return assemble();
  }

  void want_split(int variable, const Dim&) override {
    CAUSEWAY_CHECK(variable >= plan_.lane_variable(), "the loops want other axes than those they were planned with");
  }

 private:
  Value member(size_t position) const { return request_.members[position]; }
  const std::string& lane_name() const { return variables_[static_cast<size_t>(plan_.lane_variable())].name; }

  void write_body() {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    emitter.set_lanes(plan_.lane_variable(), plan_.lanes);
    const ElementPosition position = column_reduce_position(plan_, graph_, member(plan_.reductions.front()), emitter);
    std::string updates;
    for (size_t i = 0; i < plan_.elements.size(); ++i) {
      const Value element = member(plan_.elements[i]);
      const DType dtype = graph_.dtype(element);
      const std::string name = emitter.define(element, position).name;
      group_arrays_ +=
          fmt::format("{0} v{1}[{2}][{3}];\n{0}* to{1}[{2}];\n", storage_type(dtype), i, plan_.grouped, plan_.lanes);
      updates += fmt::format("v{}[group][{}] = {};\n", i, lane_name(), to_storage(dtype, name));
      Index first = *position.linear;
      std::erase_if(first.terms, [&](const Index::Term& term) { return term.variable == plan_.lane_variable(); });
      updates += fmt::format("to{}[group] = {} + ({});\n", i, pointer(element), emitter.index_text(first));
      stores_ += fmt::format("store_lanes(to{0}[group], v{0}[group]);\n", i);
    }
    for (const size_t reduction : plan_.reductions)
      inputs_.push_back(emitter.compute(graph_.node(member(reduction)).inputs[0], position).name);
    top_ = emitter.take_statements(0);
    thread_text_ = emitter.take_statements(kThreadDepth);
    reduced_text_ = emitter.take_statements(kElementDepth);
    lane_text_ = emitter.take_statements(kLaneDepth) + updates;
    result_at_ = emitter.index_text(
        add(scale(running_index(plan_, AxisMapping::kGrid), plan_.inner), running_index(plan_, AxisMapping::kBlock)));
  }

  std::string axis_variables(AxisMapping mapping, const std::string& running) {
    std::vector<std::pair<std::string, std::string>> names;
    for (size_t i = 0; i < plan_.axes.size(); ++i)
      if (plan_.axes[i].mapping == mapping) names.emplace_back(variables_[i].name, symbols_.text(plan_.axes[i].extent));
    return gpu_axis_variables(index_type_, running, names);
  }

  GpuAccumulator accumulator(size_t reduction) const {
    const Value value = member(plan_.reductions[reduction]);
    return {graph_.node(value).op, graph_.dtype(value)};
  }

  GeneratedKernel assemble() {
    const std::string lanes = lane_loop(lane_name(), plan_.lanes);
    std::vector<std::string> out;
    for (const size_t reduction : plan_.reductions) out.push_back(pointer(member(reduction)));
    const size_t workspace = arguments_.size();
    const std::string vectors = symbols_.text(plan_.vectors), reduced = symbols_.text(plan_.reduced),
                      outer = symbols_.text(plan_.outer), inner = symbols_.text(plan_.inner);
    const std::string count = fmt::format("{} * {}", outer, inner);  // of results
    std::string open_workspace;
    if (plan_.parts > 1) {
      arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
      open_workspace = fmt::format("auto* partials = {};\n", buffer_pointer(accumulator(0).type(), workspace));
    }
    std::string body = open_workspace + top_;
    body += fmt::format(
        "const int x = thread_index() % {0}, y = thread_index() / {0};\n"
        "const {1} column_blocks = ({2} + {3}) / {0};\n"
        "const {1} vector = task % column_blocks * {0} + x;\n"
        "const {1} column = vector < {2} ? vector : {2} - 1;\n"
        "const {1} outer = task / column_blocks % {4};\nconst {1} part = task / column_blocks / {4};\n",
        plan_.block_columns, index_type_, vectors, plan_.block_columns - 1, outer);
    body += axis_variables(AxisMapping::kGrid, "outer") + axis_variables(AxisMapping::kBlock, "column");
    body += thread_text_;
    body += fmt::format(
        "const {0} part_steps = ({1} + {2}) / {3};\nconst {0} part_end = (part + 1) * part_steps;\n"
        "const {0} last = part_end < {1} ? part_end : {1};\n",
        index_type_, reduced, plan_.parts - 1, plan_.parts);
    std::string takes, results;
    for (size_t i = 0; i < plan_.reductions.size(); ++i) {
      const GpuAccumulator sum = accumulator(i);
      const DType dtype = graph_.dtype(member(plan_.reductions[i]));
      const std::string value = fmt::format("sums{}[{}]", i, lane_name());
      body += fmt::format("{} sums{}[{}];\n{}{} = {};\n}}\n", sum.type(), i, plan_.lanes, lanes, value, sum.initial());
      // Of a step past the end, which repeats the last one, nothing is added.
      takes += sum.take(value, stores_elements_ ? fmt::format("(counts ? {} : 0.0f)", inputs_[i]) : inputs_[i]);
      results +=
          fmt::format("reduce_rows<{}, {}, {}>(sums{}, {}());\nif (y == 0 && vector < {}) {{\n{}", plan_.block_columns,
                      plan_.block_rows, plan_.lanes, i, sum.operation(), vectors, lanes) +
          (plan_.parts == 1
               ? fmt::format("{}[{}] = {};\n", out[i], result_at_, to_storage(dtype, sum.result(value)))
               : fmt::format("partials[({} + part) * {} + outer * {} + vector * {} + {}] = {};\n",
                             static_cast<int64_t>(i) * plan_.parts, count, inner, plan_.lanes, lane_name(), value)) +
          "}\n}\n";
    }
    body += steps(reduced_text_ + lanes + lane_text_ + takes + "}\n", vectors) + results;
    std::vector<GpuPartsOfSum> parts;
    for (size_t i = 0; i < plan_.reductions.size(); ++i) {
      const Value value = member(plan_.reductions[i]);
      parts.push_back({graph_.node(value).op, graph_.dtype(value), out[i]});
    }
    const std::string finish_body =
        plan_.parts > 1 ? open_workspace + gpu_add_parts(plan_.finish, index_type_, count, plan_.parts, parts) : "";
    std::string source = "#include \"causeway/kernels/gpu/lanes.h\"\n#include \"causeway/kernels/gpu/reduce.h\"\n" +
                         gpu_kernel("kernel", kLoopThreads, plan_.blocks_per_unit) + prologue() + body + "}\n";
    if (plan_.parts > 1) source += gpu_kernel("kernel_finish", kLoopThreads) + prologue() + finish_body + "}\n";
    GeneratedKernel kernel = finish(source);
    add_phases(kernel);
    return kernel;
  }

  // A thread's walk over its share of the reduced elements, `step` by step.
  std::string steps(const std::string& step, const std::string& vectors) {
    const std::string variables = axis_variables(AxisMapping::kTeam, "step");
    if (!stores_elements_)
      return fmt::format(
                 "#pragma clang loop unroll_count({2})\n"
                 "for ({0} step = part * part_steps + y; step < last; step += {1}) {{\n",
                 index_type_, plan_.block_rows, plan_.unrolled) +
             variables + step + "}\n";
    // A store may overwrite what is loaded after it for all the compiler knows.
    return fmt::format(
               "for ({0} first = part * part_steps + y; first < last; first += {1}) {{\n{2}"
               "#pragma clang loop unroll(full)\nfor (int group = 0; group < {3}; ++group) {{\n"
               "const bool counts = first + group * {4} < last;\n"
               "const {0} step = counts ? first + group * {4} : last - 1;\n",
               index_type_, plan_.block_rows * plan_.grouped, group_arrays_, plan_.grouped, plan_.block_rows) +
           variables + step +
           fmt::format(
               "}}\nif (vector < {0}) {{\n#pragma clang loop unroll(full)\n"
               "for (int group = 0; group < {1}; ++group) {{\nif (first + group * {2} >= last) break;\n{3}}}\n}}\n",
               vectors, plan_.grouped, plan_.block_rows, stores_) +
           "}\n";
  }

  void add_phases(GeneratedKernel& kernel) const {
    kernel.phases = {gpu_phase("kernel", kLoopThreads, plan_.shared_bytes,
                               [outer = plan_.outer, vectors = plan_.vectors, parts = plan_.parts,
                                columns = int64_t{plan_.block_columns}](const SymbolBindings& bindings) {
                                 return parts * outer.evaluate(bindings) *
                                        divide_up(vectors.evaluate(bindings), columns);
                               })};
    if (plan_.parts == 1) return;
    const Dim results = plan_.outer * plan_.inner;
    kernel.phases.push_back(
        gpu_phase("kernel_finish", kLoopThreads, plan_.finish_shared_bytes,
                  [results, neighbours = int64_t{plan_.finish.neighbours}](const SymbolBindings& bindings) {
                    return divide_up(results.evaluate(bindings), neighbours);
                  }));
    kernel.workspace_bytes = [bytes = plan_.workspace_bytes](const SymbolBindings& bindings) {
      return bytes.evaluate(bindings);
    };
  }

  const GpuColumnReducePlan plan_;
  const std::string index_type_;
  const bool stores_elements_;
  std::string top_, thread_text_, reduced_text_, lane_text_;  // statements of the kernel, and by depth
  std::string group_arrays_, stores_, result_at_;
  std::vector<std::string> inputs_;  // an element of each reduction's input
};

}  // namespace

GeneratedKernel write_gpu_column_reduce_kernel(const KernelInputs& inputs) {
  return GpuColumnReduceWriter(inputs).write();
}

}  // namespace causeway::codegen
