#include "causeway/program/program.h"

#include <cmath>
#include <unordered_map>

#include "causeway/base/error.h"
#include "causeway/graph/printer.h"
#include "causeway/program/kernel_generation.h"
#include "causeway/program/liveness.h"

namespace causeway::program {
namespace {

// Messages between stages count too.
int64_t count_collectives(const LoweredProgram& program) {
  int64_t count = 0;
  for (const Instruction& instruction : program.instructions)
    if (const auto* collectives = std::get_if<Collectives>(&instruction.work))
      count += static_cast<int64_t>(collectives->parts.size());
    else if (std::holds_alternative<StageMessage>(instruction.work))
      ++count;
  return count;
}

}  // namespace

Program::Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena)
    : Program(std::move(graph), device, library, arena, default_lowering(device.target())) {}

Program::Program(Graph graph, Device& device, KernelLibrary& library, Arena& arena, const LoweringOptions& lowering,
                 MeshCommunicators* communicators, HeldMemory* held)
    : graph_(std::move(graph)),
      device_(device),
      arena_(arena),
      fusion_(fuse(graph_, device.target(), lowering.fixed_order)),
      lowering_(lowering),
      communicators_(communicators),
      held_(held) {
  compile(library);
}

void Program::compile(KernelLibrary& library) {
  kernels_ = generate_kernels(graph_, fusion_, device_.target());
  std::unordered_map<std::string, size_t> known;
  for (const GeneratedKernel& kernel : kernels_) {
    source_of_.emplace_back();
    if (kernel.source.empty()) continue;
    const auto [entry, inserted] = known.try_emplace(kernel.source, sources_.size());
    if (inserted) sources_.push_back(kernel.source);
    source_of_.back() = entry->second;
  }
  modules_ = library.load(sources_);
  for (size_t k = 0; k < kernels_.size(); ++k) {
    entries_.emplace_back();
    for (const KernelPhase& phase : kernels_[k].phases)
      entries_.back().push_back(modules_[*source_of_[k]]->kernel(phase.function));
  }
}

Program::Bound& Program::bind(const SymbolBindings& bindings) {
  const std::vector<std::pair<int32_t, int64_t>> key(bindings.begin(), bindings.end());
  std::unique_ptr<Bound>& bound = bound_[key];
  if (bound == nullptr)
    bound = std::make_unique<Bound>(lower({graph_, fusion_, kernels_, entries_}, bindings, lowering_), device_,
                                    communicators_, held_);
  return *bound;
}

ProgramMemory Program::memory(const SymbolBindings& bindings) { return count_memory(lowered(bindings)); }

const LoweredProgram& Program::lowered(const SymbolBindings& bindings) { return bind(bindings).program; }

Program::Bound& Program::bind(std::span<void* const> inputs, std::span<void* const> outputs,
                              const SymbolBindings& bindings) {
  CAUSEWAY_CHECK(inputs.size() == graph_.inputs().size() && outputs.size() == graph_.outputs.size());
  Bound& bound = bind(bindings);
  find_addresses(bound.program, arena_, inputs, outputs, bound.asked);
  return bound;
}

void Program::run(std::span<void* const> inputs, std::span<void* const> outputs, const SymbolBindings& bindings) {
  Bound& bound = bind(inputs, outputs, bindings);
  bound.executor.run(bound.asked);
}

void Program::run_recorded(std::span<void* const> inputs, std::span<void* const> outputs,
                           const SymbolBindings& bindings) {
  Bound& bound = bind(inputs, outputs, bindings);
  if (bound.asked != bound.addresses) {
    bound.addresses = bound.asked;
    bound.recording = nullptr;
    bound.executor.run(bound.addresses);
    return;
  }
  if (bound.executor.writes_held_memory(bound.addresses)) return bound.executor.run(bound.addresses);
  if (bound.recording == nullptr) bound.recording = device_.record([&] { bound.executor.run(bound.addresses); });
  if (bound.recording != nullptr) {
    const int64_t exchanged = count_collectives(bound.program);
    if (exchanged > 0) communicators_->progress().begin_replay(exchanged);
    device_.replay(*bound.recording);
  } else {
    bound.executor.run(bound.addresses);
  }
}

