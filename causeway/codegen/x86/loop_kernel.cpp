// Loop kernels on CPUs: a task is a range of rows, or of the elements when there are no rows.
#include <algorithm>
#include <set>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/loop_writer.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kElementsPerTask = 32768;
// Rows from so many elements on, and loops without rows, come in blocks of kBlock elements: while one is computed, the
// next one's operands are on their way. Loops that compute much reach too little ahead by themselves.
constexpr int64_t kLongRow = 4096, kBlock = 512;

class CpuLoopWriter : public LoopWriter<LoopNest> {
 public:
  using LoopWriter::LoopWriter;

  void note_load(Value value, const Index& linear) override {
    LoopWriter::note_load(value, linear);
    loads_.emplace(value, linear);
  }

  GeneratedKernel write() {
    nest_.plan();
    const std::optional<Obstacle> planned = nest_.obstacle();
    nest_.reset();
    ExpressionEmitter emitter(graph_, *this, nest_.variables(), symbols_);
    emitter_ = &emitter;
    nest_.walk(emitter, *this);
    top_ = emitter.take_statements(0);
    check_written(planned);
    return assemble();
  }

 private:
  void row_value(Value member, const ElementValue& value) override {
    rows_ += emitter_->take_statements(kRowDepth);
    rows_ += store_rounded(member, emitter_->index_text(nest_.row_linear()), value.name);
  }

  void begin_phase() override {
    initial_.clear();
    innermost_.clear();
    results_.clear();
    loads_.clear();
  }

  void element(size_t position, const ElementValue& value) override {
    innermost_ += store_rounded(request_.members[position], emitter_->index_text(nest_.full_linear()), value.name);
  }

  void summand(size_t position, const ElementValue& value) override {
    const Value member = request_.members[position];
    const DType dtype = graph_.dtype(member);
    const std::string accumulator = fmt::format("a{}", position);
    std::string result = accumulator;
    if (graph_.node(member).op == Op::kReduceMax && is_float(dtype)) {
      initial_ += fmt::format("int32_t {} = kLowestOrderKey;\n", accumulator);
      innermost_ += fmt::format("{{ const int32_t key = order_key({1}); {0} = key > {0} ? key : {0}; }}\n", accumulator,
                                value.name);
      result = fmt::format("from_order_key({})", accumulator);
    } else if (graph_.node(member).op == Op::kReduceMax) {
      initial_ += fmt::format("{0} {1} = lowest_value<{0}>();\n", compute_type(dtype), accumulator);
      innermost_ += fmt::format("{0} = {1} > {0} ? {1} : {0};\n", accumulator, value.name);
    } else {
      initial_ += fmt::format("{} {} = 0;\n", compute_type(dtype), accumulator);
      // How the compiler would reorder depends on what else is in the loop.
      innermost_ +=
          is_float(dtype) && !request_.fixed_order
              ? fmt::format("{{\n_Pragma(\"clang fp reassociate(on)\")\n{} += {};\n}}\n", accumulator, value.name)
              : fmt::format("{} = {};\n", accumulator, sum_text(dtype, accumulator, value.name));
    }
    results_[position] = result;
  }

  void end_pass() override {
    rows_ += emitter_->take_statements(kRowDepth) + initial_;
    rows_ += column_loops();
  }

  void result(size_t position, const std::string& name) override {
    const Value member = request_.members[position];
    const DType dtype = graph_.dtype(member);
    const std::string& value = results_.at(position);
    rows_ += fmt::format("const {} {} = {};\n", compute_type(dtype), name, rounded(dtype, value));
    rows_ += store_rounded(member, emitter_->index_text(nest_.row_linear()), name);
  }

  std::string column_loops() {
    std::vector<size_t> columns;
    for (size_t i = 0; i < nest_.axes().size(); ++i)
      if (!nest_.axes()[i].is_row) columns.push_back(i);
    std::string text, closing;
    for (size_t i = 0; i < columns.size(); ++i) {
      const std::string& name = nest_.axis_name(columns[i]);
      const Dim& extent = nest_.axes()[columns[i]].extent;
      const bool last = i + 1 == columns.size();
      // A kernel without rows is cut into tasks along its only loop.
      std::string begin = is_flat() ? "begin" : "0", end = is_flat() ? "end" : symbols_.text(extent);
      if (last && (is_flat() || (extent.is_constant() && extent.constant() >= kLongRow))) {
        const std::string fetched = prefetches(nest_.axis_variable(columns[i]), name + "_block");
        if (!fetched.empty()) {
          text += fmt::format(
              "for (int64_t {0}_block = {1}; {0}_block < {2}; {0}_block += {3}) {{\n"
              "{4}const int64_t {0}_end = minimum({0}_block + {3}, {2});\n",
              name, begin, end, kBlock, fetched);
          closing += "}\n";
          begin = name + "_block";
          end = name + "_end";
        }
      }
      // Asked to vectorize, the compiler would reorder sums too.
      if (last && !(request_.fixed_order && nest_.has_reductions()))
        text += "#pragma clang loop vectorize(assume_safety)\n";
      text += fmt::format("for (int64_t {0} = {1}; {0} < {2}; ++{0}) {{\n", name, begin, end);
      text += emitter_->take_statements(kRowDepth + 1 + static_cast<int>(i));
      closing += "}\n";
    }
    return text + innermost_ + closing;
  }

