#include "causeway/program/donation.h"

#include <algorithm>

#include "causeway/codegen/expressions/loop_nest.h"
#include "causeway/graph/op.h"

namespace causeway::program {
namespace {

bool reads_only_at_own_position(const Graph& graph, const MaterializedValues& materialized, Value member,
                                Value source) {
  // A value may be needed at its own position and at another one.
  std::set<std::pair<Value, bool>> visited;
  std::vector<std::pair<Value, bool>> pending = {{member, true}};
  while (!pending.empty()) {
    const auto [value, at_own_position] = pending.back();
    pending.pop_back();
    const Node& node = graph.node(value);
    const bool same = at_own_position && (is_elementwise(node.op) || node.op == Op::kReshape);
    for (const Value next : node.inputs) {
      if (next == source && !same) return false;
      if (!materialized.contains(next) && visited.insert({next, same}).second) pending.emplace_back(next, same);
    }
  }
  return true;
}

bool contains(const std::vector<Value>& list, Value value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Whether the kernel computes what the result is a permutation of. The block that stores an element of it is not the
// one that reads what another result, at the same place in memory, is computed from.
bool is_in_other_order(const Graph& graph, const KernelRequest& request, Value result) {
  const Node& node = graph.node(result);
  if (node.op != Op::kPermute) return false;
  return contains(request.members, node.inputs[0]) ||
         std::ranges::any_of(request.alike, [&](const auto& members) { return contains(members, node.inputs[0]); });
}

std::set<Value> values_behind(const Graph& graph, const MaterializedValues& materialized,
                              const std::vector<Value>& members) {
  std::set<Value> found;
  std::vector<Value> pending = members;
  while (!pending.empty()) {
    const Node& node = graph.node(pending.back());
    pending.pop_back();
    for (const Value next : node.inputs)
      if (found.insert(next).second && !materialized.contains(next)) pending.push_back(next);
  }
  return found;
}

bool reads(const Graph& graph, const MaterializedValues& materialized, Value member, Value source) {
  return values_behind(graph, materialized, {member}).contains(source);
}

// Every thread of a row computes the same elements of it in each phase: none of them may be needed again once the
// result has been stored.
bool may_overwrite_in_rows(const Graph& graph, const MaterializedValues& materialized, const KernelRequest& request,
                           Value source, Value result) {
  if (!(element_count(graph.shape(source)) == request.rows * request.columns)) return false;
  const std::vector<int> phases = codegen::loop_phases(graph, materialized, request);
  const auto position = std::find(request.members.begin(), request.members.end(), result) - request.members.begin();
  for (size_t i = 0; i < request.members.size(); ++i) {
    const Value member = request.members[i];
    if (!reads(graph, materialized, member, source)) continue;
    if (phases[i] > phases[static_cast<size_t>(position)]) return false;
    const Node& node = graph.node(member);
    const bool reduces = op_info(node.op).kind == OpKind::kReduce;
    const Value element = reduces ? node.inputs[0] : member;
    if (element != source && !reads_only_at_own_position(graph, materialized, element, source)) return false;
  }
  return true;
}

}  // namespace

const std::set<Value>& Overwriting::read_by(const std::vector<Value>& members) {
  const auto [entry, inserted] = read_by_.try_emplace(&members);
  if (inserted) entry->second = values_behind(graph_, fusion_.materialized, members);
  return entry->second;
}

// Blocks of one loop may come before those of another or after them.
bool Overwriting::beside_others(const KernelRequest& request, Value source, Value result) {
  std::vector<const std::vector<Value>*> loops = {&request.members};
  for (const std::vector<Value>& members : request.alike) loops.push_back(&members);
  return std::all_of(loops.begin(), loops.end(), [&](const std::vector<Value>* members) {
    if (!contains(*members, result)) return !read_by(*members).contains(source);
    return request.rows.is_constant(1) && std::all_of(members->begin(), members->end(), [&](Value member) {
             return reads_only_at_own_position(graph_, fusion_.materialized, member, source);
           });
  });
}

bool Overwriting::is_allowed(size_t kernel, Value source, Value result) {
  const KernelRequest& request = fusion_.kernels[kernel];
  if (is_in_other_order(graph_, request, result)) return false;
  if (!request.alike.empty()) return beside_others(request, source, result);
  if (request.kind == KernelKind::kCollective) {
    const Node& node = graph_.node(request.members.front());
    return node.op == Op::kAllReduce && collective_source(graph_, fusion_.materialized, node) == source;
  }
  if (request.kind == KernelKind::kScatterAdd) {
    // The base is copied before anything is added to it.
    const std::vector<Value>& operands = graph_.node(request.members.front()).inputs;
    return operands[0] == source && std::none_of(operands.begin() + 1, operands.end(), [&](Value operand) {
             return operand == source ||
                    (!fusion_.materialized.contains(operand) && reads(graph_, fusion_.materialized, operand, source));
           });
  }
  const bool is_loop = request.kind == KernelKind::kLoop;
  if (is_loop && !request.rows.is_constant(1))
    return may_overwrite_in_rows(graph_, fusion_.materialized, request, source, result);
  if (!is_loop && request.kind != KernelKind::kDot) return false;
  // Each block reads all of its own rows, others may have stored by then.
  if (read_by(request.row_members).contains(source)) return false;
  return std::all_of(request.members.begin(), request.members.end(), [&](Value member) {
    return reads_only_at_own_position(graph_, fusion_.materialized, member, source);
  });
}

std::map<Value, Value> donate_inputs(const Graph& graph, Overwriting& overwriting,
                                     const std::map<Value, ValueLife>& lives) {
  std::map<Value, int> assigned;
  for (const Assignment& assignment : graph.assignments) ++assigned[assignment.value];
  std::map<Value, Value> donated;
  for (const Assignment& assignment : graph.assignments) {
    const int writer = lives.at(assignment.value).writer, last_reader = lives.at(assignment.target).last_reader;
    if (writer == ValueLife::kBefore || assigned[assignment.value] > 1) continue;
    if (contains(graph.outputs, assignment.value) || contains(graph.outputs, assignment.target)) continue;
    // Another assignment may still need the old content.
    if (assigned.contains(assignment.target)) continue;
    if (last_reader > writer) continue;
    if (last_reader == writer &&
        !overwriting.is_allowed(static_cast<size_t>(writer), assignment.target, assignment.value))
      continue;
    donated[assignment.value] = assignment.target;
  }
  return donated;
}

std::map<Value, Value> donate_operands(const Graph& graph, Overwriting& overwriting,
                                       const std::vector<GeneratedKernel>& kernels,
                                       const std::map<Value, ValueLife>& lives, const std::set<Value>& in_arena,
                                       const SymbolBindings& bindings) {
  std::map<Value, Value> donated;
  std::set<Value> given;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const auto is_value = [](const KernelArgument& a) { return a.kind == KernelArgument::Kind::kValue; };
    for (const KernelArgument& result : kernels[k].arguments) {
      if (!is_value(result) || !result.written || !in_arena.contains(result.value)) continue;
      const int64_t bytes = byte_count(graph.type(result.value), bindings);
      for (const KernelArgument& source : kernels[k].arguments) {
        if (!is_value(source) || source.written || !in_arena.contains(source.value) || given.contains(source.value))
          continue;
        const ValueLife& life = lives.at(source.value);
        if (life.outlives || life.last_reader != static_cast<int>(k) ||
            byte_count(graph.type(source.value), bindings) != bytes ||
            !overwriting.is_allowed(k, source.value, result.value))
          continue;
        donated[result.value] = source.value;
        given.insert(source.value);
        break;
      }
    }
  }
  return donated;
}

}  // namespace causeway::program
