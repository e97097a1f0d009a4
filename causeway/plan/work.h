// What one rank does in a training step, as a list of work that a time can be given to: from the program's own graph
// (program_work.h), or from the description of a published run (transformer_work.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "causeway/namespaces.h"

namespace causeway::plan {

inline double real(int64_t value) { return static_cast<double>(value); }

enum class WorkKind { kGemm, kAttention, kMemory, kHostCopy, kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSend };

bool is_collective(WorkKind kind);
// "GEMM", "all_gather", ...
const char* work_kind_name(WorkKind kind);

// Of kernels, and of collectives that run beside them.
inline constexpr int kComputeWork = 0, kBesideCompute = 2;

struct Work {
  WorkKind kind = WorkKind::kMemory;
  // kGemm: `batch` GEMMs of [m, k] and [k, n], with operands of this type ("bf16", "fp8", "tf32", "f32").
  double batch = 1, m = 0, n = 0, k = 0;
  std::string operand = "bf16";
  // kGemm and kAttention: 2 per multiply-add; attention with the density of its mask.
  double flops = 0;
  double head_dim = 0;  // kAttention
  // kMemory: bytes read and written. kHostCopy: that come from the host or go there. Collectives: of the whole that a
  // rank gathers, reduces or exchanges. kSend: sent.
  double bytes = 0;
  // Collectives: the ranks that take part, and how many of them sit in one node. kSend: 2, and 1 or 2.
  int64_t ranks = 1;
  int64_t ranks_in_node = 1;
  std::string group;  // the mesh's axes, "fsdp+dp"
  // Work of a queue runs in the order of the list, one at a time; queues run beside one another.
  int queue = 0;
  // Positions, before this one, of what must have ended when it begins.
  std::vector<int> after;
};

struct WorkTotals {
  double flops = 0;
  double memory_bytes = 0;
  double collective_bytes = 0;
  double host_bytes = 0;
};
WorkTotals total(const std::vector<Work>& work);
// Of GEMMs and attention, by the type of their operands, what is computed again included.
std::map<std::string, double> flops_by_operand(const std::vector<Work>& work);

}  // namespace causeway::plan
