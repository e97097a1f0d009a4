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
  return label_instructions(lowered(bindings), kernel_reports());
}

std::vector<CollectiveReport> Program::collectives(const SymbolBindings& bindings) {
  return report_collectives(graph_, lowered(bindings));
}

std::vector<MessageReport> Program::messages(const SymbolBindings& bindings) {
  return report_messages(lowered(bindings));
}

std::vector<KernelReport> Program::kernel_reports() const {
  return report_kernels(graph_, fusion_, kernels_, source_of_);
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

}  // namespace causeway::program
