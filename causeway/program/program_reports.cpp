#include "causeway/program/program_reports.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "causeway/graph/op.h"

namespace causeway::program {

std::vector<KernelReport> report_kernels(const Graph& graph, const FusionResult& fusion,
                                         const std::vector<GeneratedKernel>& kernels,
                                         const std::vector<std::optional<size_t>>& source_of) {
  std::vector<KernelReport> reports;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const KernelRequest& request = fusion.kernels[k];
    KernelReport report;
    report.kind = kernel_kind_name(request.kind);
    if (request.kind == KernelKind::kCollective) {
      const Node& node = graph.node(request.members.front());
      report.kind = fmt::format("{} over {}", op_name(node.op), node.attributes.group);
    } else if (request.kind == KernelKind::kMessage) {
      const Node& node = graph.node(request.members.front());
      report.kind =
          fmt::format("{} {} stage {}", op_name(node.op), is_effect(node.op) ? "to" : "from", node.attributes.peer);
    }
    for (size_t i = 0; i < request.members.size(); ++i)
      report.members +=
          fmt::format("{}%{}.{} {} {}", i == 0 ? "" : ", ", request.members[i].node, request.members[i].output,
                      op_name(graph.node(request.members[i]).op), graph.type(request.members[i]).text());
    for (size_t i = 0; i < request.row_members.size(); ++i)
      report.members += fmt::format("{}%{}.{} {}", i == 0 ? "; rows by " : ", ", request.row_members[i].node,
                                    request.row_members[i].output, op_name(graph.node(request.row_members[i]).op));
    if (!request.alike.empty()) report.members += fmt::format("; {} more like these", request.alike.size());
    report.scope = graph.node(request.members.front()).scope;
    report.source = source_of[k];
    report.phases = kernels[k].phases;
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<CollectiveReport> report_collectives(const Graph& graph, const LoweredProgram& program) {
  std::vector<CollectiveReport> reports;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* collectives = std::get_if<Collectives>(&program.instructions[i].work);
    if (collectives == nullptr) continue;
    for (const Collectives::Part& part : collectives->parts) {
      const Collective& collective = part.collective;
      const auto element = static_cast<int64_t>(size_bytes(collective.dtype));
      const Value result = program.contents[static_cast<size_t>(part.to.content)].value;
      reports.push_back({collective.kind, collectives->group, collectives->ranks, collective.dtype,
                         element * collective.sent(collectives->ranks),
                         element * collective.received(collectives->ranks), graph.node(result).scope,
                         static_cast<int>(i)});
    }
  }
  return reports;
}

std::vector<MessageReport> report_messages(const LoweredProgram& program) {
  std::vector<MessageReport> reports;
  for (const Instruction& instruction : program.instructions)
    if (const auto* message = std::get_if<StageMessage>(&instruction.work))
      reports.push_back({message->sends, message->stage,
                         message->count * static_cast<int64_t>(size_bytes(message->dtype)), message->name});
  return reports;
}

std::vector<InstructionLabel> label_instructions(const LoweredProgram& program,
                                                 const std::vector<KernelReport>& reports) {
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

}  // namespace causeway::program
