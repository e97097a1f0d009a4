#include "causeway/program/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "causeway/base/error.h"
#include "causeway/graph/op.h"
#include "causeway/program/buffer_places.h"
#include "causeway/program/donation.h"
#include "causeway/program/host_offload.h"
#include "causeway/program/kernel_generation.h"
#include "causeway/program/liveness.h"
#include "causeway/program/program_verifier.h"

namespace causeway::program {
namespace {

class Lowering {
 public:
  Lowering(const ProgramKernels& program, const SymbolBindings& bindings, const LoweringOptions& options)
      : program_(program),
        graph_(program.graph),
        bindings_(bindings),
        options_(options),
        overwriting_(graph_, program.fusion),
        lives_(find_lives(graph_, program.kernels)),
        to_inputs_(donate_inputs(graph_, overwriting_, lives_)) {}

  LoweredProgram run() {
    add_callers_buffers();
    add_arena_buffers();
    std::vector<KernelWork> kernels;
    for (size_t k = 0; k < program_.kernels.size(); ++k) {
      if (program_.fusion.kernels[k].kind == KernelKind::kCollective) {
        kernels.emplace_back(make_collective(k));
      } else if (program_.fusion.kernels[k].kind == KernelKind::kMessage) {
        kernels.emplace_back(make_message(k));
      } else {
        kernels.emplace_back(make_launch(k));
      }
    }
    std::vector<Copy> copies = make_copies();
    state_results();
    InstructionSchedule scheduled = schedule_instructions(std::move(kernels), copies, options_.schedule, host_copies_);
    lowered_.instructions = std::move(scheduled.instructions);
    lowered_.signals = scheduled.signals;
    place_buffers(lowered_);
    verify(lowered_);
    return std::move(lowered_);
  }

 private:
  int add_buffer(ProgramBuffer::Place place, int64_t at, int64_t bytes) {
    lowered_.buffers.push_back({place, at, bytes});
    return static_cast<int>(lowered_.buffers.size()) - 1;
  }
  int content(Value value) {
    const auto [entry, inserted] = content_of_.try_emplace(value, static_cast<int>(lowered_.contents.size()));
    if (inserted) {
      const Node& node = graph_.node(value);
      lowered_.contents.push_back({value, fmt::format("{} {}{}", op_name(node.op), graph_.type(value).text(),
                                                      node.scope.empty() ? "" : " (" + node.scope + ")")});
    }
    return entry->second;
  }
  int64_t bytes(Value value) const { return byte_count(graph_.type(value), bindings_); }
  Holding holding(Value value) { return {buffer_of_.at(value), content(value)}; }
  // What kernel k reads: of a value that was on the host meanwhile, what came back.
  Holding holding(Value value, size_t k) {
    const auto offloaded = offloaded_.find(value);
    if (offloaded == offloaded_.end() || static_cast<int>(k) < offloaded->second) return holding(value);
    return {brought_back_.at(value), content(value)};
  }
  // What a copy reads when all kernels have run.
  Holding holding_at_end(Value value) {
    const auto home = home_of_.find(value);
    return home == home_of_.end() ? holding(value) : Holding{home->second, content(value)};
  }

  void add_callers_buffers() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value input = graph_.inputs()[i];
      home_of_[input] = buffer_of_[input] =
          add_buffer(ProgramBuffer::Place::kInput, static_cast<int64_t>(i), bytes(input));
      lowered_.initial.push_back(holding(input));
      if (graph_.node(input).attributes.on_host) bring_from_host(input);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Value output = graph_.outputs[i];
      outputs_.push_back(add_buffer(ProgramBuffer::Place::kOutput, static_cast<int64_t>(i), bytes(output)));
      // The first output place of a value holds it; others are copies.
      buffer_of_.try_emplace(output, outputs_.back());
    }
    for (const auto& [value, input] : to_inputs_) buffer_of_[value] = buffer_of_.at(input);
  }

