// Ops that walk one axis, on GPUs: argmax, cumsum and topk give a line to a thread when neighbouring lines lie next to
// each other in memory, and to a team of threads otherwise; scatter_add sorts its indices first.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loops.h"

namespace causeway::codegen {
namespace {

constexpr int kThreadDepth = 1;
constexpr int kElementDepth = 2;
constexpr int kLaneDepth = 3;
constexpr int kWaveTeam = 32;
constexpr int64_t kLongLine = 2048;  // elements from which a block walks a line
constexpr int kSharedBytes = 256;
constexpr int kScanElements = 4;  // of one thread in one step of a scan
constexpr int kRowThreads = 64;   // scatter_add: of one row of updates

class GpuAxisWriter : public KernelWriter {
 public:
  GpuAxisWriter(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
                const Target& target)
      : KernelWriter(graph, materialized, request, target), index_type_(gpu_index_type(graph, materialized, request)) {}

  GeneratedKernel write_along_axis() {
    const Value member = request_.members.front();
    const Node& node = graph_.node(member);
    const Value input = node.inputs[0];
    const Shape& shape = graph_.shape(input);
    const size_t axis = node.op == Op::kTopk ? shape.size() - 1 : static_cast<size_t>(node.attributes.axes[0]);
    Dim lines(1), after(1);
    Shape others;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i == axis) continue;
      others.push_back(shape[i]);
      lines *= shape[i];
      if (i > axis) after *= shape[i];
    }
    int team = kWaveTeam;
    if (!after.is_constant(1)) {
      team = 1;
    } else if (shape[axis].is_constant() && shape[axis].constant() >= kLongLine) {
      team = kLoopThreads;
    }
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    const int line = add_loop_variable("line", lines, kThreadDepth);
    const int along = add_loop_variable("i", shape[axis], kElementDepth);
    std::vector<Index> at = emitter.delinearize(Index::of(line), others);
    at.insert(at.begin() + static_cast<ptrdiff_t>(axis), Index::of(along));
    const EmittedValue value = emitter.emit(input, {{}, at});
    const std::string position = emitter.index_text(linearize(at, shape));
    const std::string top = emitter.take_statements(0), before = emitter.take_statements(kThreadDepth);
    const std::string type = compute_type(graph_.dtype(input));
    const std::string lines_text = symbols_.text(lines), extent = symbols_.text(shape[axis]);
    const int lines_per_block = kLoopThreads / team;
    std::string body = top;
    // Teams beyond the last line walk it too, and store nothing.
    body += fmt::format(
        "const {0} place = static_cast<{0}>(task) * {1} + thread_index() / {2};\n"
        "const bool valid = place < {3};\nconst {0} line = valid ? place : {3} - 1;\n"
        "const int member = thread_index() % {2};\n{4}"
        "const auto element = [&]({0} i) {{\n{5}return static_cast<{6}>({7});\n}};\n",
        index_type_, lines_per_block, team, lines_text, before, emitter.take_statements(kElementDepth), type,
        value.name);
    if (node.op == Op::kCumsum) {
      body += cumsum_text(member, team, type, extent, position);
    } else {
      body += greatest_text(node, member, team, extent);
    }
    GeneratedKernel kernel = finish(source_head() + kernel_text("kernel", kLoopThreads, body));
    kernel.phases = {gpu_phase("kernel", kLoopThreads, team > kWaveTeam ? kSharedBytes : 0,
                               [lines, lines_per_block](const SymbolBindings& bindings) {
                                 return divide_up(lines.evaluate(bindings), lines_per_block);
                               })};
    return kernel;
  }

