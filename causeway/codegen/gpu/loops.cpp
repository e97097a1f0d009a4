#include "causeway/codegen/gpu/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "causeway/codegen/expressions/expression_emitter.h"

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

std::string gpu_index_type(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request) {
  // Loops may step over the end by what a launch covers at once.
  constexpr int64_t kMost = (int64_t{1} << 31) - (int64_t{1} << 22);
  const std::set<Value> values = cone(graph, materialized, request);
  const bool fits = std::all_of(values.begin(), values.end(), [&](Value value) {
    const Dim count = element_count(graph.shape(value));
    return count.is_constant() && count.constant() < kMost;
  });
  return fits ? "int32_t" : "int64_t";
}

int gpu_lanes(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
              const Dim& count, const Dim& extent) {
  constexpr int kMostLanes = 8, kMostValues = 64;
  int narrowest = 16, tensors = 0;
  for (const Value value : cone(graph, materialized, request)) {
    const auto member = std::find(request.members.begin(), request.members.end(), value);
    const bool in_memory = member != request.members.end()
                               ? request.stored[static_cast<size_t>(member - request.members.begin())]
                               : materialized.contains(value);
    if (!in_memory || !(element_count(graph.shape(value)) == count)) continue;
    narrowest = std::min(narrowest, static_cast<int>(size_bytes(graph.dtype(value))));
    ++tensors;
  }
  int lanes = std::clamp(16 / narrowest, 1, kMostLanes);
  if (tensors == 0) lanes = 4;
  while (lanes > 4 && lanes * tensors > kMostValues) lanes /= 2;
  if (extent.is_constant(0)) return 1;
  while (lanes > 1 && !extent.divide_exactly(lanes)) lanes /= 2;
  return lanes;
}

GpuAccumulator::GpuAccumulator(Op op, DType dtype)
    : type(compute_type(dtype)), initial("0"), operation("SumOf"), dtype_(dtype) {
  if (op == Op::kReduceSum) return;
  operation = "LargerOf";
  initial = is_float(dtype) ? "-__builtin_inff()" : fmt::format("lowest_value<{}>()", type);
}

std::string GpuAccumulator::take(const std::string& name, const std::string& value) const {
  return fmt::format("{0} = {1}()({0}, {2});\n", name, operation, value);
}

std::string GpuAccumulator::result(const std::string& value) const {
  return is_float(dtype_) && dtype_ != DType::kF32 ? from_storage(dtype_, to_storage(dtype_, value)) : value;
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

std::string gpu_lane_loop(const std::string& name, int lanes) {
  return fmt::format("#pragma clang loop unroll(full)\nfor (int {0} = 0; {0} < {1}; ++{0}) {{\n", name, lanes);
}

}  // namespace causeway::codegen