  // Kernels read what lies on the host in the arena, and write there over it.
  void bring_from_host(Value input) {
    const int home = home_of_.at(input);
    lowered_.buffers[static_cast<size_t>(home)].on_host = true;
    const bool is_read = lives_.at(input).last_reader != ValueLife::kBefore;
    const bool is_written = std::ranges::any_of(to_inputs_, [&](const auto& entry) { return entry.second == input; });
    if (!is_read && !is_written) return;
    buffer_of_[input] = add_buffer(ProgramBuffer::Place::kArena, 0, bytes(input));
    if (is_read) host_copies_.loads.push_back({{home, content(input)}, buffer_of_.at(input), bytes(input)});
  }

  // What the backward pass reads of the forward pass goes to the host and comes back.
  void add_offloaded_buffers() {
    for (const auto& [value, kernel] : offloaded_) {
      const int host = add_buffer(ProgramBuffer::Place::kHostArena, 0, bytes(value));
      lowered_.buffers.back().on_host = true;
      brought_back_[value] = add_buffer(ProgramBuffer::Place::kArena, 0, bytes(value));
      host_copies_.stores.push_back({holding(value), host, bytes(value)});
      host_copies_.loads.push_back({{host, content(value)}, brought_back_.at(value), bytes(value)});
    }
  }

  void add_arena_buffers() {
    std::set<Value> in_arena;
    for (const auto& [value, life] : lives_)
      if (!buffer_of_.contains(value)) in_arena.insert(value);
    if (options_.offloads_activations)
      offloaded_ = find_offloaded(graph_, program_.fusion, program_.kernels, lives_, in_arena, bindings_);
    std::map<Value, Value> to_operands =
        donate_operands(graph_, overwriting_, program_.kernels, lives_, in_arena, bindings_);
    std::erase_if(to_operands, [&](const auto& entry) { return offloaded_.contains(entry.second); });
    for (const GeneratedKernel& kernel : program_.kernels) {
      for (const KernelArgument& argument : kernel.arguments) {
        if (argument.kind != KernelArgument::Kind::kValue || !argument.written || !in_arena.contains(argument.value))
          continue;
        const auto donor = to_operands.find(argument.value);
        buffer_of_[argument.value] = donor != to_operands.end()
                                         ? buffer_of_.at(donor->second)
                                         : add_buffer(ProgramBuffer::Place::kArena, 0, bytes(argument.value));
      }
    }
    add_offloaded_buffers();
    for (size_t k = 0; k < program_.kernels.size(); ++k) {
      workspaces_.emplace_back();
      const SizeFunction& workspace_bytes = program_.kernels[k].workspace_bytes;
      if (!workspace_bytes) continue;
      for (const KernelArgument& argument : program_.kernels[k].arguments) {
        if (argument.kind != KernelArgument::Kind::kWorkspace) continue;
        workspaces_.back().push_back({add_buffer(ProgramBuffer::Place::kArena, 0, workspace_bytes(bindings_)),
                                      static_cast<int>(lowered_.contents.size())});
        lowered_.contents.push_back({{}, fmt::format("workspace of kernel {}", k)});
      }
    }
  }

  // One for all kernels: what each makes of it is a content of its own, so that the verifier sees to it that no two of
  // them run at the same time.
  Holding task_counter(size_t k) {
    if (task_counter_ < 0)
      task_counter_ = add_buffer(ProgramBuffer::Place::kTaskCounter, 0, static_cast<int64_t>(sizeof(uint32_t)));
    lowered_.contents.push_back({{}, fmt::format("task counter of kernel {}", k)});
    return {task_counter_, static_cast<int>(lowered_.contents.size()) - 1};
  }

  // Of what has `tasks` of something to do.
  int64_t blocks(const KernelPhase& phase, int64_t tasks) const {
    if (!phase.persistent) return tasks;
    return std::min(tasks, std::max<int64_t>(1, options_.persistent_blocks / phase.cluster) * phase.cluster);
  }