std::vector<double> Program::run_timed(std::span<void* const> inputs, std::span<void* const> outputs,
                                       const SymbolBindings& bindings) {
  const std::vector<InstructionTime> times = run_traced(inputs, outputs, bindings);
  const std::vector<Instruction>& instructions = lowered(bindings).instructions;
  std::vector<double> seconds(kernels_.size());
  for (const InstructionTime& time : times) {
    const Instruction& instruction = instructions[static_cast<size_t>(time.instruction)];
    const double passed = time.end - time.start;
    if (const auto* launch = std::get_if<Launch>(&instruction.work)) seconds[launch->kernel] = passed;
    if (const auto* message = std::get_if<StageMessage>(&instruction.work)) seconds[message->kernel] = passed;
    const auto* collectives = std::get_if<Collectives>(&instruction.work);
    if (collectives == nullptr) continue;
    const auto bytes = [](const Collectives::Part& part) {
      return static_cast<double>(part.collective.count) * static_cast<double>(size_bytes(part.collective.dtype));
    };
    double all = 0;
    for (const Collectives::Part& part : collectives->parts) all += bytes(part);
    for (const Collectives::Part& part : collectives->parts)
      seconds[part.kernel] = all > 0 ? passed * bytes(part) / all : 0;
  }
  return seconds;
}

std::optional<NonFiniteValue> Program::run_and_find_non_finite(std::span<void* const> inputs,
                                                               std::span<void* const> outputs,
                                                               const SymbolBindings& bindings) {
  Bound& bound = bind(inputs, outputs, bindings);
  std::optional<NonFiniteValue> found;
  std::vector<std::byte> host;
  const auto after = [&](const Instruction& instruction) {
    if (std::holds_alternative<Copy>(instruction.work)) return;
    // Work of other queues has to be done before its results are looked at.
    if (instruction.queue != kComputeQueue) device_.synchronize();
    for (const Access& access : instruction.accesses()) {
      const Value value = bound.program.contents[static_cast<size_t>(access.holding.content)].value;
      if (found || !access.written || !value.valid() || !is_float(graph_.dtype(value))) continue;
      const TensorType& type = graph_.type(value);
      host.resize(static_cast<size_t>(byte_count(type, bindings)));
      device_.copy_to_host(host.data(), bound.asked[static_cast<size_t>(access.holding.buffer)], host.size());
      const size_t count = host.size() / size_bytes(type.dtype);
      for (size_t e = 0; e < count && !found; ++e) {
        if (std::isfinite(read_element(type.dtype, host.data(), e))) continue;
        const Node& node = graph_.node(value);
        found = NonFiniteValue{std::string(op_name(node.op)), node.scope, type.text()};
      }
    }
  };
  bound.executor.run(bound.asked, {.after = after});
  return found;
}

std::vector<InstructionTime> Program::run_traced(std::span<void* const> inputs, std::span<void* const> outputs,
                                                 const SymbolBindings& bindings) {
  Bound& bound = bind(inputs, outputs, bindings);
  return time_instructions(bound.program, bound.executor, bound.asked, device_);
}

std::vector<InstructionLabel> Program::instruction_labels(const SymbolBindings& bindings) {
  const LoweredProgram& program = lowered(bindings);
  const std::vector<KernelReport> reports = kernel_reports();
  std::vector<InstructionLabel> labels;
  for (const Instruction& instruction : program.instructions) {
    InstructionLabel& label = labels.emplace_back();
    label.queue = instruction.queue;
    if (const auto* launch = std::get_if<Launch>(&instruction.work)) {
      label = {InstructionLabel::Kind::kKernel, reports[launch->kernel].kind, reports[launch->kernel].scope,
               instruction.queue};
    } else if (const auto* copy = std::get_if<Copy>(&instruction.work)) {
      label = {InstructionLabel::Kind::kCopy, "copy", program.contents[static_cast<size_t>(copy->from.content)].text,
               instruction.queue, copy->bytes};
    } else if (const auto* collectives = std::get_if<Collectives>(&instruction.work)) {
      const Collectives::Part& first = collectives->parts.front();
      label = {InstructionLabel::Kind::kCollective, std::string(collective_name(first.collective.kind)),
               reports[first.kernel].scope, instruction.queue};
      for (const Collectives::Part& part : collectives->parts) label.bytes += larger_bytes(part, collectives->ranks);
      label.group = collectives->group;
      label.parts = static_cast<int>(collectives->parts.size());
    } else if (const auto* message = std::get_if<StageMessage>(&instruction.work)) {
      label = {InstructionLabel::Kind::kMessage, message->sends ? "send" : "receive", message->name, instruction.queue,
               message->count * static_cast<int64_t>(size_bytes(message->dtype))};
      label.sends = message->sends;
      label.stage = message->stage;
      label.stream = message->stream;
    }
  }
  return labels;
}

