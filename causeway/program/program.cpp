#include "causeway/program/program.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/program/memory_plan.h"

namespace causeway::program {
namespace {

int64_t byte_count(const TensorType& type, const SymbolBindings& bindings) {
  return element_count(type.shape).evaluate(bindings) * static_cast<int64_t>(size_bytes(type.dtype));
}

// The positions of `value` in `list`.
std::vector<int64_t> positions(const std::vector<Value>& list, Value value) {
  std::vector<int64_t> found;
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] == value) found.push_back(static_cast<int64_t>(i));
  return found;
}

}  // namespace

Program::Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena)
    : graph_(std::move(graph)), device_(device), arena_(arena), fusion_(fuse(graph_, device.target())) {
  compile(library);
  find_donations();
}

void Program::compile(KernelLibrary& library) {
  std::unordered_map<std::string, size_t> known;
  for (const KernelRequest& request : fusion_.kernels) {
    kernels_.push_back(generate_kernel(graph_, fusion_.materialized, request, device_.target()));
    const auto [entry, inserted] = known.try_emplace(kernels_.back().source, sources_.size());
    if (inserted) sources_.push_back(kernels_.back().source);
    source_of_.push_back(entry->second);
  }
  modules_ = library.load(sources_);
  for (size_t k = 0; k < kernels_.size(); ++k) {
    entries_.emplace_back();
    for (const KernelPhase& phase : kernels_[k].phases)
      entries_.back().push_back(modules_[source_of_[k]]->kernel(phase.function));
  }
}

// A value may overwrite the input it is assigned to when nothing reads the input's old content afterwards, and the
// kernel that writes it has read each element before it writes that element.
void Program::find_donations() {
  std::map<Value, size_t> kernel_of, last_reader;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    for (const Value member : fusion_.kernels[k].members) kernel_of[member] = k;
    for (const KernelArgument& argument : kernels_[k].arguments)
      if (argument.kind == KernelArgument::Kind::kValue) last_reader[argument.value] = k;
  }
  std::map<Value, int> assigned;
  for (const Assignment& assignment : graph_.assignments) ++assigned[assignment.value];
  for (const Assignment& assignment : graph_.assignments) {
    const auto writer = kernel_of.find(assignment.value);
    if (writer == kernel_of.end() || assigned[assignment.value] > 1) continue;
    if (!positions(graph_.outputs, assignment.value).empty() || !positions(graph_.outputs, assignment.target).empty())
      continue;
    // Another assignment may still need the old content.
    if (assigned.contains(assignment.target)) continue;
    const auto reader = last_reader.find(assignment.target);
    if (reader != last_reader.end()) {
      if (reader->second > writer->second) continue;
      if (reader->second == writer->second) {
        if (!may_overwrite(writer->second, assignment.target)) continue;
      }
    }
    donated_[assignment.value] = positions(graph_.inputs(), assignment.target).front();
  }
}

bool Program::may_overwrite(size_t kernel, Value input) const {
  const KernelRequest& request = fusion_.kernels[kernel];
  if (request.kind == KernelKind::kScatterAdd) {
    // The base is copied before anything is added to it.
    const std::vector<Value>& operands = graph_.node(request.members.front()).inputs;
    return operands[0] == input && operands[1] != input && operands[2] != input &&
           fusion_.materialized.contains(operands[1]) && fusion_.materialized.contains(operands[2]);
  }
  const bool elementwise_loop = request.kind == KernelKind::kLoop && request.rows.is_constant(1);
  if (!elementwise_loop && request.kind != KernelKind::kDot) return false;
  return std::all_of(request.members.begin(), request.members.end(),
                     [&](Value member) { return reads_only_at_own_position(member, input); });
}

bool Program::reads_only_at_own_position(Value member, Value input) const {
  std::set<Value> visited;
  std::vector<std::pair<Value, bool>> pending = {{member, true}};
  while (!pending.empty()) {
    const auto [value, at_own_position] = pending.back();
    pending.pop_back();
    for (const Value next : graph_.node(value).inputs) {
      const bool same =
          at_own_position && (is_elementwise(graph_.node(value).op) || graph_.node(value).op == Op::kReshape);
      if (next == input && !same) return false;
      if (fusion_.materialized.contains(next) || !visited.insert(next).second) continue;
      pending.emplace_back(next, same);
    }
  }
  return true;
}

