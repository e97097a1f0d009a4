// Loop kernels on CPUs: a task is a range of rows, or of the elements when there are no rows.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/loop_writer.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kElementsPerTask = 32768;

class CpuLoopWriter : public LoopWriter {
 public:
  using LoopWriter::LoopWriter;

  GeneratedKernel write(bool& conflict) {
    start_axes();
    // Writing the text shows where index arithmetic would have to divide; cutting the axis there avoids it.
    std::string body;
    do {
      reset();
      body = write_body();
    } while (cut_wanted_axis());
    conflict = conflict_;
    return assemble(body);
  }

 private:
  std::string write_body() {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    const std::map<Value, int> phases = assign_phases();
    int last_phase = 0;
    for (const auto& [member, phase] : phases) last_phase = std::max(last_phase, phase);
    std::string row_text;
    for (int phase = 0; phase <= last_phase; ++phase) {
      for (const Value member : request_.members)
        if (phases.at(member) == phase && role(member) == Role::kRow) write_row_member(emitter, member, row_text);
      row_text += write_phase(emitter, phases, phase);
      if (wanted_split_) return {};
    }
    return emitter.take_statements(0) + "\v" + row_text;  // \v parts the kernel's own statements from the rows'
  }

  void write_row_member(ExpressionEmitter& emitter, Value member, std::string& row_text) {
    const EmittedValue value = emitter.define(member, {row_linear_, {}});
    row_text += emitter.take_statements(kRowDepth);
    row_text += store_statement(member, emitter.index_text(row_linear_), value.name);
    member_variables_[member] = {value, row_linear_};
  }

  std::string write_phase(ExpressionEmitter& emitter, const std::map<Value, int>& phases, int phase) {
    std::string stores, before, after;
    bool any = false;
    std::vector<std::pair<Value, EmittedValue>> results;
    for (size_t position = 0; position < request_.members.size(); ++position) {
      const Value member = request_.members[position];
      const Role member_role = role(member);
      if (phases.at(member) != phase || member_role == Role::kRow) continue;
      any = true;
      const DType dtype = graph_.dtype(member);
      if (member_role == Role::kFull) {
        const EmittedValue value = emitter.define(member, {full_linear_, {}});
        member_variables_[member] = {value, full_linear_};
        stores += store_statement(member, emitter.index_text(full_linear_), value.name);
        continue;
      }
      const Node& node = graph_.node(member);
      const EmittedValue value = emitter.emit(node.inputs[0], reduction_input(emitter, node));
      const std::string accumulator = fmt::format("a{}", position);
      if (node.op == Op::kReduceMax && is_float(dtype)) {
        before += fmt::format("int32_t {} = kLowestOrderKey;\n", accumulator);
        stores += fmt::format("{{ const int32_t key = order_key({1}); {0} = key > {0} ? key : {0}; }}\n", accumulator,
                              value.name);
        results.emplace_back(member, EmittedValue{fmt::format("from_order_key({})", accumulator), kRowDepth});
      } else if (node.op == Op::kReduceMax) {
        before += fmt::format("{0} {1} = lowest_value<{0}>();\n", compute_type(dtype), accumulator);
        stores += fmt::format("{0} = {1} > {0} ? {1} : {0};\n", accumulator, value.name);
        results.emplace_back(member, EmittedValue{accumulator, kRowDepth});
      } else {
        before += fmt::format("{} {} = 0;\n", compute_type(dtype), accumulator);
        stores += is_float(dtype) ? fmt::format("{{\n_Pragma(\"clang fp reassociate(on)\")\n{} += {};\n}}\n",
                                                accumulator, value.name)
                                  : fmt::format("{} = {};\n", accumulator, sum_text(dtype, accumulator, value.name));
        results.emplace_back(member, EmittedValue{accumulator, kRowDepth});
      }
    }
    if (!any) return {};
    std::string text = emitter.take_statements(kRowDepth) + before;
    text += write_column_loops(emitter, stores);
    // Elements of this pass are gone when the loop ends.
    emitter.leave_loops(kRowDepth + 1);
    std::erase_if(member_variables_, [&](const auto& entry) { return entry.second.value.depth > kRowDepth; });
    for (const auto& [member, value] : results) {
      const DType dtype = graph_.dtype(member);
      const std::string name = fmt::format("s{}", next_result_++);
      text += fmt::format(
          "const {} {} = {};\n", compute_type(dtype), name,
          is_float(dtype) && dtype != DType::kF32 ? from_storage(dtype, to_storage(dtype, value.name)) : value.name);
      text += store_statement(member, emitter.index_text(row_linear_), name);
      member_variables_[member] = {{name, kRowDepth}, row_linear_};
    }
    return text;
  }