  Launch make_launch(size_t k) {
    const GeneratedKernel& kernel = program_.kernels[k];
    Launch launch;
    launch.kernel = k;
    size_t workspaces = 0;
    for (const KernelArgument& argument : kernel.arguments) {
      if (argument.kind == KernelArgument::Kind::kWorkspace) {
        launch.accesses.push_back({workspaces_[k][workspaces++], true});
      } else if (argument.kind == KernelArgument::Kind::kTaskCounter) {
        launch.accesses.push_back({task_counter(k), true});
      } else {
        launch.accesses.push_back({holding(argument.value, k), argument.written});
        if (!argument.written && is_overwritten(k, argument.value))
          launch.overwrites.push_back(content(argument.value));
      }
    }
    for (const Dim& size : kernel.sizes) launch.sizes.push_back(size.evaluate(bindings_));
    if (kernel.tensor_maps) launch.tensor_maps = kernel.tensor_maps(bindings_);
    for (size_t p = 0; p < kernel.phases.size(); ++p) {
      const KernelPhase& phase = kernel.phases[p];
      const int64_t tasks = blocks(phase, phase.tasks(bindings_));
      if (tasks > 0)
        launch.phases.push_back({program_.entries[k][p], tasks, phase.scratch_bytes(bindings_), phase.threads,
                                 phase.shared_bytes, phase.cluster, phase.persistent});
    }
    return launch;
  }

  Collectives make_collective(size_t k) {
    const GeneratedKernel& kernel = program_.kernels[k];
    const Value from = kernel.arguments[0].value, to = kernel.arguments[1].value;
    const Node& node = graph_.node(to);
    Collective collective;
    collective.dtype = graph_.dtype(to);
    // What each rank sends to one other or has of the sum.
    const int64_t ranks = node.attributes.count;
    const int64_t sent = element_count(graph_.shape(from)).evaluate(bindings_);
    switch (node.op) {
      case Op::kAllReduce:
        collective.kind = CollectiveKind::kAllReduce;
        collective.count = sent;
        break;
      case Op::kAllGather:
        collective.kind = CollectiveKind::kAllGather;
        collective.count = sent;
        break;
      case Op::kReduceScatter:
        collective.kind = CollectiveKind::kReduceScatter;
        collective.count = sent / ranks;
        break;
      default:
        CAUSEWAY_CHECK(node.op == Op::kAllToAll, "{} is no collective", op_name(node.op));
        collective.kind = CollectiveKind::kAllToAll;
        collective.count = sent / ranks;
    }
    return {node.attributes.group, static_cast<int>(ranks), {{k, collective, holding(from, k), holding(to)}}};
  }

  StageMessage make_message(size_t k) {
    const Node& node = graph_.node(program_.fusion.kernels[k].members.front());
    const Value value = program_.kernels[k].arguments[0].value;
    return {k,
            node.op == Op::kSend,
            node.attributes.peer,
            static_cast<int>(node.attributes.stream),
            element_count(graph_.shape(value)).evaluate(bindings_),
            graph_.dtype(value),
            holding(value, k),
            node.attributes.name};
  }

  // Whether a result of the kernel shares the memory of `source` and may do so.
  bool is_overwritten(size_t k, Value source) {
    const std::vector<KernelArgument>& arguments = program_.kernels[k].arguments;
    return std::any_of(arguments.begin(), arguments.end(), [&](const KernelArgument& argument) {
      return argument.kind == KernelArgument::Kind::kValue && argument.written &&
             buffer_of_.at(argument.value) == holding(source, k).buffer &&
             overwriting_.is_allowed(k, source, argument.value);
    });
  }