  // Of the block after the one that begins at `block`: what this pass is the first to read, side by side along the
  // variable.
  std::string prefetches(int variable, const std::string& block) {
    std::string text;
    for (const auto& [value, linear] : loads_) {
      const std::optional<Index> first = where_it_begins(linear, variable);
      if (!first || !of_axes(*first) || !prefetched_.emplace(value, linear).second) continue;
      const std::string at = *first == Index::constant(0) ? block : emitter_->index_text(*first) + " + " + block;
      text += fmt::format("prefetch_elements({} + {} + {}, {});\n", pointer(value), at, kBlock, kBlock);
    }
    return text;
  }
  // Whether the index has no variables that are computed where they are needed.
  bool of_axes(const Index& index) const {
    return std::ranges::all_of(index.terms, [&](const Index::Term& term) {
      for (size_t axis = 0; axis < nest_.axes().size(); ++axis)
        if (nest_.axis_variable(axis) == term.variable) return true;
      return false;
    });
  }

  bool is_flat() const { return !nest_.has_reductions() && nest_.axes().size() == 1; }

  GeneratedKernel assemble() {
    std::string loop;
    SizeFunction tasks;
    if (is_flat()) {
      const Dim count = request_.rows * request_.columns;
      loop = fmt::format("const int64_t begin = task * {0};\nconst int64_t end = minimum(begin + {0}, {1});\n",
                         kElementsPerTask, size_argument(count));
      loop += rows_;
      tasks = [count](const SymbolBindings& bindings) { return divide_up(count.evaluate(bindings), kElementsPerTask); };
    } else {
      Dim rows(1), columns(1);
      for (const Axis& axis : nest_.axes()) (axis.is_row ? rows : columns) *= axis.extent;
      const int64_t rows_per_task =
          columns.is_constant() ? std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, columns.constant())) : 8;
      loop = fmt::format(
          "const int64_t begin = task * {0};\nconst int64_t end = minimum(begin + {0}, {1});\n"
          "for (int64_t row = begin; row < end; ++row) {{\n",
          rows_per_task, size_argument(rows));
      loop += row_variables();
      loop += rows_ + "}\n";
      tasks = [rows, rows_per_task](const SymbolBindings& bindings) {
        return divide_up(rows.evaluate(bindings), rows_per_task);
      };
    }
    const std::string source =
        "#include \"causeway/kernels/elementwise.h\"\n"
        "extern \"C\" void kernel(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {\n" +
        prologue() + top_ + loop + "}\n";
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel", std::move(tasks), [](const SymbolBindings&) { return int64_t{0}; }}};
    return kernel;
  }

  // The row variables from the running row number.
  std::string row_variables() {
    std::vector<size_t> rows;
    for (size_t i = 0; i < nest_.axes().size(); ++i)
      if (nest_.axes()[i].is_row) rows.push_back(i);
    std::string text;
    std::string rest = "row";
    for (size_t i = rows.size(); i-- > 0;) {
      const std::string& name = nest_.axis_name(rows[i]);
      if (i == 0) {
        text += fmt::format("const int64_t {} = {};\n", name, rest);
        continue;
      }
      const std::string extent = symbols_.text(nest_.axes()[rows[i]].extent);
      text += fmt::format("const int64_t {} = {} % {};\n", name, rest, extent);
      text += fmt::format("const int64_t {}_above = {} / {};\n", name, rest, extent);
      rest = name + "_above";
    }
    return text;
  }

  ExpressionEmitter* emitter_ = nullptr;          // while the nest is walked
  std::string top_, rows_;                        // statements of the kernel, and of a row
  std::string initial_, innermost_;               // of a phase: what comes before its loops, and inside the innermost
  std::map<size_t, std::string> results_;         // its sums, by the member's position
  std::set<std::pair<Value, Index>> loads_;       // what it reads
  std::set<std::pair<Value, Index>> prefetched_;  // by it and those before
};

}  // namespace

GeneratedKernel write_loop_kernel(const KernelInputs& inputs) { return CpuLoopWriter(inputs).write(); }

std::optional<Obstacle> find_loop_obstacle(const KernelInputs& inputs) {
  LoopNest nest(inputs);
  nest.plan();
  return nest.obstacle();
}

}  // namespace causeway::codegen