Program::Bound Program::make_bound(const SymbolBindings& bindings) const {
  Bound bound;
  struct Use {
    int first = 0;
    int last = 0;
  };
  std::map<Value, Use> uses;
  std::vector<int64_t> workspace_bytes(kernels_.size());
  for (size_t k = 0; k < kernels_.size(); ++k) {
    const int step = static_cast<int>(k);
    for (const KernelArgument& argument : kernels_[k].arguments) {
      if (argument.kind != KernelArgument::Kind::kValue) continue;
      const auto [entry, inserted] = uses.try_emplace(argument.value, Use{step, step});
      entry->second.last = step;
    }
    if (kernels_[k].workspace_bytes) workspace_bytes[k] = kernels_[k].workspace_bytes(bindings);
  }
  const int end = static_cast<int>(kernels_.size());
  std::map<Value, Reference> references;
  for (size_t i = 0; i < graph_.inputs().size(); ++i) {
    references[graph_.inputs()[i]] = {Place::kInput, static_cast<int64_t>(i)};
    bound.memory.input_bytes += byte_count(graph_.type(graph_.inputs()[i]), bindings);
  }
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    const Value output = graph_.outputs[i];
    bound.memory.output_bytes += byte_count(graph_.type(output), bindings);
    const Reference place{Place::kOutput, static_cast<int64_t>(i)};
    // The first output place of a value holds it; others are copies.
    const auto [entry, inserted] = references.try_emplace(output, place);
    if (!inserted) bound.copies.push_back({entry->second, place, byte_count(graph_.type(output), bindings)});
  }
  for (const auto& [value, input] : donated_) references[value] = {Place::kInput, input};
  for (const Assignment& assignment : graph_.assignments)
    if (uses.contains(assignment.value)) uses[assignment.value].last = end;

  std::vector<PlannedBuffer> buffers;
  std::vector<Value> planned;  // the first value in each buffer
  std::map<Value, size_t> buffer_of;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    for (const KernelArgument& argument : kernels_[k].arguments) {
      const Value value = argument.value;
      if (argument.kind != KernelArgument::Kind::kValue || !argument.written || references.contains(value)) continue;
      const Use& use = uses.at(value);
      const int64_t bytes = byte_count(graph_.type(value), bindings);
      // A value that is read for the last time here, element by element, may give its memory to the result.
      for (const KernelArgument& other : kernels_[k].arguments) {
        const auto source = buffer_of.find(other.value);
        if (other.kind != KernelArgument::Kind::kValue || other.written || source == buffer_of.end()) continue;
        PlannedBuffer& buffer = buffers[source->second];
        if (buffer.last_step != static_cast<int>(k) || uses.at(other.value).last != static_cast<int>(k) ||
            buffer.bytes != bytes || !may_overwrite(k, other.value))
          continue;
        buffer.last_step = use.last;
        buffer_of[value] = source->second;
        break;
      }
      if (buffer_of.contains(value)) continue;
      buffer_of[value] = buffers.size();
      buffers.push_back({bytes, use.first, use.last, 0});
      planned.push_back(value);
    }
  }
  std::vector<size_t> workspace_buffer(kernels_.size());
  for (size_t k = 0; k < kernels_.size(); ++k) {
    if (workspace_bytes[k] == 0) continue;
    workspace_buffer[k] = buffers.size();
    buffers.push_back({workspace_bytes[k], static_cast<int>(k), static_cast<int>(k), 0});
  }
  bound.arena_bytes = plan_memory(buffers);
  bound.memory.arena_bytes = bound.arena_bytes;
  for (const auto& [value, buffer] : buffer_of) references[value] = {Place::kArena, buffers[buffer].offset};

  std::vector<size_t> by_size(planned.size());
  for (size_t i = 0; i < by_size.size(); ++i) by_size[i] = i;
  std::sort(by_size.begin(), by_size.end(),
            [&](size_t a, size_t b) { return std::pair(-buffers[a].bytes, a) < std::pair(-buffers[b].bytes, b); });
  for (size_t i = 0; i < std::min<size_t>(10, by_size.size()); ++i) {
    const Node& node = graph_.node(planned[by_size[i]]);
    bound.memory.largest.push_back({fmt::format("{} {}{}", op_name(node.op), graph_.type(planned[by_size[i]]).text(),
                                                node.scope.empty() ? "" : " (" + node.scope + ")"),
                                    buffers[by_size[i]].bytes});
  }

  for (size_t k = 0; k < kernels_.size(); ++k) {
    const GeneratedKernel& kernel = kernels_[k];
    Launch launch;
    launch.kernel = k;
    for (const KernelArgument& argument : kernel.arguments) {
      if (argument.kind == KernelArgument::Kind::kWorkspace) {
        launch.buffers.push_back({Place::kArena, workspace_bytes[k] == 0 ? 0 : buffers[workspace_buffer[k]].offset});
      } else {
        launch.buffers.push_back(references.at(argument.value));
      }
    }
    for (const Dim& size : kernel.sizes) launch.sizes.push_back(size.evaluate(bindings));
    if (kernel.tensor_maps) launch.tensor_maps = kernel.tensor_maps(bindings);
    for (size_t phase = 0; phase < kernel.phases.size(); ++phase) {
      launch.entry = entries_[k][phase];
      launch.tasks = kernel.phases[phase].tasks(bindings);
      launch.scratch_bytes = kernel.phases[phase].scratch_bytes(bindings);
      launch.phase = &kernel.phases[phase];
      if (launch.tasks > 0) bound.launches.push_back(launch);
    }
  }
  // A value that is itself an input assigned to goes by way of the arena: its old content is copied out before any
  // assignment overwrites it.
  std::vector<Copy> to_targets;
  for (const Assignment& assignment : graph_.assignments) {
    if (donated_.contains(assignment.value) || assignment.value == assignment.target) continue;
    const Reference to{Place::kInput, positions(graph_.inputs(), assignment.target).front()};
    const int64_t bytes = byte_count(graph_.type(assignment.value), bindings);
    Reference from = references.at(assignment.value);
    const bool overwritten =
        from.place == Place::kInput && std::any_of(graph_.assignments.begin(), graph_.assignments.end(),
                                                   [&](const Assignment& a) { return a.target == assignment.value; });
    if (overwritten) {
      const Reference kept{Place::kArena, (bound.arena_bytes + 63) / 64 * 64};
      bound.arena_bytes = kept.index + bytes;
      bound.copies.push_back({from, kept, bytes});
      from = kept;
    }
    to_targets.push_back({from, to, bytes});
  }
  bound.copies.insert(bound.copies.end(), to_targets.begin(), to_targets.end());
  bound.memory.arena_bytes = bound.arena_bytes;
  return bound;
}

