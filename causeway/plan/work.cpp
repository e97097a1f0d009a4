#include "causeway/plan/work.h"

namespace causeway::plan {

bool is_collective(WorkKind kind) {
  return kind != WorkKind::kGemm && kind != WorkKind::kAttention && kind != WorkKind::kMemory &&
         kind != WorkKind::kHostCopy;
}

const char* work_kind_name(WorkKind kind) {
  switch (kind) {
    case WorkKind::kGemm:
      return "GEMM";
    case WorkKind::kAttention:
      return "attention";
    case WorkKind::kMemory:
      return "memory";
    case WorkKind::kHostCopy:
      return "host copy";
    case WorkKind::kAllReduce:
      return "all_reduce";
    case WorkKind::kAllGather:
      return "all_gather";
    case WorkKind::kReduceScatter:
      return "reduce_scatter";
    case WorkKind::kAllToAll:
      return "all_to_all";
    case WorkKind::kSend:
      return "send";
  }
  return "";
}

WorkTotals total(const std::vector<Work>& work) {
  WorkTotals totals;
  for (const Work& one : work) {
    totals.flops += one.flops;
    (is_collective(one.kind)           ? totals.collective_bytes
     : one.kind == WorkKind::kHostCopy ? totals.host_bytes
                                       : totals.memory_bytes) += one.bytes;
  }
  return totals;
}

std::map<std::string, double> flops_by_operand(const std::vector<Work>& work) {
  std::map<std::string, double> flops;
  for (const Work& one : work)
    if (one.flops > 0) flops[one.operand] += one.flops;
  return flops;
}

}  // namespace causeway::plan
