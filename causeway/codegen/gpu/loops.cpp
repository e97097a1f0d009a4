#include "causeway/codegen/gpu/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "causeway/codegen/divide_up.h"
#include "causeway/codegen/expressions/expression_emitter.h"
#include "causeway/codegen/expressions/kernel_writer.h"
#include "causeway/graph/op.h"

namespace causeway::codegen {
namespace {

// The members, everything they are computed from in place, and the tensors that are read.
std::set<Value> cone(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request) {
  std::set<Value> visited(request.members.begin(), request.members.end());
  std::vector<Value> pending = request.members;
  while (!pending.empty()) {
    const Value value = pending.back();
    pending.pop_back();
    for (const Value input : graph.node(value).inputs)
      if (visited.insert(input).second && !materialized.contains(input)) pending.push_back(input);
  }
  return visited;
}

}  // namespace

DType gpu_index_type(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request) {
  // Loops may step over the end by what a launch covers at once.
  constexpr int64_t kMost = (int64_t{1} << 31) - (int64_t{1} << 22);
  const std::set<Value> values = cone(graph, materialized, request);
  const bool fits = std::all_of(values.begin(), values.end(), [&](Value value) {
    const Dim count = element_count(graph.shape(value));
    return count.is_constant() && count.constant() < kMost;
  });
  return fits ? DType::kI32 : DType::kI64;
}

int gpu_lanes(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
              const Dim& count, const Dim& extent, LanesBy by) {
  constexpr int kMostLanes = 8, kMostValues = 64, kLittle = 8;
  int tensors = 0, bytes = 0;  // of an element of all tensors
  std::map<int, int> bytes_by_size;
  for (const Value value : cone(graph, materialized, request)) {
    const auto member = std::find(request.members.begin(), request.members.end(), value);
    const bool in_memory = member != request.members.end()
                               ? request.stored[static_cast<size_t>(member - request.members.begin())]
                               : materialized.contains(value);
    if (!in_memory || !(element_count(graph.shape(value)) == count)) continue;
    const int size = static_cast<int>(size_bytes(graph.dtype(value)));
    bytes_by_size[size] += size;
    bytes += size;
    ++tensors;
  }
  // The narrowest type moves in pieces of 16 bytes, unless next to nothing is of it: a thread would move two such
  // pieces of the wider ones, and neighbours in a wave half a sector of memory at a time.
  auto decides = bytes_by_size.begin();
  while (decides != bytes_by_size.end() && decides->second * kLittle <= bytes) ++decides;
  if (by == LanesBy::kWidest && decides != bytes_by_size.end()) decides = std::prev(bytes_by_size.end());
  int lanes = decides == bytes_by_size.end() ? 1 : std::clamp(16 / decides->first, 1, kMostLanes);
  if (tensors == 0) lanes = 4;
  while (lanes > 4 && lanes * tensors > kMostValues) lanes /= 2;
  if (extent.is_constant(0)) return 1;
  while (lanes > 1 && !extent.divide_exactly(lanes)) lanes /= 2;
  return lanes;
}

std::string GpuAccumulator::type() const { return compute_type(dtype_); }

std::string GpuAccumulator::initial() const {
  if (op_ == Op::kReduceSum) return "0";
  return is_float(dtype_) ? "-__builtin_inff()" : fmt::format("lowest_value<{}>()", type());
}

std::string GpuAccumulator::operation() const { return op_ == Op::kReduceSum ? "SumOf" : "LargerOf"; }

std::string GpuAccumulator::take(const std::string& name, const std::string& value) const {
  return fmt::format("{0} = {1}()({0}, {2});\n", name, operation(), value);
}

std::string GpuAccumulator::result(const std::string& value) const { return rounded(dtype_, value); }

std::string gpu_add_parts(const GpuPartsLaunch& launch, const std::string& index_type, const std::string& count,
                          int64_t parts, const std::vector<GpuPartsOfSum>& sums) {
  const int width = launch.neighbours, rows = kLoopThreads / width;
  std::string body = fmt::format(
      "const {0} place = static_cast<{0}>(task) * {2} + thread_index() % {2};\n"
      "const {0} result = place < {1} ? place : 0;\n",
      index_type, count, width);
  // The parts of all sums are under way together.
  const int64_t steps = divide_up(parts, rows);
  std::string initial, taken, results;
  for (size_t i = 0; i < sums.size(); ++i) {
    const GpuAccumulator sum(sums[i].op, sums[i].dtype);
    const std::string name = fmt::format("sum{}", i);
    initial += fmt::format("{0} {1}[1] = {{{2}}};\n", sum.type(), name, sum.initial());
    taken += fmt::format("{{\nconst {0} partial = counts ? partials[({1} + part) * {2} + result] : {3};\n{4}}}\n",
                         sum.type(), static_cast<int64_t>(i) * parts, count, sum.initial(),
                         sum.take(name + "[0]", "partial"));
    results += fmt::format(
        "reduce_rows<{0}, {1}, 1>({2}, {3}());\nif (thread_index() < {0} && place < {4}) {5}[place] = {6};\n", width,
        rows, name, sum.operation(), count, sums[i].result, to_storage(sums[i].dtype, sum.result(name + "[0]")));
  }
  body += initial;
  body += fmt::format(
      "#pragma clang loop {}\nfor (int step = 0; step < {}; ++step) {{\n"
      "const int part = thread_index() / {} + step * {};\nconst bool counts = part < {};\n{}}}\n{}",
      steps <= launch.most_together ? "unroll(full)" : fmt::format("unroll_count({})", launch.unrolled), steps, width,
      rows, parts, taken, results);
  return body;
}

KernelPhase gpu_phase(const std::string& name, int threads, int shared_bytes, SizeFunction tasks) {
  KernelPhase result{name, std::move(tasks), [](const SymbolBindings&) { return int64_t{0}; }};
  result.threads = threads;
  result.shared_bytes = shared_bytes;
  return result;
}

std::string gpu_axis_variables(const std::string& type, const std::string& running,
                               const std::vector<std::pair<std::string, std::string>>& axes) {
  std::string text;
  std::string rest = running;
  for (size_t i = axes.size(); i-- > 0;) {
    const auto& [name, extent] = axes[i];
    if (i == 0) {
      text += fmt::format("const {} {} = {};\n", type, name, rest);
      continue;
    }
    text += fmt::format("const {} {} = {} % {};\n", type, name, rest, extent);
    text += fmt::format("const {} {}_above = {} / {};\n", type, name, rest, extent);
    rest = name + "_above";
  }
  return text;
}

}  // namespace causeway::codegen
