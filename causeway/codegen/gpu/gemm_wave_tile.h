// What mainloops share of whose tile (kernels/gpu/gemm_layout.h) each wave multiplies fragments: the portable one, and
// CDNA's ping-pong.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "causeway/codegen/gpu/gemm_mainloop.h"
#include "causeway/kernels/gpu/gemm_layout.h"

namespace causeway::codegen {

// What is multiplied: 16-bit operands, float rounded to tf32 by matrix instructions, or float.
enum class WaveGemmOperand { kHalf, kTf32, kFloat };
WaveGemmOperand wave_gemm_operand(GpuGemmType type);
constexpr int operand_bytes(WaveGemmOperand operand) { return operand == WaveGemmOperand::kHalf ? 2 : 4; }

// GEMMs with a side of at most 16 have tiles of their own.
enum class WaveGemmSides { kLarge, kSkinnyM, kSkinnyN };

struct WaveGemmSchedule {
  GpuArchitecture::WaveMatrix instructions;
  WaveGemmOperand operand;
  WaveGemmSides sides;
  GpuGemmTile tile;
  double efficiency;  // part of the multipliers' speed that the tile reaches
};
// Of the portable mainloop, which others are compared with.
std::span<const WaveGemmSchedule> portable_gemm_schedules();

struct WaveGemmChoice {
  GpuGemmTile tile;
  int splits = 1;
  double microseconds = 0;  // by the model
};
// The fastest. Nothing where none is for the problem. Where its order is fixed, only k counts. A GEMM whose sizes are
// not all known is never split.
std::optional<WaveGemmChoice> choose_wave_gemm(std::span<const WaveGemmSchedule> schedules,
                                               const GpuGemmProblem& problem, const GpuArchitecture& architecture);
GpuGemmPlan plan_wave_gemm(const WaveGemmChoice& choice, const GpuGemmProblem& problem,
                           const GpuArchitecture& architecture);

std::string wave_gemm_members(const GpuGemmPlan& plan);
GpuGemmLaunch launch_wave_gemm(const GpuGemmProblem& problem, const GpuGemmPlan& plan,
                               const GpuArchitecture& architecture);

// "static constexpr GpuGemmTile kTile = {.m = 128, ...};".
std::string gemm_tile_text(const GpuGemmTile& tile);

}  // namespace causeway::codegen