std::vector<Program::CollectiveReport> Program::collectives(const SymbolBindings& bindings) {
  std::vector<CollectiveReport> reports;
  const LoweredProgram& program = lowered(bindings);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* collectives = std::get_if<Collectives>(&program.instructions[i].work);
    if (collectives == nullptr) continue;
    for (const Collectives::Part& part : collectives->parts) {
      const Collective& collective = part.collective;
      const auto element = static_cast<int64_t>(size_bytes(collective.dtype));
      const Value result = program.contents[static_cast<size_t>(part.to.content)].value;
      reports.push_back({collective.kind, collectives->group, collectives->ranks, collective.dtype,
                         element * collective.sent(collectives->ranks),
                         element * collective.received(collectives->ranks), graph_.node(result).scope,
                         static_cast<int>(i)});
    }
  }
  return reports;
}

std::vector<Program::MessageReport> Program::messages(const SymbolBindings& bindings) {
  std::vector<MessageReport> reports;
  for (const Instruction& instruction : lowered(bindings).instructions)
    if (const auto* message = std::get_if<StageMessage>(&instruction.work))
      reports.push_back({message->sends, message->stage,
                         message->count * static_cast<int64_t>(size_bytes(message->dtype)), message->name});
  return reports;
}

Hash128 Program::hash(const SymbolBindings& bindings) {
  std::string text = print_graph(graph_);
  for (const auto& [symbol, value] : bindings) text += fmt::format("size {}\n", value);
  for (const CollectiveReport& one : collectives(bindings))
    text += fmt::format("{} {} of {} over {} by {}, {} bytes\n", one.instruction, collective_name(one.kind),
                        dtype_name(one.dtype), one.group, one.ranks, one.sent_bytes);
  // Where ranks read each other's memory, what they read lies at the same place.
  const LoweredProgram& program = lowered(bindings);
  for (const Instruction& instruction : program.instructions)
    if (const auto* collectives = std::get_if<Collectives>(&instruction.work))
      for (const Collectives::Part& part : collectives->parts)
        text += fmt::format("from {} to {}\n", program.buffers[static_cast<size_t>(part.from.buffer)].at,
                            program.buffers[static_cast<size_t>(part.to.buffer)].at);
  return hash_text(text);
}

std::vector<Program::KernelReport> Program::kernel_reports() const {
  std::vector<KernelReport> reports;
  for (size_t k = 0; k < kernels_.size(); ++k) {
    const KernelRequest& request = fusion_.kernels[k];
    KernelReport report;
    report.kind = kernel_kind_name(request.kind);
    if (request.kind == KernelKind::kCollective) {
      const Node& node = graph_.node(request.members.front());
      report.kind = fmt::format("{} over {}", op_name(node.op), node.attributes.group);
    } else if (request.kind == KernelKind::kMessage) {
      const Node& node = graph_.node(request.members.front());
      report.kind =
          fmt::format("{} {} stage {}", op_name(node.op), is_effect(node.op) ? "to" : "from", node.attributes.peer);
    }
    for (size_t i = 0; i < request.members.size(); ++i)
      report.members +=
          fmt::format("{}%{}.{} {} {}", i == 0 ? "" : ", ", request.members[i].node, request.members[i].output,
                      op_name(graph_.node(request.members[i]).op), graph_.type(request.members[i]).text());
    for (size_t i = 0; i < request.row_members.size(); ++i)
      report.members += fmt::format("{}%{}.{} {}", i == 0 ? "; rows by " : ", ", request.row_members[i].node,
                                    request.row_members[i].output, op_name(graph_.node(request.row_members[i]).op));
    if (!request.alike.empty()) report.members += fmt::format("; {} more like these", request.alike.size());
    report.scope = graph_.node(request.members.front()).scope;
    report.source = source_of_[k];
    report.phases = kernels_[k].phases;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace causeway::program