  GeneratedKernel write_scatter_add() {
    const Value member = request_.members.front();
    const Node& node = graph_.node(member);
    const Shape& shape = graph_.shape(node.inputs[0]);
    const size_t axis = static_cast<size_t>(node.attributes.axes[0]);
    const auto at = [&](size_t i) { return shape.begin() + static_cast<ptrdiff_t>(i); };
    const Dim outer = element_count(Shape(shape.begin(), at(axis))), rows = shape[axis],
              inner = element_count(Shape(at(axis + 1), shape.end()));
    const Dim updates = element_count(graph_.shape(node.inputs[1]));
    const int lanes = gpu_lanes(graph_, materialized_, request_, outer * rows * inner, inner);
    // All pointers and sizes are known once every body is written.
    const std::string base = base_text(node, member, outer * rows * inner, lanes);
    const std::string sort = sort_text(node, rows, updates);
    const std::string add = add_text(node, member, outer, rows, inner, updates, lanes);
    const size_t workspace = arguments_.size();
    arguments_.push_back({KernelArgument::Kind::kWorkspace, {}, true});
    const std::string open =
        fmt::format("int32_t* order = {};\nint32_t* keys = order + {};\nint32_t* runs = keys + {};\n",
                    buffer_pointer("int32_t", workspace), symbols_.text(updates), symbols_.text(updates));
    GeneratedKernel kernel = finish(source_head() + kernel_text("kernel", kLoopThreads, base) +
                                    kernel_text("kernel_sort", kLoopThreads, open + sort) +
                                    kernel_text("kernel_add", kRowThreads, open + add));
    const int64_t lane_count = lanes;
    kernel.phases = {
        gpu_phase("kernel", kLoopThreads, 0,
                  [count = outer * rows * inner, lane_count](const SymbolBindings& bindings) {
                    return divide_up(count.evaluate(bindings), lane_count * kLoopThreads);
                  }),
        gpu_phase("kernel_sort", kLoopThreads, 0,
                  [updates](const SymbolBindings& bindings) {
                    return divide_up(updates.evaluate(bindings), kLoopThreads / kWaveTeam);
                  }),
        gpu_phase("kernel_add", kRowThreads, 0, [outer, updates, inner, lane_count](const SymbolBindings& bindings) {
          return outer.evaluate(bindings) * updates.evaluate(bindings) *
                 divide_up(inner.evaluate(bindings), lane_count * kRowThreads);
        })};
    kernel.workspace_bytes = [updates](const SymbolBindings& bindings) { return 3 * 4 * updates.evaluate(bindings); };
    return kernel;
  }

 private:
  int add_loop_variable(const std::string& name, const Dim& extent, int depth) {
    variables_.push_back({name, extent, depth});
    return static_cast<int>(variables_.size()) - 1;
  }

  static std::string source_head() { return "#include \"causeway/kernels/gpu/reduce.h\"\n"; }

  std::string kernel_text(const std::string& name, int threads, const std::string& body) {
    return gpu_kernel(name, threads) + prologue() + body + "}\n";
  }

  // Each step takes a few elements of every thread; `sum` is that of all steps before.
  std::string cumsum_text(Value member, int team, const std::string& type, const std::string& extent,
                          const std::string& position) {
    const std::string stored = to_storage(graph_.dtype(member), "sum");
    const std::string out = pointer(member);
    if (team == 1) {
      return fmt::format(
          "if (!valid) return;\n{0} sum = 0;\nfor ({1} i = 0; i < {2}; ++i) {{\nsum = SumOf()(sum, element(i));\n"
          "{3}[{4}] = {5};\n}}\n",
          type, index_type_, extent, out, position, stored);
    }
    return fmt::format(
        "{0} carry = 0;\nfor ({1} first = 0; first < {2}; first += {3}) {{\n"
        "const {1} begin = first + member * {4};\n{0} values[{4}];\n{0} total = 0;\n"
        "#pragma clang loop unroll(full)\nfor (int e = 0; e < {4}; ++e) {{\n"
        "values[e] = begin + e < {2} ? element(begin + e) : {0}(0);\ntotal = SumOf()(total, values[e]);\n}}\n"
        "{0} all;\n{0} sum = SumOf()(carry, team_sum_before<{5}>(total, all));\ncarry = SumOf()(carry, all);\n"
        "#pragma clang loop unroll(full)\nfor (int e = 0; e < {4}; ++e) {{\n"
        "const {1} i = begin + e;\nsum = SumOf()(sum, values[e]);\nif (valid && i < {2}) {6}[{7}] = {8};\n}}\n}}\n",
        type, index_type_, extent, team * kScanElements, kScanElements, team, out, position, stored);
  }