Program::Bound& Program::bind(const SymbolBindings& bindings) {
  const std::vector<std::pair<int32_t, int64_t>> key(bindings.begin(), bindings.end());
  auto entry = bound_.find(key);
  if (entry == bound_.end()) entry = bound_.emplace(key, make_bound(bindings)).first;
  return entry->second;
}

ProgramMemory Program::memory(const SymbolBindings& bindings) { return bind(bindings).memory; }

void Program::run_launch(const Launch& launch, std::byte* arena, std::span<void* const> inputs,
                         std::span<void* const> outputs) {
  // Kept between launches: running a step allocates nothing.
  thread_local std::vector<void*> pointers;
  pointers.resize(launch.buffers.size());
  for (size_t i = 0; i < launch.buffers.size(); ++i) {
    const Reference& reference = launch.buffers[i];
    const size_t index = static_cast<size_t>(reference.index);
    pointers[i] = reference.place == Place::kArena   ? arena + reference.index
                  : reference.place == Place::kInput ? inputs[index]
                                                     : outputs[index];
  }
  device_.launch({launch.entry, std::span<void* const>(pointers), launch.sizes, launch.tasks, launch.scratch_bytes,
                  launch.phase->threads, launch.phase->shared_bytes, launch.phase->cluster, launch.tensor_maps});
}

void Program::run_copies(const Bound& bound, std::byte* arena, std::span<void* const> inputs,
                         std::span<void* const> outputs) {
  const auto address = [&](const Reference& reference) -> void* {
    const size_t index = static_cast<size_t>(reference.index);
    return reference.place == Place::kArena   ? arena + reference.index
           : reference.place == Place::kInput ? inputs[index]
                                              : outputs[index];
  };
  for (const Copy& copy : bound.copies)
    device_.copy_on_device(address(copy.to), address(copy.from), static_cast<size_t>(copy.bytes));
}

