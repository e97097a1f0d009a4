// Large GEMMs on CDNA 2 and CDNA 3, two halves of whose waves ping-pong (kernels/gpu/gemm_cdna.h).
#include "causeway/codegen/gpu/gemm_mainloops.h"
#include "causeway/codegen/gpu/gemm_wave_tile.h"

namespace causeway::codegen {
namespace {

// By what fits registers and shared memory (tests/golden/gpu_budgets.txt). Never measured.
constexpr WaveGemmSchedule kCdnaSchedules[] = {{.instructions = GpuArchitecture::WaveMatrix::kMfma,
                                                .operand = WaveGemmOperand::kHalf,
                                                .sides = WaveGemmSides::kLarge,
                                                .tile = {.m = 256,
                                                         .n = 256,
                                                         .k = 32,
                                                         .wave_m = 128,
                                                         .wave_n = 64,
                                                         .stages = 2,
                                                         .blocks_per_unit = 1,
                                                         .ping_pong = true},
                                                .efficiency = 1.0}};

std::optional<GpuGemmPlan> plan_cdna(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  if (problem.scales != GpuGemmScales::kNone) return std::nullopt;
  const auto choice = choose_wave_gemm(kCdnaSchedules, problem, architecture);
  // An empty GEMM takes no time by any tile.
  if (!choice || choice->microseconds == 0) return std::nullopt;
  const auto portable = choose_wave_gemm(portable_gemm_schedules(), problem, architecture);
  if (portable && portable->microseconds < choice->microseconds) return std::nullopt;
  return plan_wave_gemm(*choice, problem, architecture);
}

}  // namespace

const GpuGemmMainloop& cdna_gemm_mainloop() {
  static constexpr GpuGemmMainloop kMainloop = {.header = "causeway/kernels/gpu/gemm_cdna.h",
                                                .run = "cdna_gemm_run",
                                                .combine = "gemm_combine",
                                                .plan = plan_cdna,
                                                .members = wave_gemm_members,
                                                .launch = launch_wave_gemm};
  return kMainloop;
}

}  // namespace causeway::codegen
