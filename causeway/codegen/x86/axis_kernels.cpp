// Ops that walk one axis in order: argmax, cumsum, topk, and scatter_add over its indices.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kColumnBlock = 128;  // scatter_add: columns of one task

const SizeFunction kNoScratch = [](const SymbolBindings&) { return int64_t{0}; };

class AxisWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  GeneratedKernel write_along_axis() {
    const Value member = request_.members.front();
    const Node& node = graph_.node(member);
    const Value input = node.inputs[0];
    const Shape& shape = graph_.shape(input);
    const size_t axis = node.op == Op::kTopk ? shape.size() - 1 : static_cast<size_t>(node.attributes.axes[0]);
    Dim lines(1);
    Shape others;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == axis) continue;
      others.push_back(shape[i]);
      lines *= shape[i];
    }
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    const int line = add_loop_variable("line", lines, kTaskDepth);
    const int along = add_loop_variable("i", shape[axis], kTaskDepth + 1);
    std::vector<Index> at = emitter.delinearize(Index::of(line), others);
    at.insert(at.begin() + static_cast<ptrdiff_t>(axis), Index::of(along));
    const ElementValue value = emitter.compute(input, {{}, at});
    const std::string input_index = emitter.index_text(linearize(at, shape));
    const std::string before = emitter.take_statements(kTaskDepth);
    const std::string inside = emitter.take_statements(kTaskDepth + 1);
    const std::string extent = symbols_.text(shape[axis]);
    const std::string type = compute_type(graph_.dtype(input));
    const std::string loop = fmt::format("for (int64_t i = 0; i < {}; ++i) {{\n{}", extent, inside);
    std::string body;
    if (node.op == Op::kArgmax) {
      // A NaN counts as the maximum: the first one wins.
      body = fmt::format(
          "{0} best = 0;\nint64_t best_index = -1;\n{1}const bool better = best_index < 0 || {2} > best || ({2} != {2} "
          "&& "
          "best == best);\nbest = better ? {2} : best;\nbest_index = better ? i : best_index;\n}}\n"
          "{3}[line] = static_cast<int32_t>(best_index);\n",
          type, loop, value.name, pointer(member));
    } else if (node.op == Op::kCumsum) {
      const DType dtype = graph_.dtype(member);
      body = fmt::format("{} sum = 0;\n{}sum = {};\n{}[{}] = {};\n}}\n", type, loop, sum_text(dtype, "sum", value.name),
                         pointer(member), input_index, to_storage(dtype, "sum"));
    } else {
      body = topk_body(node, member, type, loop, value.name);
    }
    return frame(emitter, lines, "line", before + body);
  }

  GeneratedKernel write_scatter_add() {
    const Value member = request_.members.front();
    const Node& node = graph_.node(member);
    const Value base = node.inputs[0], indices = node.inputs[1], updates = node.inputs[2];
    const Shape& shape = graph_.shape(base);
    const Shape& index_shape = graph_.shape(indices);
    const size_t axis = static_cast<size_t>(node.attributes.axes[0]);
    const Shape outer_shape(shape.begin(), shape.begin() + static_cast<ptrdiff_t>(axis));
    const Shape inner_shape(shape.begin() + static_cast<ptrdiff_t>(axis) + 1, shape.end());
    const Dim outer = element_count(outer_shape), inner = element_count(inner_shape);
    const Dim index_count = element_count(index_shape);

    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    const int outer_variable = add_loop_variable("o", outer, kTaskDepth);
    const int row = add_loop_variable("i", shape[axis], kTaskDepth + 1);
    const int column = add_loop_variable("c", inner, kTaskDepth + 2);
    const Index target_index =
        add(scale(add(scale(Index::of(outer_variable), shape[axis]), Index::of(row)), inner), Index::of(column));
    const ElementValue initial = emitter.compute(base, {target_index, {}});
    const std::string task_statements = emitter.take_statements(kTaskDepth);
    const std::string initial_row = emitter.take_statements(kTaskDepth + 1);
    const std::string initial_column = emitter.take_statements(kTaskDepth + 2);
    emitter.leave_loops(kTaskDepth + 1);
    const std::string out = pointer(member);
    const DType dtype = graph_.dtype(member);
    const std::string target_text = emitter.index_text(target_index);

    const int update_row = add_loop_variable("j", index_count, kTaskDepth + 1);
    const ElementValue where = emitter.compute(indices, {Index::of(update_row), {}});
    const Index update_index =
        add(scale(add(scale(Index::of(outer_variable), index_count), Index::of(update_row)), inner), Index::of(column));
    const ElementValue update = emitter.compute(updates, {update_index, {}});
    const std::string more_task_statements = emitter.take_statements(kTaskDepth);
    const std::string update_row_text = emitter.take_statements(kTaskDepth + 1);
    const std::string update_column = emitter.take_statements(kTaskDepth + 2);
    const std::string rows_text = symbols_.text(shape[axis]);
    const std::string target_row =
        fmt::format("(o * {0} + static_cast<int64_t>({1})) * columns + c", rows_text, where.name);
    const std::string sum = fmt::format("{}[{}]", out, target_row);
    const std::string added = to_storage(dtype, sum_text(dtype, from_storage(dtype, sum), update.name));
    const std::string columns = size_argument(inner);
    std::string body = fmt::format(
        "const int64_t columns = {0};\nconst int64_t blocks = (columns + {1} - 1) / {1};\nconst int64_t o = task / "
        "blocks;\n"
        "const int64_t begin = task % blocks * {1};\nconst int64_t end = minimum(begin + {1}, columns);\n",
        columns, kColumnBlock);
    body += task_statements + more_task_statements;
    // A result that lies where the base does has nothing to copy.
    if (is_stored(base)) body += fmt::format("if ({} != {})\n", pointer(base), out);
    body += fmt::format(
        "for (int64_t i = 0; i < {}; ++i) {{\n{}#pragma clang loop vectorize(assume_safety)\n"
        "for (int64_t c = begin; c < end; ++c) {{\n{}{}[{}] = {};\n}}\n}}\n",
        rows_text, initial_row, initial_column, out, target_text, to_storage(dtype, initial.name));
    if (node.attributes.replaces)
      body += fmt::format(
          "for (int64_t j = 0; j < {0}; ++j) {{\n{1}if ({2} < 0 || {2} >= {3}) continue;\n"
          "for (int64_t c = begin; c < end; ++c) {4} = {5};\n}}\n",
          symbols_.text(index_count), update_row_text, where.name, rows_text, sum, to_storage(dtype, "0"));
    // One task owns its columns, and walks the updates in order: repeated indices add up in one fixed order.
    body += fmt::format(
        "for (int64_t j = 0; j < {}; ++j) {{\n{}if ({} < 0 || {} >= {}) continue;\n"
        "#pragma clang loop vectorize(assume_safety)\nfor (int64_t c = begin; c < end; ++c) {{\n{}{} = {};\n}}\n}}\n",
        symbols_.text(index_count), update_row_text, where.name, where.name, rows_text, update_column, sum, added);
    GeneratedKernel kernel = finish(source_text(emitter.take_statements(0) + body));
    kernel.phases = {{"kernel",
                      [outer, inner](const SymbolBindings& bindings) {
                        return outer.evaluate(bindings) * divide_up(inner.evaluate(bindings), kColumnBlock);
                      },
                      kNoScratch}};
    return kernel;
  }

 private:
  int add_loop_variable(const std::string& name, const Dim& extent, int depth) {
    variables_.push_back({name, extent, depth});
    return static_cast<int>(variables_.size()) - 1;
  }

  std::string source_text(const std::string& body) {
    return "#include \"causeway/kernels/elementwise.h\"\n"
           "extern \"C\" void kernel(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {\n" +
           prologue() + body + "}\n";
  }

  GeneratedKernel frame(ExpressionEmitter& emitter, const Dim& lines, const std::string& name,
                        const std::string& body) {
    const std::string top = emitter.take_statements(0);
    GeneratedKernel kernel = finish(source_text(top + fmt::format("const int64_t {} = task;\n", name) + body));
    kernel.phases = {
        {"kernel", [lines](const SymbolBindings& bindings) { return lines.evaluate(bindings); }, kNoScratch}};
    return kernel;
  }

  // Keeps the best values sorted while walking the axis; equal values keep the order of their indices.
  std::string topk_body(const Node& node, Value member, const std::string& type, const std::string& loop,
                        const std::string& value) {
    const Value index_member{member.node, 1};
    const int64_t count = node.attributes.count;
    std::string body = fmt::format(
        "{0} best[{1}];\nint32_t best_index[{1}];\nint64_t found = 0;\n{2}"
        "int64_t at = found;\nwhile (at > 0 && ({3} > best[at - 1] || ({3} != {3} && best[at - 1] == best[at - 1]))) "
        "--at;\n"
        "if (at >= {1}) continue;\nif (found < {1}) ++found;\n"
        "for (int64_t k = found - 1; k > at; --k) {{ best[k] = best[k - 1]; best_index[k] = best_index[k - 1]; }}\n"
        "best[at] = {3};\nbest_index[at] = static_cast<int32_t>(i);\n}}\n",
        type, count, loop, value);
    const bool writes_values = request_.computes(member), writes_indices = request_.computes(index_member);
    body += fmt::format("for (int64_t k = 0; k < {}; ++k) {{\n", count);
    if (writes_values)
      body +=
          fmt::format("{}[line * {} + k] = {};\n", pointer(member), count, to_storage(graph_.dtype(member), "best[k]"));
    if (writes_indices) body += fmt::format("{}[line * {} + k] = best_index[k];\n", pointer(index_member), count);
    return body + "}\n";
  }
};

}  // namespace

GeneratedKernel write_axis_kernel(const KernelInputs& inputs) { return AxisWriter(inputs).write_along_axis(); }

GeneratedKernel write_scatter_add_kernel(const KernelInputs& inputs) { return AxisWriter(inputs).write_scatter_add(); }

}  // namespace causeway::codegen
