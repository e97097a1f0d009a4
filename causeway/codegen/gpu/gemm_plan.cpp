#include "causeway/codegen/gpu/gemm_plan.h"

#include <algorithm>

#include "causeway/codegen/gpu/gemm_mainloops.h"

namespace causeway::codegen {
namespace {

// How many neighbouring elements of a row are stored together: the narrowest stored member fills 16 bytes.
int store_lanes(const GpuGemmProblem& problem) {
  int64_t lanes = 4;
  for (const DType member : problem.epilogue.members)
    lanes = std::max<int64_t>(lanes, std::min<int64_t>(8, 16 / static_cast<int64_t>(size_bytes(member))));
  while (lanes > 1 && !problem.n.divide_exactly(lanes)) lanes /= 2;
  return static_cast<int>(lanes);
}

}  // namespace

GpuGemmMainloopPlan multiplied_as(GpuGemmType type, const GpuGemmProblem& problem) {
  GpuGemmMainloopPlan plan;
  plan.type = type;
  const bool pairs = type == GpuGemmType::kF8Pair;
  plan.a = pairs ? problem.a.in_pairs() : problem.a;
  plan.b = pairs ? problem.b.in_pairs() : problem.b;
  plan.k = pairs ? plan.a.k : problem.k;
  return plan;
}

std::optional<GpuGemmPlan> plan_gemm(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  for (const GpuGemmMainloop* mainloop : gpu_gemm_mainloops()) {
    if (mainloop->grouped != (problem.groups != GpuGemmGroups::kNone)) continue;
    std::optional<GpuGemmPlan> plan = mainloop->plan(problem, architecture);
    if (!plan) continue;
    plan->mainloop.kind = mainloop;
    plan->epilogue.store_lanes = store_lanes(problem);
    return plan;
  }
  return std::nullopt;
}

std::optional<GpuGemmOwnRows> plan_own_rows(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  for (const GpuGemmMainloop* mainloop : gpu_gemm_mainloops())
    if (mainloop->own_rows != nullptr)
      if (const auto rows = mainloop->own_rows(problem, architecture)) return rows;
  return std::nullopt;
}

bool hides_epilogue(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  return std::ranges::any_of(gpu_gemm_mainloops(), [&](const GpuGemmMainloop* mainloop) {
    return mainloop->hides_epilogue != nullptr && mainloop->hides_epilogue(problem, architecture);
  });
}

bool gains_from_copy(const GpuGemmProblem& problem, const GpuGemmOperand& operand,
                     const GpuArchitecture& architecture) {
  if (operand.contiguous_in_k || !operand.is_view || problem.is_skinny()) return false;
  // Matrix instructions want operands of 8 bits along k.
  if (operand.element_bytes == 1) return architecture.has_f8_matrix && operand.k.divide_exactly(16).has_value();
  return std::ranges::any_of(gpu_gemm_mainloops(), [&](const GpuGemmMainloop* mainloop) {
    return mainloop->gains_from_copy != nullptr && mainloop->gains_from_copy(problem, operand, architecture);
  });
}

}  // namespace causeway::codegen