void Program::run(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings) {
  CAUSEWAY_CHECK(inputs.size() == graph_.inputs().size() && outputs.size() == graph_.outputs.size());
  Bound& bound = bind(bindings);
  std::byte* arena = arena_.reserve(bound.arena_bytes);
  thread_local std::vector<void*> addresses;
  addresses.assign(1, arena);
  addresses.insert(addresses.end(), inputs.begin(), inputs.end());
  addresses.insert(addresses.end(), outputs.begin(), outputs.end());
  if (addresses != bound.addresses) {
    bound.addresses = addresses;
    bound.recording = nullptr;
    launch_all(bound, arena, inputs, outputs);
    return;
  }
  if (bound.recording == nullptr) bound.recording = device_.record([&] { launch_all(bound, arena, inputs, outputs); });
  if (bound.recording != nullptr) {
    device_.replay(*bound.recording);
  } else {
    launch_all(bound, arena, inputs, outputs);
  }
}

void Program::launch_all(const Bound& bound, std::byte* arena, std::span<void* const> inputs,
                         std::span<void* const> outputs) {
  for (const Launch& launch : bound.launches) run_launch(launch, arena, inputs, outputs);
  run_copies(bound, arena, inputs, outputs);
}

std::vector<double> Program::run_timed(std::span<void* const> inputs, std::span<void* const> outputs,
                                       const SymbolBindings& bindings) {
  const Bound& bound = bind(bindings);
  std::byte* arena = arena_.reserve(bound.arena_bytes);
  std::vector<double> seconds(kernels_.size());
  for (const Launch& launch : bound.launches) {
    const auto start = std::chrono::steady_clock::now();
    run_launch(launch, arena, inputs, outputs);
    device_.synchronize();
    seconds[launch.kernel] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  run_copies(bound, arena, inputs, outputs);
  return seconds;
}

std::optional<NonFiniteValue> Program::run_and_find_non_finite(std::span<void* const> inputs,
                                                               std::span<void* const> outputs,
                                                               const SymbolBindings& bindings) {
  const Bound& bound = bind(bindings);
  std::byte* arena = arena_.reserve(bound.arena_bytes);
  std::optional<NonFiniteValue> found;
  std::vector<std::byte> host;
  for (size_t l = 0; l < bound.launches.size(); ++l) {
    const Launch& launch = bound.launches[l];
    run_launch(launch, arena, inputs, outputs);
    const bool last_phase = l + 1 == bound.launches.size() || bound.launches[l + 1].kernel != launch.kernel;
    const GeneratedKernel& kernel = kernels_[launch.kernel];
    for (size_t i = 0; i < kernel.arguments.size() && !found && last_phase; ++i) {
      const KernelArgument& argument = kernel.arguments[i];
      if (argument.kind != KernelArgument::Kind::kValue || !argument.written) continue;
      const TensorType& type = graph_.type(argument.value);
      if (!is_float(type.dtype)) continue;
      const Reference& reference = launch.buffers[i];
      const size_t index = static_cast<size_t>(reference.index);
      const void* address = reference.place == Place::kArena   ? arena + reference.index
                            : reference.place == Place::kInput ? inputs[index]
                                                               : outputs[index];
      host.resize(static_cast<size_t>(byte_count(type, bindings)));
      device_.copy_to_host(host.data(), address, host.size());
      const size_t count = host.size() / size_bytes(type.dtype);
      for (size_t e = 0; e < count && !found; ++e) {
        if (std::isfinite(read_element(type.dtype, host.data(), e))) continue;
        const Node& node = graph_.node(argument.value);
        found = NonFiniteValue{std::string(op_name(node.op)), node.scope, type.text()};
      }
    }
  }
  run_copies(bound, arena, inputs, outputs);
  return found;
}

std::vector<Program::KernelReport> Program::kernel_reports() const {
  std::vector<KernelReport> reports;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    const KernelRequest& request = fusion_.kernels[k];
    KernelReport report;
    report.kind = kernel_kind_name(request.kind);
    for (size_t i = 0; i < request.members.size(); ++i)
      report.members +=
          fmt::format("{}%{}.{} {} {}", i == 0 ? "" : ", ", request.members[i].node, request.members[i].output,
                      op_name(graph_.node(request.members[i]).op), graph_.type(request.members[i]).text());
    report.scope = graph_.node(request.members.front()).scope;
    report.source = source_of_[k];
    report.phases = kernels_[k].phases;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace causeway::program