  // In an order in which they may run after the kernels.
  std::vector<Copy> make_copies() {
    std::vector<Copy> copies;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Value output = graph_.outputs[i];
      if (buffer_of_.at(output) != outputs_[i]) copies.push_back({holding_at_end(output), outputs_[i], bytes(output)});
    }
    std::map<Value, Value> target_of;  // of inputs that are assigned to
    for (const Assignment& assignment : graph_.assignments) target_of[assignment.target] = assignment.value;
    std::vector<Copy> to_targets;
    for (const Assignment& assignment : graph_.assignments) {
      const int target = home_of_.at(assignment.target);
      const bool to_host = on_host(target);
      if ((to_inputs_.contains(assignment.value) && !to_host) || assignment.value == assignment.target) continue;
      Holding from = holding_at_end(assignment.value);
      if (to_host && !home_of_.contains(assignment.value)) {
        host_copies_.stores.push_back({from, target, bytes(assignment.value)});
        continue;
      }
      // A value that is itself an input assigned to goes by way of the arena: its old content is copied out before any
      // assignment overwrites it. So does one that goes from one place on the host to another.
      if (target_of.contains(assignment.value) || (to_host && on_host(from.buffer))) {
        const int kept = add_buffer(ProgramBuffer::Place::kArena, 0, bytes(assignment.value));
        copies.push_back({from, kept, bytes(assignment.value)});
        from.buffer = kept;
      }
      to_targets.push_back({from, target, bytes(assignment.value)});
    }
    copies.insert(copies.end(), to_targets.begin(), to_targets.end());
    const bool touch_host =
        std::ranges::any_of(copies, [&](const Copy& copy) { return on_host(copy.from.buffer) || on_host(copy.to); });
    if (touch_host) host_copies_.last = std::exchange(copies, {});
    return copies;
  }

  void state_results() {
    for (size_t i = 0; i < outputs_.size(); ++i) lowered_.results.push_back({outputs_[i], content(graph_.outputs[i])});
    std::map<Value, Value> new_value;
    for (const Assignment& assignment : graph_.assignments) new_value[assignment.target] = assignment.value;
    for (const Value input : graph_.inputs()) {
      const auto assigned = new_value.find(input);
      lowered_.results.push_back({home_of_.at(input), content(assigned == new_value.end() ? input : assigned->second)});
    }
  }

  bool on_host(int buffer) const { return lowered_.buffers[static_cast<size_t>(buffer)].on_host; }
  const ProgramKernels& program_;
  const Graph& graph_;
  const SymbolBindings& bindings_;
  const LoweringOptions& options_;
  Overwriting overwriting_;
  std::map<Value, ValueLife> lives_;
  std::map<Value, Value> to_inputs_;  // by value, the input whose memory it overwrites
  std::map<Value, int> buffer_of_;
  std::map<Value, int> home_of_;  // of inputs, the caller's buffer, which may lie on the host
  // Values that are on the host between forward and backward: the first kernel that reads what came back, and that.
  std::map<Value, int> offloaded_, brought_back_;
  HostCopies host_copies_;
  std::map<Value, int> content_of_;
  std::vector<int> outputs_;                      // buffers
  std::vector<std::vector<Holding>> workspaces_;  // by kernel, in the order of its arguments
  int task_counter_ = -1;                         // the buffer, once a kernel has asked for it
  LoweredProgram lowered_;
};

}  // namespace

LoweringOptions default_lowering(const Target& target, int free_units) {
  LoweringOptions options{.schedule = default_schedule(target)};
  if (!target.is_gpu()) return options;
  if (free_units < 0 || free_units >= target.parallel_units)
    throw Error(
        ErrorKind::kInvalidArgument,
        fmt::format("{} multiprocessors are to be left free, and the device has {}", free_units, target.parallel_units),
        {}, "Leave at least one to the program's own kernels.");
  options.persistent_blocks = target.parallel_units - free_units;
  return options;
}

UnloadedProgram lower_unloaded(const Graph& graph, const Target& target, const LoweringOptions& options) {
  UnloadedProgram program{fuse(graph, target, options.fixed_order), {}, {}};
  program.kernels = generate_kernels(graph, program.fusion, target);
  std::vector<std::vector<DeviceKernel>> entries;
  for (const GeneratedKernel& kernel : program.kernels) entries.emplace_back(kernel.phases.size());
  program.lowered = lower({graph, program.fusion, program.kernels, entries}, {}, options);
  return program;
}

LoweredProgram lower(const ProgramKernels& program, const SymbolBindings& bindings, const LoweringOptions& options) {
  return Lowering(program, bindings, options).run();
}

}  // namespace causeway::program