  // Argmax and topk: the greatest element that comes after the one found before.
  std::string greatest_text(const Node& node, Value member, int team, const std::string& extent) {
    const bool is_topk = node.op == Op::kTopk;
    const std::string key = graph_.dtype(node.inputs[0]) == DType::kI64 ? "int64_t" : "int32_t";
    const std::string search = fmt::format(
        "Candidate<{0}> best;\nfor ({1} i = member; i < {2}; i += {3}) {{\n"
        "const Candidate<{0}> candidate = {{rank_key(element(i)), static_cast<int32_t>(i)}};\n"
        "if (candidate.exceeds(best){4}) best = candidate;\n}}\nbest = team_greatest<{3}>(best);\n",
        key, index_type_, extent, team, is_topk ? " && (k == 0 || last.exceeds(candidate))" : "");
    if (!is_topk) return search + fmt::format("if (valid && member == 0) {}[line] = best.index;\n", pointer(member));
    const Value index_member{member.node, 1}, value_member{member.node, 0};
    const int64_t count = node.attributes.count;
    std::string stores;
    if (is_member(value_member))
      stores += fmt::format("{}[line * {} + k] = {};\n", pointer(value_member), count,
                            to_storage(graph_.dtype(value_member), "element(best.index)"));
    if (is_member(index_member))
      stores += fmt::format("{}[line * {} + k] = best.index;\n", pointer(index_member), count);
    return fmt::format("Candidate<{}> last;\nfor (int k = 0; k < {}; ++k) {{\n{}if (valid && member == 0) {{\n{}}}\n",
                       key, count, search, stores) +
           "last = best;\n}\n";
  }

  // The result starts as the base.
  std::string base_text(const Node& node, Value member, const Dim& count, int lanes) {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    const int vector = add_loop_variable("v", *count.divide_exactly(lanes), kThreadDepth);
    const int lane = add_loop_variable("e", lanes, kLaneDepth);
    const Index position = add(scale(Index::of(vector), lanes), Index::of(lane));
    const DType dtype = graph_.dtype(member);
    const EmittedValue value = emitter.emit(node.inputs[0], {position, {}});
    const std::string out = pointer(member), text = emitter.index_text(position);
    std::string body = emitter.take_statements(0);
    body += fmt::format(
        "const {0} v = static_cast<{0}>(task) * {1} + thread_index();\nif (v * {2} >= {3}) return;\n{4}{5} "
        "values[{2}];\n",
        index_type_, kLoopThreads, lanes, symbols_.text(count), emitter.take_statements(kThreadDepth),
        storage_type(dtype));
    body += gpu_lane_loop("e", lanes) + emitter.take_statements(kLaneDepth) +
            fmt::format("values[e] = {};\n}}\n", to_storage(dtype, value.name));
    return body + gpu_lane_loop("e", lanes) + fmt::format("{}[{}] = values[e];\n}}\n", out, text);
  }

  // Stable counting sort of the updates by their index: each team counts those that come before one of them. order[p]
  // is the p-th update, keys[p] its index, and runs[p] how many updates have it, 0 for all but the first of them.
  std::string sort_text(const Node& node, const Dim& rows, const Dim& updates) {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    const int update = add_loop_variable("j", updates, kElementDepth);
    const EmittedValue where = emitter.emit(node.inputs[1], {Index::of(update), {}});
    const std::string top = emitter.take_statements(0);
    return top + fmt::format(
                     "const auto key_of = [&]({0} j) {{\n{1}return {2} < 0 || {2} >= {3} ? 0x7fffffff : "
                     "static_cast<int32_t>({2});\n}};\n"
                     "const {0} place = static_cast<{0}>(task) * {4} + thread_index() / {5};\nconst bool valid = place "
                     "< {6};\n"
                     "const {0} mine = valid ? place : {6} - 1;\nconst int32_t key = key_of(mine);\n"
                     "int32_t before = 0, equal = 0, equal_before = 0;\n#pragma clang loop unroll_count(4)\n"
                     "for ({0} j = thread_index() % {5}; j < {6}; j += {5}) {{\nconst int32_t other = key_of(j);\n"
                     "before += other < key;\nequal += other == key;\nequal_before += other == key && j < mine;\n}}\n"
                     "before = team_reduce<{5}>(before, SumOf());\nequal = team_reduce<{5}>(equal, SumOf());\n"
                     "equal_before = team_reduce<{5}>(equal_before, SumOf());\n"
                     "if (valid && thread_index() % {5} == 0) {{\nconst int32_t at = before + equal_before;\n"
                     "order[at] = static_cast<int32_t>(mine);\nkeys[at] = key;\n"
                     "runs[at] = equal_before == 0 && key != 0x7fffffff ? equal : 0;\n}}\n",
                     index_type_, emitter.take_statements(kElementDepth), where.name, symbols_.text(rows),
                     kLoopThreads / kWaveTeam, kWaveTeam, symbols_.text(updates));
  }

