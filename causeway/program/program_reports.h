// What a compiled program consists of, for whoever wants to see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "causeway/communicator/communicator.h"
#include "causeway/graph/graph.h"
#include "causeway/program/fusion.h"
#include "causeway/program/instruction.h"
#include "causeway/program/program_trace.h"

namespace causeway::program {

// A use of a kernel.
struct KernelReport {
  std::string kind;     // "loop", "dot", ...; "all_gather over fsdp"
  std::string members;  // the values it computes
  std::string scope;
  std::optional<size_t> source;  // index into sources(); a collective has no text
  std::vector<KernelPhase> phases;
};

// What ranks exchange by one collective of a run.
struct CollectiveReport {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string group;  // the mesh's axes, "fsdp+dp"
  int ranks = 0;      // of the group
  DType dtype = DType::kF32;
  int64_t sent_bytes = 0;  // in a rank's buffers, as Collective::sent() and received() count them
  int64_t received_bytes = 0;
  std::string scope;
  int instruction = 0;  // position in lowered().instructions: equal for those that go in one
};

// What a stage of a pipeline sends to another or receives from it.
struct MessageReport {
  bool sends = false;
  int64_t stage = 0;  // the other's
  int64_t bytes = 0;
  std::string name;
};

// By kernel; `source_of`: the index of its text.
std::vector<KernelReport> report_kernels(const Graph& graph, const FusionResult& fusion,
                                         const std::vector<GeneratedKernel>& kernels,
                                         const std::vector<std::optional<size_t>>& source_of);
// In the order of the instructions.
std::vector<CollectiveReport> report_collectives(const Graph& graph, const LoweredProgram& program);
std::vector<MessageReport> report_messages(const LoweredProgram& program);
// What the instructions are called in a trace, by position; of waits the label is empty. `reports`: of its kernels.
std::vector<InstructionLabel> label_instructions(const LoweredProgram& program,
                                                 const std::vector<KernelReport>& reports);

}  // namespace causeway::program
