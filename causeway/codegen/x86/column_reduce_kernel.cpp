// A reduction whose input's last axis is kept: the columns of a block are summed side by side, in the order of the
// reduced axes.
#include <algorithm>
#include <set>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

constexpr int64_t kColumnsOfTask = 128;
// Rows lie far from one another: so many ahead, a block's columns are asked for.
constexpr int64_t kRowsAhead = 8;

class ColumnReduceWriter : public KernelWriter {
 public:
  using KernelWriter::KernelWriter;

  void note_load(Value value, const Index& linear) override { loads_.emplace(value, linear); }

  // In one piece: the kernel's text in its order, each part next to what it is made of.
  GeneratedKernel write() {
    const Value member = request_.members.front();
    const Node& node = graph_.node(member);
    const Shape& shape = graph_.shape(node.inputs[0]);
    const DType dtype = graph_.dtype(member);
    const auto reduced = [&](size_t axis) {
      return std::binary_search(node.attributes.axes.begin(), node.attributes.axes.end(), static_cast<int64_t>(axis));
    };
    size_t trailing = shape.size();
    Dim inner(1);
    while (trailing > 0 && !reduced(trailing - 1)) inner *= shape[--trailing];
    Dim outer(1);
    for (size_t i = 0; i < trailing; ++i)
      if (!reduced(i)) outer *= shape[i];

    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    const int outer_variable = add_loop_variable("o", outer, kTaskDepth);
    std::vector<Index> at(shape.size(), Index::constant(0));
    Shape kept_outer;
    for (size_t i = 0; i < trailing; ++i)
      if (!reduced(i)) kept_outer.push_back(shape[i]);
    const std::vector<Index> outer_at = emitter.delinearize(Index::of(outer_variable), kept_outer);
    std::string loops;
    int depth = kTaskDepth;
    size_t next_outer = 0;
    std::vector<std::string> reduce_headers;
    for (size_t i = 0; i < trailing; ++i) {
      if (!reduced(i)) {
        at[i] = outer_at[next_outer++];
        continue;
      }
      const std::string name = fmt::format("k{}", i);
      at[i] = Index::of(add_loop_variable(name, shape[i], ++depth));
      reduce_headers.push_back(
          fmt::format("for (int64_t {0} = 0; {0} < {1}; ++{0}) {{\n", name, symbols_.text(shape[i])));
    }
    const int column_variable = add_loop_variable("c", inner, ++depth), row_variable = column_variable - 1;
    const Shape inner_shape(shape.begin() + static_cast<ptrdiff_t>(trailing), shape.end());
    const std::vector<Index> inner_at = emitter.delinearize(Index::of(column_variable), inner_shape);
    for (size_t i = trailing; i < shape.size(); ++i) at[i] = inner_at[i - trailing];

    const ElementValue value = emitter.compute(node.inputs[0], {{}, at});
    const std::string type = node.op == Op::kReduceMax && is_float(dtype) ? "int32_t" : compute_type(dtype);
    std::string initial = "0", update, result;
    if (node.op == Op::kReduceSum) {
      update = is_float(dtype) ? fmt::format("sums[c - begin] += {};\n", value.name)
                               : fmt::format("sums[c - begin] = {};\n", sum_text(dtype, "sums[c - begin]", value.name));
      result = "sums[c - begin]";
    } else if (is_float(dtype)) {
      initial = "kLowestOrderKey";
      update = fmt::format(
          "const int32_t key = order_key({});\nsums[c - begin] = key > sums[c - begin] ? key : sums[c - begin];\n",
          value.name);
      result = "from_order_key(sums[c - begin])";
    } else {
      initial = fmt::format("lowest_value<{}>()", type);
      update = fmt::format("sums[c - begin] = {0} > sums[c - begin] ? {0} : sums[c - begin];\n", value.name);
      result = "sums[c - begin]";
    }
    loops += emitter.take_statements(kTaskDepth);
    for (size_t i = 0; i < reduce_headers.size(); ++i)
      loops += reduce_headers[i] + emitter.take_statements(kTaskDepth + 1 + static_cast<int>(i));
    if (!reduce_headers.empty()) loops += prefetches(emitter, row_variable, column_variable);
    loops += "#pragma clang loop vectorize(assume_safety)\nfor (int64_t c = begin; c < end; ++c) {\n" +
             emitter.take_statements(depth) + update + "}\n";
    for (size_t i = 0; i < reduce_headers.size(); ++i) loops += "}\n";
    const std::string store = fmt::format("{}[o * columns + c] = {};\n", pointer(member), to_storage(dtype, result));

    const std::string columns = size_argument(inner);
    const std::string top = emitter.take_statements(0);
    const std::string source = fmt::format(
        "#include \"causeway/kernels/elementwise.h\"\n"
        "extern \"C\" void kernel(void* const* buffers, const int64_t* sizes, int64_t task, void* scratch) {{\n"
        "{0}const int64_t columns = {1};\nconst int64_t blocks = (columns + {2} - 1) / {2};\n"
        "const int64_t o = task / blocks;\nconst int64_t begin = task % blocks * {2};\n"
        "const int64_t end = minimum(begin + {2}, columns);\n"
        "{3}{4} sums[{2}];\nfor (int64_t i = 0; i < {2}; ++i) sums[i] = {5};\n"
        "{6}for (int64_t c = begin; c < end; ++c) {7}}}\n",
        prologue(), columns, kColumnsOfTask, top, type, initial, loops, store);
    GeneratedKernel kernel = finish(source);
    kernel.phases = {{"kernel",
                      [outer, inner](const SymbolBindings& bindings) {
                        return outer.evaluate(bindings) * divide_up(inner.evaluate(bindings), kColumnsOfTask);
                      },
                      [](const SymbolBindings&) { return int64_t{0}; }}};
    return kernel;
  }

 private:
  // Of later rows, what is read side by side along the columns.
  std::string prefetches(ExpressionEmitter& emitter, int row_variable, int column_variable) {
    std::string text;
    for (const auto& [value, linear] : loads_) {
      std::optional<Index> first = where_it_begins(linear, column_variable);
      if (!first) continue;
      const auto row = std::ranges::find(first->terms, row_variable, &Index::Term::variable);
      // Variables after the columns' are computed from others, where they are needed.
      const bool of_loops =
          std::ranges::all_of(first->terms, [&](const Index::Term& term) { return term.variable < column_variable; });
      if (row == first->terms.end() || !of_loops) continue;
      first->offset += row->coefficient * kRowsAhead;
      text +=
          fmt::format("prefetch_elements({} + {} + begin, end - begin);\n", pointer(value), emitter.index_text(*first));
    }
    return text;
  }

  int add_loop_variable(const std::string& name, const Dim& extent, int depth) {
    variables_.push_back({name, extent, depth});
    return static_cast<int>(variables_.size()) - 1;
  }

  std::set<std::pair<Value, Index>> loads_;
};

}  // namespace

GeneratedKernel write_column_reduce_kernel(const KernelInputs& inputs) { return ColumnReduceWriter(inputs).write(); }

}  // namespace causeway::codegen