  // The first update of an index adds all updates of that index, in their order.
  std::string add_text(const Node& node, Value member, const Dim& outer, const Dim& rows, const Dim& inner,
                       const Dim& updates, int lanes) {
    ExpressionEmitter emitter(graph_, *this, variables_, symbols_);
    emitter.set_index_type(index_type_);
    const DType dtype = graph_.dtype(member);
    const Dim vectors = *inner.divide_exactly(lanes);
    const int outer_variable = add_loop_variable("o", outer, kThreadDepth);
    const int vector = add_loop_variable("c", vectors, kThreadDepth);
    const int update = add_loop_variable("j", updates, kElementDepth);
    const int lane = add_loop_variable("e", lanes, kLaneDepth);
    const Index column = add(scale(Index::of(vector), lanes), Index::of(lane));
    const Index from = add(scale(add(scale(Index::of(outer_variable), updates), Index::of(update)), inner), column);
    const EmittedValue value = emitter.emit(node.inputs[2], {from, {}});
    const std::string type = compute_type(dtype), updates_text = symbols_.text(updates);
    const std::string target = fmt::format("{}[(o * {} + key) * {} + {}]", pointer(member), symbols_.text(rows),
                                           symbols_.text(inner), emitter.index_text(column));
    const std::string loop = gpu_lane_loop("e", lanes);
    std::string body = emitter.take_statements(0);
    body += fmt::format(
        "const {0} blocks = ({1} + {2}) / {3};\nconst {0} c = task % blocks * {3} + thread_index();\n"
        "const {0} p = task / blocks % {4};\nconst {0} o = task / blocks / {4};\n"
        "const int32_t run = runs[p];\nconst {0} key = keys[p];\nif (run == 0 || c >= {1}) return;\n",
        index_type_, symbols_.text(vectors), kRowThreads - 1, kRowThreads, updates_text);
    body += emitter.take_statements(kThreadDepth);
    body += fmt::format("{} sums[{}];\n{}sums[e] = {};\n}}\n", type, lanes, loop, from_storage(dtype, target));
    body += fmt::format(
        "#pragma clang loop unroll_count(4)\nfor ({0} q = p; q < p + run; ++q) {{\nconst {0} j = order[q];\n{1}{2}{3}"
        "sums[e] = SumOf()(sums[e], {4});\n}}\n}}\n",
        index_type_, emitter.take_statements(kElementDepth), loop, emitter.take_statements(kLaneDepth), value.name);
    return body + loop + fmt::format("{} = {};\n}}\n", target, to_storage(dtype, "sums[e]"));
  }

  std::string index_type_;
};

}  // namespace

GeneratedKernel generate_gpu_axis_kernel(const Graph& graph, const MaterializedValues& materialized,
                                         const KernelRequest& request, const Target& target) {
  return GpuAxisWriter(graph, materialized, request, target).write_along_axis();
}

GeneratedKernel generate_gpu_scatter_add_kernel(const Graph& graph, const MaterializedValues& materialized,
                                                const KernelRequest& request, const Target& target) {
  return GpuAxisWriter(graph, materialized, request, target).write_scatter_add();
}

}  // namespace causeway::codegen