  std::string write_column_loops(ExpressionEmitter& emitter, const std::string& innermost) {
    std::vector<size_t> columns;
    for (size_t i = 0; i < axes_.size(); ++i)
      if (!axes_[i].is_row) columns.push_back(i);
    std::string text, closing;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string& name = variables_[static_cast<size_t>(axis_variables_[columns[i]])].name;
      const bool last = i + 1 == columns.size();
      if (last) text += "#pragma clang loop vectorize(assume_safety)\n";
      // A kernel without rows is cut into tasks along its only loop.
      if (is_flat()) {
        text += fmt::format("for (int64_t {0} = begin; {0} < end; ++{0}) {{\n", name);
      } else {
        text +=
            fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{\n", name, symbols_.text(axes_[columns[i]].extent));
      }
      text += emitter.take_statements(kRowDepth + 1 + static_cast<int>(i));
      closing += "}\n";
    }
    return text + innermost + closing;
  }

  bool is_flat() const { return !has_reductions() && axes_.size() == 1; }

  GeneratedKernel assemble(const std::string& body) {
    const size_t mark = body.find('\v');
    const std::string top = mark == std::string::npos ? "" : body.substr(0, mark);
    const std::string row_text = mark == std::string::npos ? "" : body.substr(mark + 1);
    std::string loop;
    SizeFunction tasks;
    if (is_flat()) {
      const Dim count = request_.rows * request_.columns;
      loop = fmt::format("const int64_t begin = task * {0};\nconst int64_t end = minimum(begin + {0}, {1});\n",
                         kElementsPerTask, size_argument(count));
      loop += row_text;
      tasks = [count](const SymbolBindings& bindings) { return divide_up(count.evaluate(bindings), kElementsPerTask); };
    } else {
      Dim rows(1), columns(1);
      for (const Axis& axis : axes_) (axis.is_row ? rows : columns) *= axis.extent;
      const int64_t rows_per_task =
          columns.is_constant() ? std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, columns.constant())) : 8;
      loop = fmt::format(
          "const int64_t begin = task * {0};\nconst int64_t end = minimum(begin + {0}, {1});\n"
          "for (int64_t row = begin; row < end; ++row) {{\n",
          rows_per_task, size_argument(rows));
      loop += row_variables();
      loop += row_text + "}\n";
      tasks = [rows, rows_per_task](const SymbolBindings& bindings) {
        return divide_up(rows.evaluate(bindings), rows_per_task);
      };
    }
    const std::string source =
        "#include \"causeway/kernels/elementwise.h\"\n"
        "extern \"C\" void kernel(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {\n" +
        prologue() + top + loop + "}\n";
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel", std::move(tasks), [](const SymbolBindings&) { return int64_t{0}; }}};
    return kernel;
  }

  // The row variables from the running row number.
  std::string row_variables() {
    std::vector<size_t> rows;
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axes_[i].is_row) rows.push_back(i);
    std::string text;
    std::string rest = "row";
    for (size_t i = rows.size(); i-- > 0;) {
      const std::string& name = variables_[static_cast<size_t>(axis_variables_[rows[i]])].name;
      if (i == 0) {
        text += fmt::format("const int64_t {} = {};\n", name, rest);
        continue;
      }
      const std::string extent = symbols_.text(axes_[rows[i]].extent);
      text += fmt::format("const int64_t {} = {} % {};\n", name, rest, extent);
      text += fmt::format("const int64_t {}_above = {} / {};\n", name, rest, extent);
      rest = name + "_above";
    }
    return text;
  }
};

}  // namespace

GeneratedKernel generate_loop_kernel(const Graph& graph, const MaterializedValues& materialized,
                                     const KernelRequest& request, const Target& target, bool& conflict) {
  if (target.is_gpu()) return generate_gpu_loop_kernel(graph, materialized, request, target, conflict);
  return CpuLoopWriter(graph, materialized, request, target).write(conflict);
}

}  // namespace causeway::codegen
