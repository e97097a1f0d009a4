// GEMMs of whatever is not scaled, on every architecture (kernels/gpu/gemm.h).
#include "causeway/codegen/gpu/gemm_mainloops.h"
#include "causeway/codegen/gpu/gemm_wave_tile.h"

namespace causeway::codegen {
namespace {

using enum GpuArchitecture::WaveMatrix;
using enum WaveGemmOperand;
using enum WaveGemmSides;

// Tiles by what fits registers and shared memory (tests/golden/gpu_budgets.txt), as {m, n, k, wave_m, wave_n, stages,
// blocks_per_unit}. AMD's tiles of 128 x 128 keep one slice in shared memory, so that it holds several blocks.
// Efficiencies are set by hand from runs of sm_90a; those of AMD were never measured.
constexpr WaveGemmSchedule kPortableSchedules[] = {
    {kMmaSync, kHalf, kLarge, {128, 128, 32, 64, 64, 3, 2}, 1.0},
    {kMmaSync, kHalf, kLarge, {64, 64, 32, 32, 32, 4, 2}, 0.55},
    {kMmaSync, kHalf, kSkinnyM, {16, 128, 64, 16, 32, 4, 1}, 0.1},
    {kMmaSync, kHalf, kSkinnyN, {128, 16, 64, 32, 16, 4, 1}, 0.1},
    {kMmaSync, kTf32, kLarge, {128, 128, 16, 64, 32, 4, 1}, 1.0},
    {kMmaSync, kTf32, kLarge, {64, 64, 16, 32, 32, 4, 2}, 0.55},
    {kMmaSync, kTf32, kSkinnyM, {16, 128, 32, 16, 32, 4, 1}, 0.1},
    {kMmaSync, kTf32, kSkinnyN, {128, 16, 32, 32, 16, 4, 1}, 0.1},
    {kMmaSync, kFloat, kLarge, {128, 128, 16, 64, 32, 3, 1}, 1.0},
    {kMmaSync, kFloat, kLarge, {64, 64, 16, 32, 32, 4, 2}, 0.55},
    {kMmaSync, kFloat, kSkinnyM, {16, 128, 32, 16, 32, 4, 1}, 0.1},
    {kMmaSync, kFloat, kSkinnyN, {128, 16, 32, 32, 16, 4, 1}, 0.1},
    {kMfma, kHalf, kLarge, {128, 128, 32, 64, 64, 1, 2}, 0.8},
    {kMfma, kHalf, kLarge, {64, 64, 32, 32, 32, 2, 2}, 0.45},
    {kMfma, kHalf, kSkinnyM, {16, 128, 64, 16, 32, 2, 1}, 0.1},
    {kMfma, kHalf, kSkinnyN, {128, 16, 64, 32, 16, 2, 1}, 0.1},
    {kMfma, kTf32, kLarge, {128, 128, 16, 64, 64, 1, 2}, 1.0},
    {kMfma, kTf32, kLarge, {64, 64, 16, 32, 32, 2, 2}, 0.55},
    {kMfma, kTf32, kSkinnyM, {16, 128, 32, 16, 32, 2, 1}, 0.1},
    {kMfma, kTf32, kSkinnyN, {128, 16, 32, 32, 16, 2, 1}, 0.1},
    {kMfma, kFloat, kLarge, {128, 128, 16, 64, 64, 1, 2}, 1.0},
    {kMfma, kFloat, kLarge, {64, 64, 16, 32, 32, 2, 2}, 0.55},
    {kMfma, kFloat, kSkinnyM, {16, 128, 32, 16, 32, 2, 1}, 0.1},
    {kMfma, kFloat, kSkinnyN, {128, 16, 32, 32, 16, 2, 1}, 0.1},
};

std::optional<GpuGemmPlan> plan_portable(const GpuGemmProblem& problem, const GpuArchitecture& architecture) {
  if (problem.scales != GpuGemmScales::kNone) return std::nullopt;
  const auto choice = choose_wave_gemm(kPortableSchedules, problem, architecture);
  if (!choice) return std::nullopt;
  return plan_wave_gemm(*choice, problem, architecture);
}

}  // namespace

std::span<const WaveGemmSchedule> portable_gemm_schedules() { return kPortableSchedules; }

const GpuGemmMainloop& portable_gemm_mainloop() {
  static constexpr GpuGemmMainloop kMainloop = {.header = "causeway/kernels/gpu/gemm.h",
                                                .run = "gemm_run",
                                                .combine = "gemm_combine",
                                                .plan = plan_portable,
                                                .members = wave_gemm_members,
                                                .launch = launch_wave_gemm};
  return kMainloop;
}

}  // namespace causeway::codegen
