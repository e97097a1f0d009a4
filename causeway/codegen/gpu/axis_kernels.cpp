// Ops that walk one axis, on GPUs: argmax, cumsum and topk give a line to a thread when neighbouring lines lie next to
// each other in memory, and to a team of threads otherwise.
#include <algorithm>

#include "causeway/base/error.h"
#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/codegen/gpu/loops.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

constexpr int kWaveTeam = 32;
constexpr int64_t kLongLine = 2048;  // elements from which a block walks a line
constexpr int kAxisSharedBytes = 256;
constexpr int kScanElements = 4;  // of one thread in one step of a scan

class GpuAxisWriter : public KernelWriter {
 public:
  explicit GpuAxisWriter(const KernelInputs& inputs)
      : KernelWriter(inputs), index_type_(compute_type(gpu_index_type(graph_, materialized_, request_))) {}

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
    const ElementValue value = emitter.compute(input, {{}, at});
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
    kernel.phases = {gpu_phase("kernel", kLoopThreads, team > kWaveTeam ? kAxisSharedBytes : 0,
                               [lines, lines_per_block](const SymbolBindings& bindings) {
                                 return divide_up(lines.evaluate(bindings), lines_per_block);
                               })};
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
    if (request_.computes(value_member))
      stores += fmt::format("{}[line * {} + k] = {};\n", pointer(value_member), count,
                            to_storage(graph_.dtype(value_member), "element(best.index)"));
    if (request_.computes(index_member))
      stores += fmt::format("{}[line * {} + k] = best.index;\n", pointer(index_member), count);
    return fmt::format("Candidate<{}> last;\nfor (int k = 0; k < {}; ++k) {{\n{}if (valid && member == 0) {{\n{}}}\n",
                       key, count, search, stores) +
           "last = best;\n}\n";
  }

  std::string index_type_;
};

}  // namespace

GeneratedKernel write_gpu_axis_kernel(const KernelInputs& inputs) { return GpuAxisWriter(inputs).write_along_axis(); }

}  // namespace causeway::codegen
