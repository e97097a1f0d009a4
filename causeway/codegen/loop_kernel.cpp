// Loop kernels: rows x columns. A row is worked through in phases: each phase is one pass over the columns that
// computes elements and sums; what depends on a row's sums comes in a later phase.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/kernel_writer.h"

namespace causeway {
namespace {

constexpr int kRowDepth = 1;  // loop depth of row variables; columns are deeper
constexpr int64_t kElementsPerTask = 32768;

class LoopWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  GeneratedKernel write(bool& conflict) {
    axes_ = {{request_.rows, true}, {request_.columns, false}};
    std::erase_if(axes_, [](const Axis& axis) { return axis.is_row && axis.extent.is_constant(1); });
    // Writing the text shows where index arithmetic would have to divide; cutting the axis there avoids it.
    std::string body;
    while (true) {
      reset();
      body = write_body();
      if (!wanted_split_) break;
      const auto [axis, inner] = *wanted_split_;
      const Axis cut = axes_[axis];
      axes_[axis] = {inner, cut.is_row};
      axes_.insert(axes_.begin() + static_cast<ptrdiff_t>(axis), {*cut.extent.divide_exactly(inner), cut.is_row});
      // Without sums, everything but the innermost loop counts as rows, so that tasks are cut there.
      if (!has_reductions())
        for (size_t i = 0; i < axes_.size(); ++i) axes_[i].is_row = i + 1 < axes_.size();
    }
    conflict = conflict_;
    return assemble(body);
  }

  void want_split(int variable, const Dim& inner) override {
    for (size_t i = 0; i < axes_.size(); ++i)
      if (axis_variables_[i] == variable && !wanted_split_) wanted_split_ = {i, inner};
  }

 private:
  struct Axis {
    Dim extent;
    bool is_row;
  };

  enum class Role { kFull, kRow, kReduction };

  bool has_reductions() const {
    return std::any_of(request_.members.begin(), request_.members.end(),
                       [&](Value member) { return op_info(graph_.node(member).op).kind == OpKind::kReduce; });
  }

  Role role(Value member) const {
    if (op_info(graph_.node(member).op).kind == OpKind::kReduce) return Role::kReduction;
    const Dim count = element_count(graph_.shape(member));
    if (has_reductions() && count == request_.rows && !(count == request_.rows * request_.columns)) return Role::kRow;
    CAUSEWAY_CHECK(count == request_.rows * request_.columns, "{} in a kernel of {} x {}", graph_.type(member).text(),
                   request_.rows.text(), request_.columns.text());
    return Role::kFull;
  }

  void reset() {
    variables_.clear();
    symbols_ = {};
    arguments_.clear();
    pointers_.clear();
    sizes_.clear();
    member_variables_.clear();
    conflict_ = false;
    next_result_ = 0;
    wanted_split_.reset();
    axis_variables_.clear();
    row_linear_ = Index::constant(0);
    column_linear_ = Index::constant(0);
    Dim row_stride(1), column_stride(1);
    int depth = kRowDepth;
    for (const Axis& axis : axes_) {
      if (!axis.is_row) ++depth;
      axis_variables_.push_back(static_cast<int>(variables_.size()));
      variables_.push_back({fmt::format("{}{}", axis.is_row ? "r" : "c", variables_.size()), axis.extent,
                            axis.is_row ? kRowDepth : depth});
    }
    for (size_t i = axes_.size(); i-- > 0;) {
      Dim& stride = axes_[i].is_row ? row_stride : column_stride;
      Index& linear = axes_[i].is_row ? row_linear_ : column_linear_;
      linear = add(linear, scale(Index::of(axis_variables_[i]), stride));
      stride *= axes_[i].extent;
    }
    // Reductions keep the row axes apart from the columns; otherwise the axes are cut from one row-major range.
    full_linear_ = add(scale(row_linear_, column_stride), column_linear_);
  }

  // Phases in which the members are computed.
  std::map<Value, int> assign_phases() const {
    std::map<Value, int> phases;
    for (const Value member : request_.members) {
      int phase = 0;
      for (const Value leaf : leaves(member)) {
        const auto entry = phases.find(leaf);
        if (entry == phases.end()) continue;
        phase = std::max(phase, entry->second + (role(leaf) == Role::kReduction ? 1 : 0));
      }
      phases[member] = phase;
    }
    return phases;
  }

  ElementPosition reduction_input(const Node& node) const {
    const Shape& shape = graph_.shape(node.inputs[0]);
    const std::vector<int64_t>& axes = node.attributes.axes;
    if (axes.front() == static_cast<int64_t>(shape.size() - axes.size())) return {full_linear_, {}};
    return {};
  }

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

  bool is_stored(Value value) override { return is_member(value) || KernelWriter::is_stored(value); }

  std::optional<EmittedValue> variable(Value value, const Index& linear) override {
    if (!is_member(value)) return std::nullopt;
    const auto entry = member_variables_.find(value);
    if (entry != member_variables_.end() && entry->second.linear == linear) return entry->second.value;
    // An element of an earlier pass over the same row can be read back; any other may not have been computed yet.
    if (!member_stored(value) || entry != member_variables_.end() || role(value) != Role::kFull ||
        !(linear == full_linear_))
      conflict_ = true;
    return std::nullopt;
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
      ElementPosition input = reduction_input(node);
      if (!input.linear) input.multi = scattered_reduction_input(emitter, node);
      const EmittedValue value = emitter.emit(node.inputs[0], input);
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
                                  : fmt::format("{} += {};\n", accumulator, value.name);
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

  std::vector<Index> scattered_reduction_input(ExpressionEmitter& emitter, const Node& node) {
    const Shape& shape = graph_.shape(node.inputs[0]);
    Shape kept, reduced;
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool is_reduced = std::binary_search(node.attributes.axes.begin(), node.attributes.axes.end(), int64_t(i));
      (is_reduced ? reduced : kept).push_back(shape[i]);
    }
    const std::vector<Index> kept_at = emitter.delinearize(row_linear_, kept);
    const std::vector<Index> reduced_at = emitter.delinearize(column_linear_, reduced);
    std::vector<Index> multi;
    size_t next_kept = 0, next_reduced = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool is_reduced = std::binary_search(node.attributes.axes.begin(), node.attributes.axes.end(), int64_t(i));
      multi.push_back(is_reduced ? reduced_at[next_reduced++] : kept_at[next_kept++]);
    }
    return multi;
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

  std::vector<Axis> axes_;
  std::vector<int> axis_variables_;
  std::optional<std::pair<size_t, Dim>> wanted_split_;
  Index row_linear_, column_linear_, full_linear_;
  int next_result_ = 0;
};

}  // namespace

GeneratedKernel generate_loop_kernel(const Graph& graph, const MaterializedValues& materialized,
                                     const KernelRequest& request, const Target& target, bool& conflict) {
  return LoopWriter(graph, materialized, request, target).write(conflict);
}

}  // namespace causeway
